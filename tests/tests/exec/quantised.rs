//! Golden models with their matrices in scaled fp8, or their experts in MXFP4, on CPU ranks: what the
//! dequantised weights give, in the memory of the plan.

use super::golden::{Runs, programs, run};
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
use shardc_tests::golden::Golden;
use shardc_tests::random::Random;
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
#[derive(Clone)]
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

/// A folder for a variant of a golden model, with what it has beside its weights; `edit` changes its
/// configuration.
fn variant(config: &Path, kind: &str, edit: impl Fn(&mut serde_json::Value)) -> Result<PathBuf> {
    let model = config.parent().and_then(Path::file_name).unwrap_or_default();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exec-quantised").join(kind);
    let folder = folder.join(model);
    fs::create_dir_all(&folder)?;
    for file in ["golden.safetensors", "golden.json"] {
        fs::copy(config.with_file_name(file), folder.join(file))?;
    }
    let mut facts: serde_json::Value = serde_json::from_str(&fs::read_to_string(config)?)?;
    edit(&mut facts);
    fs::write(folder.join("config.json"), facts.to_string())?;
    Ok(folder)
}

/// The tensors of a golden model, each by what `change` makes of it.
fn changed(config: &Path, mut change: impl FnMut(Stored) -> Vec<Stored>) -> Result<Vec<Stored>> {
    let bytes = fs::read(config.with_file_name("model.safetensors"))?;
    let stored = |(name, view): (String, TensorView<'_>)| Stored {
        name,
        dtype: view.dtype(),
        shape: view.shape().to_vec(),
        bytes: view.data().to_vec(),
    };
    let tensors = SafeTensors::deserialize(&bytes)?.tensors();
    Ok(tensors.into_iter().flat_map(|tensor| change(stored(tensor))).collect())
}

fn save(folder: &Path, tensors: &[Stored]) -> Result<PathBuf> {
    let views = tensors
        .iter()
        .map(|t| Ok((t.name.clone(), TensorView::new(t.dtype, t.shape.clone(), &t.bytes)?)));
    let views: Vec<_> = views.collect::<Result<_>>()?;
    fs::write(folder.join("model.safetensors"), safetensors::serialize(views, None)?)?;
    Ok(folder.join("config.json"))
}

/// Writes the model with its projections quantised into a folder of its own.
fn write(config: &Path) -> Result<PathBuf> {
    let folder = variant(config, "fp8", |facts| {
        facts["quantization_config"] = serde_json::json!({
            "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
            "weight_block_size": [BLOCK, BLOCK],
        });
    })?;
    let tensors =
        changed(config, |t| match t.name.contains("_proj") && t.name.ends_with(".weight") {
            true => quantise(&t.name, &t.shape, &t.bytes).into(),
            false => vec![t],
        })?;
    save(&folder, &tensors)
}

/// Plans of a model under several degrees give what was wanted.
fn agree(model: &Ranks, wanted: &Runs) -> Result<()> {
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

/// Plans of a quantised model give what the interpreter gives of its dequantised weights.
pub fn quantised(config: &Path, _text: String) -> Outcome {
    let model = Ranks::read(&write(config)?)?;
    let [plain, _] = programs(&model.golden)?;
    let wanted = run(&model.golden, [&plain, &plain], &Options::default())?;
    agree(&model, &wanted)
}

/// Elements of an MXFP4 block, and what its codes mean (OCP MX 1.0); the upper half is negative.
const MX_BLOCK: usize = 32;
const MX_CODES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// Width of an expert of the packed model: two blocks.
const WIDTH: usize = 64;

/// Random experts `[experts, outputs, inputs]` in MXFP4 as checkpoints of GPT-OSS store them, and the
/// same in f32 as those without quantisation do, inputs before outputs.
fn experts(name: &str, shape: [usize; 3], random: &mut Random) -> ([Stored; 2], Stored) {
    let [experts, outputs, inputs] = shape;
    let columns = inputs / MX_BLOCK;
    let codes: Vec<u8> = (0..experts * outputs * inputs).map(|_| random.below(16) as u8).collect();
    let powers: Vec<u8> =
        (0..codes.len() / MX_BLOCK).map(|_| 121 + random.below(3) as u8).collect();
    let number = |i: usize| {
        let (code, power) = (codes[i], i32::from(powers[i / MX_BLOCK]) - 127);
        let sign = if code < 8 { 1.0 } else { -1.0 };
        sign * MX_CODES[usize::from(code % 8)] * 2f32.powi(power)
    };
    let at = |e: usize, input: usize, output: usize| (e * outputs + output) * inputs + input;
    let mut plain = Vec::with_capacity(4 * codes.len());
    for (e, input) in (0..experts).flat_map(|e| (0..inputs).map(move |i| (e, i))) {
        (0..outputs).for_each(|o| plain.extend(number(at(e, input, o)).to_le_bytes()));
    }
    let packed = codes.as_chunks::<2>().0.iter().map(|[low, high]| low | high << 4).collect();
    let stored = |suffix: &str, dtype, shape: &[usize], bytes| Stored {
        name: format!("{name}{suffix}"),
        dtype,
        shape: shape.into(),
        bytes,
    };
    let blocks = [experts, outputs, columns, MX_BLOCK / 2];
    (
        [
            stored("_blocks", Dtype::U8, &blocks, packed),
            stored("_scales", Dtype::U8, &blocks[..3], powers),
        ],
        stored("", Dtype::F32, &[experts, inputs, outputs], plain),
    )
}

/// A model with experts in MXFP4 gives what the interpreter gives of a checkpoint that holds the same
/// numbers in f32.
pub fn packed(config: &Path, _text: String) -> Outcome {
    let width = |facts: &mut serde_json::Value| facts["intermediate_size"] = WIDTH.into();
    let plain = variant(config, "mxfp4-plain", width)?;
    let packed = variant(config, "mxfp4", |facts| {
        width(facts);
        facts["quantization_config"] = serde_json::json!({
            "quant_method": "mxfp4",
            "modules_to_not_convert": [
                "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
                "lm_head",
            ],
        });
    })?;
    let (mut random, mut wide) = (Random::new(3), Vec::new());
    let narrow = changed(config, |t| {
        let (experts_of, hidden) = (t.shape[0], t.shape.get(1).copied().unwrap_or(0));
        let shape = match t.name.rsplit('.').next().unwrap_or_default() {
            "gate_up_proj" => [experts_of, 2 * WIDTH, hidden],
            "down_proj" => [experts_of, t.shape[2], WIDTH],
            "gate_up_proj_bias" => {
                let bytes =
                    (0..experts_of * 2 * WIDTH).flat_map(|i| (i as f32 * 1e-3).to_le_bytes());
                let bytes: Vec<u8> = bytes.collect();
                let shape = vec![experts_of, 2 * WIDTH];
                wide.push(Stored { shape: shape.clone(), bytes: bytes.clone(), ..t.clone() });
                return vec![Stored { shape, bytes, ..t }];
            }
            _ => {
                wide.push(t.clone());
                return vec![t];
            }
        };
        let (narrow, own) = experts(&t.name, shape, &mut random);
        wide.push(own);
        narrow.into()
    })?;
    let golden = Golden::read(&save(&plain, &wide)?)?;
    let model = Ranks::read(&save(&packed, &narrow)?)?;
    let [program, _] = programs(&golden)?;
    let wanted = run(&golden, [&program, &program], &Options::default())?;
    agree(&model, &wanted)
}
