//! Golden models with their matrices in scaled fp8, on CPU ranks: what the dequantised weights give,
//! in the memory of the plan.

use super::golden::{programs, run};
use super::launched::{near, within};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use shardc_interp::Options;
use shardc_ir::dtype::DType;
use shardc_passes::strategy::Degrees;
use shardc_passes::strategy::megatron::ExpertExchange;
use shardc_runtime::comm::threads;
use shardc_runtime::number::{largest, narrow};
use shardc_runtime::session;
use shardc_tests::Outcome;
use shardc_tests::checkpoint::Result;
use shardc_tests::ranks::Ranks;
use std::fs;
use std::path::{Path, PathBuf};

/// Rows and columns of a block.
const BLOCK: usize = 4;

/// Degrees to run; a model takes those that it admits.
const DEGREES: [&str; 4] = ["tp=1", "tp=2,pp=2", "tp=2,dp=2,ep=4", "tp=2,cp=2"];

/// Sums in f32 of a dozen products of four times as many terms.
const TOLERANCE: f64 = 2e-4;

/// A tensor of a checkpoint.
struct Stored {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// A matrix in f32 as E4M3 with a scale for each block.
fn quantise(name: &str, shape: &[usize], bytes: &[u8]) -> [Stored; 2] {
    let numbers: Vec<f32> = bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
    let (rows, columns) = (shape[0], shape[1]);
    let (down, across) = (rows.div_ceil(BLOCK), columns.div_ceil(BLOCK));
    let mut scales = vec![0.0f32; down * across];
    let block = |i: usize| i / columns / BLOCK * across + i % columns / BLOCK;
    for (i, x) in numbers.iter().enumerate() {
        scales[block(i)] = scales[block(i)].max(x.abs() / largest(DType::F8E4M3));
    }
    let scaled: Vec<f32> = numbers.iter().enumerate().map(|(i, x)| x / scales[block(i)]).collect();
    let mut codes = vec![0; scaled.len()];
    narrow(DType::F8E4M3, &scaled, &mut codes);
    let bytes = scales.iter().flat_map(|s| s.to_le_bytes()).collect();
    let name_of_scales = format!("{name}_scale_inv");
    [
        Stored { name: name.into(), dtype: Dtype::F8_E4M3, shape: shape.into(), bytes: codes },
        Stored { name: name_of_scales, dtype: Dtype::F32, shape: vec![down, across], bytes },
    ]
}

/// Writes the model with its projections quantised into a folder of its own.
fn write(config: &Path) -> Result<PathBuf> {
    let model = config.parent().and_then(Path::file_name).unwrap_or_default();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exec-quantised").join(model);
    fs::create_dir_all(&folder)?;
    for file in ["golden.safetensors", "golden.json"] {
        fs::copy(config.with_file_name(file), folder.join(file))?;
    }
    let mut facts: serde_json::Value = serde_json::from_str(&fs::read_to_string(config)?)?;
    facts["quantization_config"] = serde_json::json!({
        "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
        "weight_block_size": [BLOCK, BLOCK],
    });
    fs::write(folder.join("config.json"), facts.to_string())?;
    let bytes = fs::read(config.with_file_name("model.safetensors"))?;
    let mut tensors = Vec::new();
    for (name, view) in SafeTensors::deserialize(&bytes)?.tensors() {
        let (shape, bytes) = (view.shape().to_vec(), view.data().to_vec());
        match name.contains("_proj") && name.ends_with(".weight") {
            true => tensors.extend(quantise(&name, &shape, &bytes)),
            false => tensors.push(Stored { name, dtype: view.dtype(), shape, bytes }),
        }
    }
    let views = tensors
        .iter()
        .map(|t| Ok((t.name.clone(), TensorView::new(t.dtype, t.shape.clone(), &t.bytes)?)));
    let views: Vec<_> = views.collect::<Result<_>>()?;
    fs::write(folder.join("model.safetensors"), safetensors::serialize(views, None)?)?;
    Ok(folder.join("config.json"))
}

/// Plans of a quantised model give what the interpreter gives of its dequantised weights.
pub fn quantised(config: &Path, _text: String) -> Outcome {
    let model = Ranks::read(&write(config)?)?;
    let [plain, _] = programs(&model.golden)?;
    let wanted = run(&model.golden, [&plain, &plain], &Options::default())?;
    let (job, context) = (model.job(true)?, model.context()?);
    let mut ran = 0;
    for text in DEGREES {
        let degrees = Degrees::parse(text).map_err(|d| d.message)?;
        if !degrees.is_legal(&model.facts, degrees.devices()) {
            continue;
        }
        let plan = model.plan(&degrees, ExpertExchange::AllToAll, context)?;
        let checkpoint = &model.checkpoint;
        let results =
            threads::run(plan.ranks(), |comm| session::run(&plan, checkpoint, &job, comm));
        let got = session::first(results).map_err(|d| format!("{text}: {d}"))?;
        near("the prompt", &got.prompt_logits, &wanted.prefill.results[1], TOLERANCE)?;
        near("decode steps", &got.decode_logits, &wanted.decoded(), TOLERANCE)?;
        within(&plan, &got)?;
        ran += 1;
    }
    if ran >= 3 { Ok(()) } else { Err(format!("only {ran} plans ran").into()) }
}
