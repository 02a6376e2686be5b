//! A checkpoint's `model.safetensors.index.json` against the model's weights: names and bytes.

use crate::codes;
use crate::json::{self, Limits, Member, Node, Value};
use crate::spec::names::text_model_name;
use crate::spec::{DType, ModelSpec};
use shardc_ir::diag::{Diagnostic, Result};
use std::collections::{BTreeMap, BTreeSet};

/// An index that agrees with the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Tensors of the model that the index names.
    pub tensors: usize,
    /// Bytes that the index states, where it does.
    pub total_size: Option<u64>,
    /// What was left out of the comparison.
    pub notes: Vec<Diagnostic>,
}

/// Compares an index with the model's [`weights`](ModelSpec::weights).
///
/// # Errors
/// `F0xx` where the text is no JSON object, `F303` where it is no index, `F301` where tensor names
/// differ, `F302` where the total size does.
pub fn check(spec: &ModelSpec, text: &str) -> Result<Report> {
    let node = json::parse_within(text, Limits::INDEX)?;
    let (map, total_size) = open(&node)?;
    let expected = tensors(spec);
    let predicting = prediction_layers(map);
    let mut found = BTreeSet::new();
    let mut ignored = BTreeSet::new();
    let mut extra = Vec::new();
    for (name, member) in map {
        let plain = base_name(name);
        if expected.contains(&plain) {
            found.insert(plain);
        } else if is_ignorable(name, spec) || predicting.iter().any(|p| name.starts_with(p)) {
            ignored.insert(name.as_str());
        } else {
            extra.push((name.as_str(), member));
        }
    }
    let missing: Vec<&String> = expected.difference(&found).collect();
    if !missing.is_empty() || !extra.is_empty() {
        return Err(names_differ(&missing, &extra));
    }
    let mut notes = Vec::new();
    match (total_size, ignored.first()) {
        (_, Some(first)) => notes.push(left_out(first, ignored.len())),
        (Some(total), None) => notes.extend(check_bytes(spec, total)?),
        (None, None) => {}
    }
    Ok(Report { tensors: found.len(), total_size, notes })
}

/// The weight map and the total size.
fn open(node: &Node) -> Result<(&BTreeMap<String, Member>, Option<u64>)> {
    let Value::Object(top) = &node.value else { return Err(no_index(node)) };
    let Some(Value::Object(map)) = top.get("weight_map").map(|m| &m.node.value) else {
        return Err(no_index(node));
    };
    let total = match top.get("metadata").map(|m| &m.node.value) {
        Some(Value::Object(metadata)) => metadata.get("total_size"),
        _ => None,
    };
    match total.map(|m| (&m.node.value, m)) {
        None => Ok((map, None)),
        Some((Value::Int(n), _)) if *n >= 0 => Ok((map, u64::try_from(*n).ok())),
        Some((Value::Float(x), _)) if x.fract() == 0.0 && *x >= 0.0 => Ok((map, Some(*x as u64))),
        Some((_, member)) => Err(Box::new(
            Diagnostic::error(codes::INDEX_FORM, "`metadata.total_size` is no number of bytes")
                .at(member.node.span, "")
                .help("download the index again"),
        )),
    }
}

fn no_index(node: &Node) -> Box<Diagnostic> {
    let span = node.span;
    Box::new(
        Diagnostic::error(codes::INDEX_FORM, "there is no `weight_map` object")
            .at(shardc_ir::diag::Span { end: span.end.min(span.start + 1), ..span }, "")
            .help("pass the checkpoint's model.safetensors.index.json"),
    )
}

/// Every tensor of the model, experts numbered.
fn tensors(spec: &ModelSpec) -> BTreeSet<String> {
    spec.weights().iter().flat_map(|weight| weight.tensors()).collect()
}

/// The model's own name of a tensor: prefixes of multimodal checkpoints and suffixes of
/// quantisation methods taken off.
fn base_name(name: &str) -> String {
    const SUFFIXES: [(&str, &str); 14] = [
        (".weight_scale_inv", ".weight"),
        (".weight_scale", ".weight"),
        (".weight_scale_2", ".weight"),
        (".weight_packed", ".weight"),
        (".weight_shape", ".weight"),
        (".weight_zero_point", ".weight"),
        (".weight_global_scale", ".weight"),
        (".input_scale", ".weight"),
        (".qweight", ".weight"),
        (".qzeros", ".weight"),
        (".scales", ".weight"),
        (".g_idx", ".weight"),
        ("_blocks", ""),
        ("_scales", ""),
    ];
    let name = text_model_name(name);
    match SUFFIXES.iter().find(|(from, _)| name.ends_with(from)) {
        Some((from, to)) => format!("{}{to}", &name[..name.len() - from.len()]),
        None => name,
    }
}

/// Tensors that the text model does not compute with.
fn is_ignorable(name: &str, spec: &ModelSpec) -> bool {
    const PARTS: [&str; 16] = [
        "rotary_emb.",
        "vision_tower.",
        "vision_model.",
        "vision_encoder.",
        "vision_embed_tokens.",
        "visual.",
        "multi_modal_projector.",
        "patch_merger.",
        "mm_projector.",
        "audio_tower.",
        "mtp.",
        "masked_bias",
        "k_scale",
        "v_scale",
        "kv_scale",
        "output_scale",
    ];
    let tied_head = spec.head.tied && name.ends_with("lm_head.weight");
    tied_head || PARTS.iter().any(|part| name.contains(part))
}

/// Prefixes of multi-token-prediction layers: layers after the last that join two hidden states.
fn prediction_layers(map: &BTreeMap<String, Member>) -> Vec<&str> {
    map.keys().filter_map(|name| Some(&name[..name.find("eh_proj.")?])).collect()
}

fn left_out(first: &str, count: usize) -> Diagnostic {
    Diagnostic::warning(
        codes::IGNORED,
        format!("{count} tensors of the index are left out, such as `{first}`"),
    )
    .note("they belong to no layer of the text model; total bytes were not compared")
}

fn names_differ(missing: &[&String], extra: &[(&str, &Member)]) -> Box<Diagnostic> {
    let few = |names: Vec<&str>| {
        let more = names.len().saturating_sub(4);
        let shown = names.into_iter().take(4).collect::<Vec<_>>().join(", ");
        if more > 0 { format!("{shown} and {more} more") } else { shown }
    };
    let message = format!(
        "the index lacks {} of the model's tensors and has {} that the model has not",
        missing.len(),
        extra.len()
    );
    let mut error = Diagnostic::error(codes::INDEX_NAMES, message)
        .help("the index and config.json must belong to one checkpoint");
    if !missing.is_empty() {
        error =
            error.note(format!("missing: {}", few(missing.iter().map(|n| n.as_str()).collect())));
    }
    if let Some((_, member)) = extra.first() {
        let names = extra.iter().map(|(name, _)| *name).collect();
        error = error.at(member.key_span, "unknown").note(format!("unknown: {}", few(names)));
    }
    Box::new(error)
}

/// Quantisation methods whose files hold exactly the weights and scales that are counted.
const EXACT: [&str; 3] = ["fp8", "mxfp4", "awq"];
/// Share of the bytes that other methods may add, in per cent: permutations, shapes, padding.
const SLACK: u64 = 2;

/// Fails where the totals differ, or warns where the quantisation method adds tensors of its own.
fn check_bytes(spec: &ModelSpec, total: u64) -> Result<Option<Diagnostic>> {
    let own = spec.weight_bytes()?;
    if own == total {
        return Ok(None);
    }
    let message = format!("the index states {total} bytes; the model's weights have {own}");
    let loose = spec.quantisation.scheme.as_ref().filter(|s| !EXACT.contains(&s.method.as_str()));
    if let (Some(scheme), true) = (loose, own.abs_diff(total) <= own / 100 * SLACK) {
        let note = format!("{} stores permutations, shapes or other scales as well", scheme.method);
        return Ok(Some(Diagnostic::warning(codes::INDEX_BYTES, message).note(note)));
    }
    let error = Diagnostic::error(codes::INDEX_BYTES, message)
        .help("the index and config.json must belong to one checkpoint");
    Err(Box::new(match explain(spec, total)? {
        Some(why) => error.note(why),
        None => error,
    }))
}

/// Another dtype, a few vocabulary rows more or fewer, or both, if that gives `total`.
fn explain(spec: &ModelSpec, total: u64) -> Result<Option<String>> {
    for dtype in [spec.dtype, DType::F32, DType::Bf16] {
        let other = ModelSpec { dtype, ..spec.clone() };
        let bytes = i128::from(other.weight_bytes()?);
        let rows = if spec.head.tied { 1 } else { 2 };
        let row = i128::from(rows * dtype.bits() / 8) * i128::from(spec.hidden);
        let difference = i128::from(total) - bytes;
        let count = difference / row;
        if difference % row == 0 && count.abs() < 10_000 {
            return Ok(Some(match count {
                0 => format!("that is the size of the same weights in {dtype}"),
                n => format!(
                    "that is the size in {dtype} with vocab_size {} instead of {}",
                    i128::from(spec.vocab) + n,
                    spec.vocab
                ),
            }));
        }
    }
    Ok(None)
}
