//! Parameters read from small checkpoints: every part is what cutting the whole gives, scales apply
//! to their blocks, and damaged files are named.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where the project is wrong")]

use safetensors::tensor::{Dtype, TensorView};
use shardc_ir::diag::Diagnostic;
use shardc_runtime::weights::{Checkpoint, Rows, Source};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

#[derive(Clone)]
struct Tensor {
    name: &'static str,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

fn f32s(name: &'static str, shape: &[usize], f: impl Fn(usize) -> f32) -> Tensor {
    let count = shape.iter().product();
    let bytes = (0..count).flat_map(|i| f(i).to_le_bytes()).collect();
    Tensor { name, dtype: Dtype::F32, shape: shape.to_vec(), bytes }
}

fn raw(name: &'static str, dtype: Dtype, shape: &[usize], f: impl Fn(usize) -> u8) -> Tensor {
    let count = shape.iter().product();
    Tensor { name, dtype, shape: shape.to_vec(), bytes: (0..count).map(f).collect() }
}

/// Writes a checkpoint of one file.
fn write(test: &str, tensors: &[Tensor]) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("weights").join(test);
    fs::create_dir_all(&dir).unwrap();
    let views = tensors
        .iter()
        .map(|t| (t.name, TensorView::new(t.dtype, t.shape.clone(), &t.bytes).unwrap()));
    let file = dir.join("model.safetensors");
    fs::write(&file, safetensors::serialize(views, None).unwrap()).unwrap();
    file
}

fn source(name: &str, dims: &[u64], inputs: usize) -> Source {
    Source {
        param: "p".to_string(),
        dims: dims.to_vec(),
        inputs,
        tensors: vec![name.to_string()],
        stacked: false,
        experts: None,
        transposed: false,
        rows: None,
    }
}

fn read(file: &Path, source: &Source) -> Vec<f32> {
    Checkpoint::open(file).unwrap().part(source, &source.whole()).unwrap()
}

fn refused(file: &Path, source: &Source) -> Box<Diagnostic> {
    let read = Checkpoint::open(file).and_then(|c| c.part(source, &source.whole()));
    read.err().unwrap_or_else(|| panic!("it was read"))
}

/// Every box of some extents.
fn boxes(dims: &[Range<u64>]) -> Vec<Vec<Range<u64>>> {
    dims.iter().fold(vec![Vec::new()], |boxes, dim| {
        let ranges = (0..dim.end).flat_map(|lo| (lo + 1..=dim.end).map(move |hi| lo..hi));
        let ranges: Vec<Range<u64>> = ranges.collect();
        boxes
            .iter()
            .flat_map(|b| ranges.iter().map(|r| [&b[..], std::slice::from_ref(r)].concat()))
            .collect()
    })
}

/// The elements of a box of a row-major whole.
fn cut(whole: &[f32], dims: &[Range<u64>], part: &[Range<u64>]) -> Vec<f32> {
    let numbers = dims.iter().zip(part).fold(vec![0u64], |numbers, (dim, range)| {
        numbers.iter().flat_map(|n| range.clone().map(move |i| n * dim.end + i)).collect()
    });
    numbers.into_iter().map(|n| whole[n as usize]).collect()
}

fn every_part(file: &Path, source: &Source) {
    let checkpoint = Checkpoint::open(file).unwrap();
    let dims = source.whole();
    let whole = checkpoint.part(source, &dims).unwrap();
    for part in boxes(&dims) {
        let wanted = cut(&whole, &dims, &part);
        assert_eq!(checkpoint.part(source, &part).unwrap(), wanted, "{part:?} of {source:?}");
    }
}

#[test]
fn inputs_come_before_outputs() {
    let file = write("transpose", &[f32s("w", &[3, 2], |i| i as f32)]);
    assert_eq!(read(&file, &source("w", &[2, 3], 1)), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
    let stored_so = Source { transposed: true, ..source("w", &[3, 2], 1) };
    assert_eq!(read(&file, &stored_so), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    every_part(&file, &source("w", &[2, 3], 1));
    every_part(&file, &stored_so);
    every_part(&file, &source("w", &[3, 2], 0));
}

#[test]
fn fused_projections_are_told_apart() {
    // Two kv heads, each with two rows of queries, one of keys, one of values.
    let file = write("fused", &[f32s("qkv", &[8, 2], |i| i as f32)]);
    let rows = |first, run| Some(Rows { first, run, stride: 4, runs: 2 });
    let q = Source { rows: rows(0, 2), ..source("qkv", &[2, 2, 2], 1) };
    assert_eq!(read(&file, &q), [0.0, 2.0, 8.0, 10.0, 1.0, 3.0, 9.0, 11.0]);
    every_part(&file, &q);
    every_part(&file, &Source { rows: rows(3, 1), ..source("qkv", &[2, 2, 1], 1) });
}

#[test]
fn experts_lie_in_one_tensor_or_in_many() {
    let all = f32s("all", &[2, 3, 2], |i| i as f32);
    let one = [f32s("e.0", &[3, 2], |i| i as f32), f32s("e.1", &[3, 2], |i| 6.0 + i as f32)];
    let file = write("experts", &[&[all], &one[..]].concat());
    let stacked = Source { experts: Some(2), ..source("all", &[2, 2, 3], 1) };
    let single = Source { experts: Some(2), ..source("e.{e}", &[2, 2, 3], 1) };
    assert_eq!(read(&file, &stacked), read(&file, &single));
    every_part(&file, &stacked);
    every_part(&file, &single);
}

#[test]
fn layers_and_heads_have_tensors_of_their_own() {
    let tensors = [f32s("0.h0", &[2, 3], |i| i as f32), f32s("0.h1", &[2, 3], |i| 6.0 + i as f32)];
    let more = [f32s("1.h0", &[2, 3], |i| 20.0 + i as f32), f32s("1.h1", &[2, 3], |i| -(i as f32))];
    let file = write("heads", &[tensors, more].concat());
    let layers = vec!["0.h{h}".to_string(), "1.h{h}".to_string()];
    let heads = Source { tensors: layers, stacked: true, ..source("", &[3, 2, 2], 1) };
    assert_eq!(read(&file, &heads)[..4], [0.0, 3.0, 6.0, 9.0]);
    every_part(&file, &heads);
}

#[test]
fn blocks_have_scales() {
    // 0x38 is one in E4M3; blocks of 128, the last ones short.
    let one = raw("w", Dtype::F8_E4M3, &[130, 129], |_| 0x38);
    let file = write("blocks", &[one, f32s("w_scale_inv", &[2, 2], |i| 1.0 + i as f32)]);
    let whole = read(&file, &source("w", &[129, 130], 1));
    let at = |input: usize, output: usize| whole[input * 130 + output];
    assert_eq!([at(0, 0), at(128, 0), at(0, 128), at(128, 129)], [1.0, 2.0, 3.0, 4.0]);

    let file = write(
        "rows",
        &[
            raw("w", Dtype::F8_E4M3, &[3, 2], |_| 0x38),
            f32s("w_scale", &[3, 1], |i| 1.0 + i as f32),
        ],
    );
    assert_eq!(read(&file, &source("w", &[2, 3], 1)), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);

    let tensor = raw("w", Dtype::F8_E4M3, &[3, 2], |_| 0x38);
    let file = write("tensor", &[tensor, f32s("w_scale", &[1], |_| 0.5)]);
    assert_eq!(read(&file, &source("w", &[2, 3], 1)), [0.5; 6]);
    every_part(&file, &source("w", &[2, 3], 1));
}

#[test]
fn packed_fours_are_read_by_blocks() {
    // Two experts of two outputs and 32 inputs: every byte 0x21 is 0.5, then 1.
    let blocks = raw("w_blocks", Dtype::U8, &[2, 2, 1, 16], |_| 0x21);
    let file = write("mxfp4", &[blocks, raw("w_scales", Dtype::U8, &[2, 2, 1], |i| 127 + i as u8)]);
    let packed = Source { experts: Some(2), transposed: true, ..source("w", &[2, 32, 2], 1) };
    let whole = read(&file, &packed);
    assert_eq!(whole[..4], [0.5, 1.0, 1.0, 2.0], "input 0 and 1 of both outputs");
    assert_eq!(whole[64..66], [2.0, 4.0], "the second expert");
    let checkpoint = Checkpoint::open(&file).unwrap();
    let part = [1..2, 3..5, 1..2];
    assert_eq!(checkpoint.part(&packed, &part).unwrap(), cut(&whole, &packed.whole(), &part));
}

#[test]
fn what_does_not_fit_is_named() {
    let file = write("unfit", &[f32s("model.w", &[3, 2], |_| 1.0), f32s("n", &[2], |_| f32::NAN)]);
    let missing = refused(&file, &source("model.v", &[2, 3], 1));
    assert_eq!((missing.code.id, missing.help.as_deref()), ("W003", Some("it has `model.w`")));
    let shape = refused(&file, &source("model.w", &[2, 4], 1));
    assert_eq!(shape.code.id, "W004");
    assert!(shape.message.contains("[3, 2]") && shape.message.contains("[4, 2]"), "{shape}");
    assert_eq!(refused(&file, &source("n", &[2], 0)).code.id, "W006");
    let file = write("format", &[raw("w", Dtype::U8, &[2], |_| 0)]);
    assert_eq!(refused(&file, &source("w", &[2], 0)).code.id, "W005");
}

#[test]
fn damaged_files_are_refused() {
    let file = write("damaged", &[f32s("w", &[3, 2], |_| 1.0)]);
    let bytes = fs::read(&file).unwrap();
    let code = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        Checkpoint::open(&file).err().map(|d| d.code.id)
    };
    assert_eq!(code(&bytes), None);
    for length in [0, 7, 20, bytes.len() - 1] {
        assert_eq!(code(&bytes[..length]), Some("W002"), "{length} bytes");
    }
    assert_eq!(code(&[&bytes[..], &[0]].concat()), Some("W002"));
    assert_eq!(code(&[255; 64]), Some("W002"));
    let text = String::from_utf8_lossy(&bytes[8..bytes.len() - 24]).replace("[3,2]", "[3,3]");
    assert_eq!(
        code(&[&bytes[..8], text.as_bytes(), &bytes[bytes.len() - 24..]].concat()),
        Some("W002")
    );
    fs::remove_file(&file).unwrap();
    assert_eq!(Checkpoint::open(&file).err().map(|d| d.code.id), Some("W001"));
    let index = file.with_file_name("model.safetensors.index.json");
    fs::write(&index, r#"{"weight_map": {"w": "../elsewhere.safetensors"}}"#).unwrap();
    assert_eq!(Checkpoint::open(&index).err().map(|d| d.code.id), Some("W002"));
}
