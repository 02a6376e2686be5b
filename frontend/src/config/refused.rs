//! Architectures that are known but hold blocks without an operator: which block, in which layer.

use super::fields::{Fields, MAX_LAYERS};
use crate::codes;
use crate::json::Value;
use shardc_ir::diag::{Diagnostic, Result};

/// A known architecture that cannot be compiled.
struct Refused {
    model_types: &'static [&'static str],
    block: &'static str,
    first: First,
}

/// How to find the first layer with the block.
enum First {
    /// Every layer has it.
    Zero,
    /// The first entry of a per-layer list of strings that is this one.
    Entry(&'static str, &'static str),
    /// The first layer that a list of indices does not hold.
    NotIn(&'static str),
    /// The first layer that a list of indices holds.
    In(&'static str),
    /// The first of this letter in a string with one letter per layer.
    Letter(&'static str, char),
    /// The first 0 in a per-layer list of numbers.
    ZeroEntry(&'static str),
    /// The first layer `l` with `l % period != offset`.
    OffPeriod(&'static str, &'static str),
}

const REFUSED: &[Refused] = &[
    Refused {
        model_types: &[
            "qwen3_next",
            "qwen3_5",
            "qwen3_5_text",
            "qwen3_5_moe",
            "qwen3_5_moe_text",
            "olmo_hybrid",
        ],
        block: "gated delta rule (linear attention)",
        first: First::Entry("layer_types", "linear_attention"),
    },
    Refused {
        model_types: &["kimi_linear"],
        block: "Kimi delta attention (linear attention)",
        first: First::Zero,
    },
    Refused {
        model_types: &["minimax", "minimax_text_01", "minimax_m1"],
        block: "lightning attention (linear attention)",
        first: First::ZeroEntry("attn_type_list"),
    },
    Refused {
        model_types: &["nemotron_h"],
        block: "Mamba-2 state-space",
        first: First::Letter("hybrid_override_pattern", 'M'),
    },
    Refused {
        model_types: &["jamba"],
        block: "Mamba state-space",
        first: First::OffPeriod("attn_layer_period", "attn_layer_offset"),
    },
    Refused {
        model_types: &["bamba"],
        block: "Mamba-2 state-space",
        first: First::NotIn("attn_layer_indices"),
    },
    Refused {
        model_types: &["falcon_h1"],
        block: "Mamba-2 state-space (beside attention)",
        first: First::Zero,
    },
    Refused {
        model_types: &["mamba", "mamba2", "falcon_mamba", "zamba", "zamba2", "plamo2"],
        block: "Mamba state-space",
        first: First::Zero,
    },
    Refused {
        model_types: &["lfm2", "lfm2_moe"],
        block: "short convolution",
        first: First::Entry("layer_types", "conv"),
    },
    Refused { model_types: &["recurrent_gemma"], block: "RG-LRU recurrence", first: First::Zero },
    Refused { model_types: &["rwkv", "rwkv7", "xlstm"], block: "recurrence", first: First::Zero },
    Refused {
        model_types: &["gemma3n", "gemma3n_text"],
        block: "AltUp (parallel residual streams with per-layer embeddings)",
        first: First::Zero,
    },
    Refused {
        model_types: &["mllama", "mllama_text_model"],
        block: "cross-attention to an image",
        first: First::In("cross_attention_layers"),
    },
    Refused {
        model_types: &["longcat_flash"],
        block: "shortcut mixture of experts (two attentions per layer, identity experts)",
        first: First::Zero,
    },
    Refused { model_types: &["jetmoe"], block: "mixture of attention heads", first: First::Zero },
    Refused { model_types: &["diffllama"], block: "differential attention", first: First::Zero },
    Refused {
        model_types: &["arctic"],
        block: "dense network beside a mixture of experts",
        first: First::Zero,
    },
];

/// Fails where the model is known to hold a block without an operator.
pub(super) fn check(fields: &Fields, architecture: &str) -> Result<()> {
    if fields.flag_or("is_encoder_decoder", false).unwrap_or(false) {
        let block = "cross-attention to an encoder";
        return Err(refuse(fields, architecture, block, 0, "is_encoder_decoder"));
    }
    let Ok(Some(model_type)) = fields.text("model_type") else { return Ok(()) };
    match REFUSED.iter().find(|row| row.model_types.contains(&model_type)) {
        None => Ok(()),
        Some(row) => {
            let (layer, key) = row.first.find(fields);
            Err(refuse(fields, architecture, row.block, layer, key))
        }
    }
}

fn refuse(
    fields: &Fields,
    architecture: &str,
    block: &str,
    layer: usize,
    key: &str,
) -> Box<Diagnostic> {
    let message = format!("layer {layer} of {architecture} is a {block} block");
    let error = Diagnostic::error(codes::UNSUPPORTED_BLOCK, message)
        .note("there is no operator for it, so the model can be neither counted nor compiled")
        .help("choose a model whose layers are attention and feed-forward blocks");
    Box::new(fields.point(error, &[key, "model_type"]))
}

impl First {
    /// The first layer with the block, and the key that says so. A list that is absent or
    /// malformed counts as saying that layer 0 has it.
    fn find(&self, fields: &Fields) -> (usize, &'static str) {
        let position = |key: &'static str, hit: &dyn Fn(&Value) -> bool| {
            let items = fields.array(key).ok().flatten().unwrap_or_default();
            items.iter().position(|node| hit(&node.value))
        };
        let holds = |key: &'static str, layer: usize| {
            let list = fields.wholes(key).ok().flatten().unwrap_or_default();
            list.contains(&(layer as u64))
        };
        let mut layers = 0..MAX_LAYERS as usize;
        let (layer, key) = match *self {
            First::Zero => (None, "model_type"),
            First::Entry(key, word) => {
                (position(key, &|v| matches!(v, Value::String(s) if s == word)), key)
            }
            First::ZeroEntry(key) => (position(key, &|v| *v == Value::Int(0)), key),
            First::NotIn(key) => (layers.find(|l| !holds(key, *l)), key),
            First::In(key) => (layers.find(|l| holds(key, *l)), key),
            First::Letter(key, letter) => {
                let text = fields.text(key).ok().flatten().unwrap_or_default();
                (text.chars().position(|c| c == letter), key)
            }
            First::OffPeriod(period, offset) => {
                let number = |key| fields.whole_or(key, 0, 0, MAX_LAYERS).unwrap_or(0);
                (Some(usize::from(number(period) > 0 && number(offset) == 0)), period)
            }
        };
        (layer.unwrap_or(0), key)
    }
}
