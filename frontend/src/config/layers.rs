//! Per-layer choices: `layer_types`, sliding windows, layers without positions.

use super::Cx;
use super::fields::{Fields, MAX_POSITIONS};
use crate::codes;
use crate::json::{Node, Value};
use crate::spec::Mask;
use shardc_ir::diag::{Diagnostic, Result};

/// What `layer_types` says of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayerType {
    /// Sees the whole context.
    Full,
    /// Sees a window.
    Sliding,
    /// Sees its chunk.
    Chunked,
}

/// The entries of `layer_types`, if the key is there.
pub(crate) fn types(cx: &Fields, layers: usize) -> Result<Option<Vec<LayerType>>> {
    let Some(items) = cx.array("layer_types")? else { return Ok(None) };
    check_length(cx, "layer_types", items.len(), layers)?;
    let types = items.iter().enumerate().map(|(index, node)| layer_type(cx, index, node));
    types.collect::<Result<_>>().map(Some)
}

fn layer_type(cx: &Fields, index: usize, node: &Node) -> Result<LayerType> {
    let Value::String(text) = &node.value else {
        return Err(cx.wrong("layer_types", node, "an array of strings"));
    };
    match text.as_str() {
        "full_attention" | "attention" | "global" | "global_attention" => Ok(LayerType::Full),
        "sliding_attention" | "sliding_window" | "local" | "local_attention" => {
            Ok(LayerType::Sliding)
        }
        "chunked_attention" => Ok(LayerType::Chunked),
        other => Err(Box::new(
            Diagnostic::error(
                codes::UNSUPPORTED_BLOCK,
                format!("layer {index} is a `{other}` block, which has no operator here"),
            )
            .at(node.span, format!("layer {index}"))
            .note("supported: full_attention, sliding_attention, chunked_attention")
            .help("choose a model whose layers are all attention"),
        )),
    }
}

/// The layers that a list of one number per layer marks with anything but 0; `None` where the key
/// holds no list.
pub(crate) fn marked(cx: &Fields, key: &'static str, layers: usize) -> Result<Option<Vec<bool>>> {
    match cx.find(key).map(|(_, member)| &member.node.value) {
        Some(Value::Array(_)) => {}
        _ => return Ok(None),
    }
    let list = cx.wholes(key)?.unwrap_or_default();
    check_length(cx, key, list.len(), layers)?;
    Ok(Some(list.into_iter().map(|mark| mark != 0).collect()))
}

/// The layers whose numbers a list holds; `None` where the key is absent.
pub(crate) fn numbered(cx: &Fields, key: &'static str, layers: usize) -> Result<Option<Vec<bool>>> {
    let Some(list) = cx.wholes(key)? else { return Ok(None) };
    let mut numbered = vec![false; layers];
    for layer in list {
        match numbered.get_mut(layer as usize) {
            Some(entry) => *entry = true,
            None => {
                let message = format!("`{}` numbers layer {layer} of {layers}", cx.full(key));
                let help = format!("layers are numbered from 0 to {}", layers - 1);
                return Err(cx.conflict(&[key, "num_hidden_layers"], message, &help));
            }
        }
    }
    Ok(Some(numbered))
}

/// A per-layer array must have one entry per layer.
pub(crate) fn check_length(
    cx: &Fields,
    key: &'static str,
    found: usize,
    layers: usize,
) -> Result<()> {
    if found == layers {
        return Ok(());
    }
    Err(cx.conflict(
        &[key, "num_hidden_layers"],
        format!(
            "`{}` has {} for {}",
            cx.full(key),
            counted(found, "entry", "entries"),
            counted(layers, "layer", "layers")
        ),
        "give one entry per layer, or remove the key",
    ))
}

fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// The window named by `sliding_window`, if any; 0 means none.
pub(crate) fn window(cx: &Fields) -> Result<Option<u64>> {
    Ok(cx.opt_whole("sliding_window", 0, MAX_POSITIONS)?.filter(|window| *window > 0))
}

/// The window named by `sliding_window`; `default` where the key is absent, none where it is null.
pub(crate) fn window_or(cx: &Fields, default: u64) -> Result<Option<u64>> {
    if cx.require("sliding_window").is_ok() { window(cx) } else { Ok(Some(default)) }
}

/// A mask per layer: from `layer_types` where given, else sliding where `sliding(layer)` says so.
/// Layers that slide need a window.
pub(crate) fn masks(
    cx: &Cx,
    layers: usize,
    window: Option<u64>,
    sliding: impl Fn(usize) -> bool,
) -> Result<Vec<Mask>> {
    let types = types(cx, layers)?;
    let slides = |l: usize| types.as_ref().map_or_else(|| sliding(l), |t| t[l] != LayerType::Full);
    let mask = |l: usize| match (slides(l), window) {
        (false, _) => Ok(Mask::Causal),
        (true, Some(w)) => Ok(Mask::Window(w)),
        (true, None) => Err(cx.missing("sliding_window")),
    };
    (0..layers).map(mask).collect()
}
