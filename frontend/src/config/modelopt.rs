//! What NVIDIA's ModelOpt says of weights and KV cache: in `quantization_config`, or in a
//! `hf_quant_config.json` beside `config.json`.

use super::fields::Fields;
use super::log::Log;
use super::quant::{extent, refuse};
use crate::json::{self, Value};
use crate::spec::{DType, Pattern, Quantisation, Scales, Scheme};
use shardc_ir::diag::Result;

/// Reads a `hf_quant_config.json`.
///
/// # Errors
/// `F0xx` where the text is no JSON object, `F101`, `F102` and `F203` where it describes no
/// supported storage; they point into this text.
pub fn read_quantisation(text: &str) -> Result<Quantisation> {
    let node = json::parse(text)?;
    let log = Log::default();
    let top = Fields::new(&log, &node)?;
    let inner = top.object("quantization")?.ok_or_else(|| top.missing("quantization"))?;
    let read = read(&inner)?;
    log.check_spelling()?;
    Ok(read)
}

/// Reads the object that holds `quant_algo`.
pub(super) fn read(q: &Fields) -> Result<Quantisation> {
    let skip = q.texts(super::quant::SKIP)?.unwrap_or_default();
    let skip = skip.into_iter().map(Pattern::new).collect();
    let layers = match q.text("quant_algo")? {
        Some("MIXED_PRECISION") => Some(layers(q)?),
        _ => None,
    };
    let (algorithm, only) = match layers {
        Some((algorithm, only)) => (Some(algorithm), only),
        None => (q.text("quant_algo")?, Vec::new()),
    };
    let scheme = algorithm.map(|name| scheme(q, name)).transpose()?;
    Ok(Quantisation { scheme, skip, only, kv_cache: kv_cache(q)? })
}

/// The one algorithm of `quantized_layers`, and the modules that have it.
fn layers<'a>(q: &Fields<'a>) -> Result<(&'a str, Vec<Pattern>)> {
    let listed = q.object("quantized_layers")?.ok_or_else(|| q.missing("quantized_layers"))?;
    let mut found: Option<&str> = None;
    let mut only = Vec::new();
    for (module, entry) in listed.entries()? {
        let Some(own) = entry.text("quant_algo")? else { continue };
        if found.is_some_and(|other| other != own) {
            return Err(refuse(q, "modelopt's mixture of several algorithms"));
        }
        found = Some(own);
        only.push(Pattern::new(module));
    }
    found.map(|name| (name, only)).ok_or_else(|| listed.missing("quant_algo"))
}

/// How an algorithm stores a weight.
fn scheme(q: &Fields, algorithm: &str) -> Result<Scheme> {
    let fp8 = |scales| Scheme::whole("modelopt", DType::F8E4M3, scales, Some(DType::F8E4M3));
    let group = |default| extent(q, q.whole_or("group_size", default, 1, 1 << 20)?);
    match algorithm {
        "FP8" => Ok(fp8(Scales::Tensor { scale: DType::F32 }).with_singles(1)),
        "FP8_PER_CHANNEL_PER_TOKEN" => Ok(fp8(Scales::Row { scale: DType::F32 })),
        "FP8_PB_REAL" | "FP8_PB_WO" => Ok(Scheme::fp8_block("modelopt", 128, 128)),
        "NVFP4" | "NVFP4_AWQ" => {
            Ok(super::quant::nvfp4("modelopt", Some(DType::F4E2M1), group(16)?))
        }
        "W4A16_AWQ" | "W4A8_AWQ" => {
            let cols = group(128)?;
            let scales = Scales::Block { rows: 1, cols, scale: DType::F16, zero: None };
            let activations = (algorithm == "W4A8_AWQ").then_some(DType::F8E4M3);
            Ok(Scheme::whole("modelopt", DType::I4, scales, activations))
        }
        other => Err(refuse(q, &format!("modelopt's {other}"))),
    }
}

/// The format of the KV cache, where one is named.
pub(super) fn kv_cache(q: &Fields) -> Result<Option<DType>> {
    let scheme = "kv_cache_scheme";
    let named = match q.find(scheme).map(|(_, member)| &member.node.value) {
        Some(Value::String(word)) => Some((scheme, word.as_str())),
        _ => q.text("kv_cache_quant_algo")?.map(|word| ("kv_cache_quant_algo", word)),
    };
    match named {
        Some((_, "FP8")) => return Ok(Some(DType::F8E4M3)),
        Some((key, other)) => {
            let message = format!("a KV cache in {other} is not supported");
            return Err(q.unsupported(key, message, "supported: FP8"));
        }
        None => {}
    }
    let Some(scheme) = q.object(scheme)? else { return Ok(None) };
    match (scheme.text("type")?.unwrap_or("float"), scheme.whole_or("num_bits", 8, 1, 16)?) {
        ("float", 8) => Ok(Some(DType::F8E4M3)),
        (kind, bits) => {
            let message = format!("a KV cache in {bits}-bit {kind} is not supported");
            Err(scheme.unsupported("num_bits", message, "supported: 8-bit float"))
        }
    }
}
