//! Checkpoints of random numbers, to run and to measure models whose weights are not at hand.

use super::Source;
use crate::beside;
use crate::codes;
use crate::number::narrow;
use crate::sampling::{GAMMA, mix};
use serde_json::{Map, json};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dtype::DType;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

/// Elements made at once.
const CHUNK: usize = 1 << 16;

/// A tensor of a checkpoint: its extents, and how many numbers are summed with its own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    shape: Vec<u64>,
    inputs: u64,
}

/// Writes `model.safetensors` into a directory: every tensor that the sources name, in bf16. Equal
/// seeds give equal bytes.
///
/// Elements of matrices are uniform with variance `1 / inputs`, so that activations keep their size;
/// those of vectors lie within 0.1 of 1.
///
/// # Errors
/// `W113` where the file cannot be written.
pub fn write(directory: &Path, sources: &[Source], seed: u64) -> Result<u64> {
    let wanted = tensors(sources);
    fs::create_dir_all(directory).map_err(|error| {
        let message = format!("{} cannot be written: {error}", directory.display());
        Box::new(Diagnostic::error(codes::UNWRITABLE, message))
    })?;
    beside::write(&directory.join("model.safetensors"), |file| fill(file, &wanted, seed))?;
    Ok(wanted.values().map(elements).fold(0, u64::saturating_add))
}

fn elements(wanted: &Wanted) -> u64 {
    wanted.shape.iter().fold(1, |n, &d| n.saturating_mul(d))
}

/// The tensors that sources name; one that several read is as large as all need.
fn tensors(sources: &[Source]) -> BTreeMap<String, Wanted> {
    let mut out: BTreeMap<String, Wanted> = BTreeMap::new();
    for source in sources {
        let of_matrix = &source.dims[usize::from(source.experts.is_some())..];
        let (inputs, outputs) = of_matrix.split_at(source.inputs.min(of_matrix.len()));
        let (ins, all) = (inputs.iter().product::<u64>(), outputs.iter().product::<u64>());
        for name in &source.tensors {
            let heads =
                name.contains("{h}").then(|| all / outputs.last().copied().unwrap_or(1).max(1));
            let outs = match (heads, source.rows) {
                (Some(heads), _) => all / heads.max(1),
                (None, Some(r)) => r.first + (r.runs.max(1) - 1) * r.stride + r.run,
                (None, None) => all,
            };
            let packed = !name.contains("{e}");
            let shape = match (source.inputs, source.transposed) {
                (0, _) if source.rows.is_some() => vec![outs],
                (0, _) => of_matrix.to_vec(),
                (_, false) => vec![outs, ins],
                (_, true) => vec![ins, outs],
            };
            let stack = source.experts.filter(|_| packed);
            let shape: Vec<u64> = stack.into_iter().chain(shape).collect();
            let experts = 0..if packed { 1 } else { source.experts.unwrap_or(1) };
            for (expert, head) in experts.flat_map(|e| (0..heads.unwrap_or(1)).map(move |h| (e, h)))
            {
                let name = name.replace("{e}", &expert.to_string());
                let name = name.replace("{h}", &head.to_string());
                let known = out.entry(name).or_insert(Wanted { shape: shape.clone(), inputs: ins });
                if known.shape.len() == shape.len() {
                    known.shape.iter_mut().zip(&shape).for_each(|(a, &b)| *a = b.max(*a));
                }
            }
        }
    }
    out
}

fn fill(
    file: &mut impl Write,
    wanted: &BTreeMap<String, Wanted>,
    seed: u64,
) -> std::io::Result<()> {
    let (mut header, mut at) = (Map::new(), 0u64);
    for (name, tensor) in wanted {
        let end = at + elements(tensor) * 2;
        let entry = json!({"dtype": "BF16", "shape": tensor.shape, "data_offsets": [at, end]});
        header.insert(name.clone(), entry);
        at = end;
    }
    let mut text = serde_json::Value::Object(header).to_string();
    text.push_str(&" ".repeat(text.len().next_multiple_of(8) - text.len()));
    file.write_all(&(text.len() as u64).to_le_bytes())?;
    file.write_all(text.as_bytes())?;
    let mut state = seed;
    let mut numbers = vec![0.0f32; CHUNK];
    let mut bytes = vec![0; 2 * CHUNK];
    for tensor in wanted.values() {
        let vector = tensor.shape.len() < 2;
        let (middle, reach) =
            if vector { (1.0, 0.1) } else { (0.0, (3.0 / tensor.inputs.max(1) as f32).sqrt()) };
        let mut left = elements(tensor);
        while left > 0 {
            let count = left.min(CHUNK as u64) as usize;
            for x in &mut numbers[..count] {
                *x = middle + reach * uniform(&mut state);
            }
            narrow(DType::Bf16, &numbers[..count], &mut bytes[..2 * count]);
            file.write_all(&bytes[..2 * count])?;
            left -= count as u64;
        }
    }
    Ok(())
}

/// A number of −1 to 1.
fn uniform(state: &mut u64) -> f32 {
    let bits = mix(*state);
    *state = state.wrapping_add(GAMMA);
    (bits >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}
