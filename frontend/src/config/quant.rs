//! `quantization_config` to storage formats.

use super::fields::Fields;
use super::{Cx, modelopt};
use crate::codes;
use crate::spec::*;
use shardc_ir::diag::{Diagnostic, Result};

/// Keys that list modules left unconverted.
pub(super) const SKIP: [&str; 4] =
    ["modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"];

/// How the checkpoint's weights are stored.
pub(crate) fn read(cx: &Cx) -> Result<Quantisation> {
    let key = "quantization_config";
    let own = cx.object(key)?;
    let config = match own {
        Some(config) => Some(config),
        None => cx.top.object(key)?,
    };
    let Some(config) = config else { return Ok(Quantisation::default()) };
    let method = match config.text("quant_method")? {
        Some(method) => method,
        None if config.has("quant_algo") => "modelopt",
        None => return Err(config.missing("quant_method")),
    };
    if method == "modelopt" {
        let inner = config.object("quantization")?;
        return modelopt::read(inner.as_ref().unwrap_or(&config));
    }
    let scheme = scheme(&config, method)?;
    let skip = config.texts(SKIP)?.unwrap_or_default();
    Ok(Quantisation {
        scheme,
        skip: skip.into_iter().map(Pattern::new).collect(),
        only: Vec::new(),
        kv_cache: modelopt::kv_cache(&config)?,
    })
}

/// Words in names of models that stand for quantised weights.
const WORDS: [&str; 14] = [
    "fp8", "fp4", "nvfp4", "mxfp4", "int8", "int4", "awq", "gptq", "w8a8", "w4a16", "w8a16",
    "w4a8", "4bit", "8bit",
];

/// Warns where the model's name says that weights are quantised and nothing describes how.
pub(super) fn warn_of_name(cx: &Cx, spec: &ModelSpec) {
    let word = |w: &&str| WORDS.contains(&w.to_ascii_lowercase().as_str());
    let found = cx.name.split(|c: char| !c.is_ascii_alphanumeric()).find(word);
    let (Some(word), None) = (found, &spec.quantisation.scheme) else { return };
    let message = format!(
        "the name says {word}, no file how weights are stored: {} (hf_quant_config.json missing?)",
        spec.dtype
    );
    cx.warn(codes::UNDESCRIBED, ["dtype", "torch_dtype"], message);
}

fn scheme(q: &Fields, method: &str) -> Result<Option<Scheme>> {
    match method {
        "fp8" => fp8(q).map(Some),
        "mxfp4" => Ok(Some(Scheme::mxfp4())),
        "fbgemm_fp8" => {
            let scales = Scales::Row { scale: DType::F32 };
            Ok(Some(Scheme::whole(method, DType::F8E4M3, scales, Some(DType::F8E4M3))))
        }
        "gptq" | "awq" => integer(q, method).map(Some),
        "compressed-tensors" => compressed(q).map(Some),
        other => Err(refuse(q, &format!("the quantisation method {other:?}"))),
    }
}

/// Per block where `weight_block_size` is given, else per tensor.
fn fp8(q: &Fields) -> Result<Scheme> {
    let Some(block) = q.wholes("weight_block_size")? else {
        let fixed = q.text("activation_scheme")? == Some("static");
        let scales = Scales::Tensor { scale: DType::F32 };
        let scheme = Scheme::whole("fp8", DType::F8E4M3, scales, Some(DType::F8E4M3));
        return Ok(scheme.with_singles(u8::from(fixed)));
    };
    let [rows, cols] = block[..] else {
        let message = format!("`weight_block_size` has {} numbers instead of 2", block.len());
        return Err(q.conflict(&["weight_block_size"], message, "give [rows, columns]"));
    };
    Ok(Scheme::fp8_block("fp8", extent(q, rows)?, extent(q, cols)?))
}

/// The extent of a block.
pub(super) fn extent(q: &Fields, n: u64) -> Result<u32> {
    match u32::try_from(n) {
        Ok(n) if n > 0 => Ok(n),
        _ => {
            let message = format!("a block of {n} is empty");
            Err(q.conflict(&["weight_block_size", "group_size"], message, "blocks hold 1 or more"))
        }
    }
}

/// Packed integers with one scale and one zero point per group of inputs.
fn integer(q: &Fields, method: &str) -> Result<Scheme> {
    let dtype = match q.whole_or(["bits", "w_bit"], 4, 1, 16)? {
        4 => DType::I4,
        8 => DType::I8,
        bits => return Err(refuse(q, &format!("{method} with {bits} bits"))),
    };
    let group = match q.find("group_size").is_some() {
        true if q.number("group_size")? == Some(-1.0) => None,
        _ => Some(q.whole_or(["group_size", "q_group_size"], 128, 1, 1 << 20)?),
    };
    let scales = match group {
        None => Scales::Row { scale: DType::F16 },
        Some(cols) => {
            Scales::Block { rows: 1, cols: extent(q, cols)?, scale: DType::F16, zero: Some(dtype) }
        }
    };
    Ok(Scheme::whole(method, dtype, scales, None))
}

/// 4-bit floats with one FP8 scale per `group` inputs, those scaled in turn by one number; another
/// scales activations where they are converted.
pub(super) fn nvfp4(method: &str, activations: Option<DType>, group: u32) -> Scheme {
    let scales = Scales::Block { rows: 1, cols: group, scale: DType::F8E4M3, zero: None };
    let singles = 1 + u8::from(activations.is_some());
    Scheme::whole(method, DType::F4E2M1, scales, activations).with_singles(singles)
}

/// The weights of the one group that `compressed-tensors` describes.
fn compressed(q: &Fields) -> Result<Scheme> {
    let groups = q.object("config_groups")?.ok_or_else(|| q.missing("config_groups"))?;
    let Some(group) = groups.object("group_0")? else { return Err(groups.missing("group_0")) };
    if groups.keys().count() > 1 {
        return Err(refuse(q, "compressed-tensors with several groups"));
    }
    let w = group.object("weights")?.ok_or_else(|| group.missing("weights"))?;
    let bits = w.whole_or("num_bits", 8, 1, 16)?;
    let kind = w.text("type")?.unwrap_or("int");
    let dtype = match (kind, bits) {
        ("float", 8) => DType::F8E4M3,
        ("float", 4) => DType::F4E2M1,
        ("int", 8) => DType::I8,
        ("int", 4) => DType::I4,
        _ => return Err(refuse(q, &format!("compressed-tensors with {bits}-bit {kind}"))),
    };
    let inputs = group.object("input_activations")?;
    let activations = inputs.is_some().then_some(dtype);
    if dtype == DType::F4E2M1 {
        return Ok(nvfp4("compressed-tensors", activations, 16));
    }
    let scales = compressed_scales(q, &w, dtype)?;
    let fixed = match inputs {
        Some(inputs) => !inputs.flag_or("dynamic", false)?,
        None => false,
    };
    let scheme = Scheme::whole("compressed-tensors", dtype, scales, activations);
    Ok(scheme.with_singles(u8::from(fixed)))
}

/// The scales of `compressed-tensors`' weights `w`.
fn compressed_scales(q: &Fields, w: &Fields, dtype: DType) -> Result<Scales> {
    let zero = (!w.flag_or("symmetric", true)?).then_some(dtype);
    match w.text("strategy")?.unwrap_or("tensor") {
        "tensor" => Ok(Scales::Tensor { scale: DType::F32 }),
        "channel" => Ok(Scales::Row { scale: DType::Bf16 }),
        "group" => {
            let cols = extent(q, w.whole_or("group_size", 128, 1, 1 << 20)?)?;
            Ok(Scales::Block { rows: 1, cols, scale: DType::Bf16, zero })
        }
        "block" => {
            let block = w.wholes("block_structure")?.unwrap_or(vec![128, 128]);
            let [rows, cols] = block[..] else {
                return Err(refuse(q, "a block structure without two extents"));
            };
            let (rows, cols) = (extent(q, rows)?, extent(q, cols)?);
            Ok(Scales::Block { rows, cols, scale: DType::F32, zero: None })
        }
        other => Err(refuse(q, &format!("the strategy {other:?}"))),
    }
}

pub(super) fn refuse(q: &Fields, what: &str) -> Box<Diagnostic> {
    let error = Diagnostic::error(
        codes::UNSUPPORTED_QUANTISATION,
        format!("{what} is not supported"),
    )
    .note("supported: fp8 (block or tensor), fbgemm_fp8, mxfp4, gptq and awq (4 or 8 bits), modelopt (FP8, NVFP4, W4A16_AWQ, W4A8_AWQ), compressed-tensors (one group)")
    .help("remove `quantization_config` to plan the unquantised model");
    Box::new(q.point(error, &["quant_method", "quant_algo", "bits"]))
}
