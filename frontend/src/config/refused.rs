//! Architectures that are known but hold blocks without an operator: which block, in which layers.

use super::Cx;
use super::families::recurrent::{self, Tally};
use super::fields::{Fields, MAX_LAYERS};
use crate::codes;
use crate::json::Value;
use shardc_ir::diag::{Diagnostic, Result};

/// What a model weighs, of which these layers hold the block.
type Weigh = fn(&Cx, &[usize]) -> Result<Tally>;

/// A known architecture that cannot be compiled.
pub struct Refused {
    /// Values of `model_type`.
    pub model_types: &'static [&'static str],
    /// The block that has no operator.
    pub block: &'static str,
    /// How to find the layers with the block: the first whose key is there says so, and without
    /// any all layers have it.
    places: &'static [Place],
    /// What the model weighs, where that is known.
    tally: Option<Weigh>,
}

impl Refused {
    /// Every layer has the block; what the model weighs is not known.
    const PLAIN: Refused = Refused { model_types: &[], block: "", places: &[], tally: None };
}

/// A key that says which layers have the block.
enum Place {
    /// The entries of a list of one word per layer that are one of these.
    Words(&'static str, &'static [&'static str]),
    /// The zeros of a list of one number per layer.
    Zeros(&'static str),
    /// Those that a list of numbers names.
    In(&'static str),
    /// Those that a list of numbers does not name.
    NotIn(&'static str),
    /// Those that a list in an object names, counted from one.
    Within(&'static str, &'static str),
    /// This letter of a text with one letter per layer.
    Letter(&'static str, char),
    /// Layers `l` with `l % period != offset`.
    OffPeriod(&'static str, &'static str),
    /// All but every so many.
    ButEvery(&'static str),
}

/// Words of lists for layers that are no softmax attention.
const LINEAR: &[&str] = &["linear_attention", "mamba", "recurrent", "conv"];

/// Every known architecture with such a block, in the order of the documentation.
pub static REFUSED: &[Refused] = &[
    Refused {
        model_types: &["qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"],
        block: "gated delta rule (linear attention)",
        places: &[Place::Words("layer_types", LINEAR), Place::ButEvery("full_attention_interval")],
        tally: Some(recurrent::qwen),
    },
    Refused {
        model_types: &["olmo_hybrid"],
        block: "gated delta rule (linear attention)",
        places: &[Place::Words("layer_types", LINEAR)],
        ..Refused::PLAIN
    },
    Refused {
        model_types: &["kimi_linear"],
        block: "Kimi delta attention (linear attention)",
        places: &[
            Place::Within("linear_attn_config", "kda_layers"),
            Place::Words("layer_types", LINEAR),
        ],
        ..Refused::PLAIN
    },
    Refused {
        model_types: &["minimax", "minimax_text_01", "minimax_m1"],
        block: "lightning attention (linear attention)",
        places: &[Place::Zeros("attn_type_list"), Place::Words("layer_types", LINEAR)],
        ..Refused::PLAIN
    },
    Refused {
        model_types: &["nemotron_h"],
        block: "Mamba-2 state-space",
        places: &[
            Place::Letter("hybrid_override_pattern", 'M'),
            Place::Words("layers_block_type", LINEAR),
            Place::Words("layer_types", LINEAR),
        ],
        tally: Some(recurrent::nemotron_h),
    },
    Refused {
        model_types: &["jamba"],
        block: "Mamba state-space",
        places: &[Place::OffPeriod("attn_layer_period", "attn_layer_offset")],
        ..Refused::PLAIN
    },
    Refused {
        model_types: &["bamba"],
        block: "Mamba-2 state-space",
        places: &[
            Place::NotIn("attn_layer_indices"),
            Place::Words("layers_block_type", LINEAR),
            Place::Words("layer_types", LINEAR),
        ],
        tally: Some(recurrent::bamba),
    },
    Refused {
        model_types: &["granitemoehybrid"],
        block: "Mamba-2 state-space",
        places: &[Place::Words("layer_types", LINEAR), Place::Words("layers_block_type", LINEAR)],
        tally: Some(recurrent::granite),
    },
    Refused {
        model_types: &["falcon_h1"],
        block: "Mamba-2 state-space (beside attention)",
        ..Refused::PLAIN
    },
    Refused {
        model_types: &["mamba", "mamba2", "falcon_mamba", "zamba", "zamba2", "plamo2"],
        block: "Mamba state-space",
        ..Refused::PLAIN
    },
    Refused {
        model_types: &["lfm2", "lfm2_moe"],
        block: "short convolution",
        places: &[Place::Words("layer_types", LINEAR), Place::NotIn("full_attn_idxs")],
        ..Refused::PLAIN
    },
    Refused { model_types: &["recurrent_gemma"], block: "RG-LRU recurrence", ..Refused::PLAIN },
    Refused { model_types: &["rwkv", "rwkv7", "xlstm"], block: "recurrence", ..Refused::PLAIN },
    Refused {
        model_types: &["gemma3n", "gemma3n_text"],
        block: "AltUp (parallel residual streams with per-layer embeddings)",
        ..Refused::PLAIN
    },
    Refused {
        model_types: &["mllama", "mllama_text_model"],
        block: "cross-attention to an image",
        places: &[Place::In("cross_attention_layers")],
        ..Refused::PLAIN
    },
    Refused {
        model_types: &["longcat_flash"],
        block: "shortcut mixture of experts (two attentions per layer, identity experts)",
        ..Refused::PLAIN
    },
    Refused { model_types: &["jetmoe"], block: "mixture of attention heads", ..Refused::PLAIN },
    Refused { model_types: &["diffllama"], block: "differential attention", ..Refused::PLAIN },
    Refused {
        model_types: &["arctic"],
        block: "dense network beside a mixture of experts",
        ..Refused::PLAIN
    },
];

/// Fails where the model is known to hold a block without an operator.
pub(super) fn check(cx: &Cx) -> Result<()> {
    let fields = &cx.fields;
    let total = layer_count(fields);
    if fields.flag_or("is_encoder_decoder", false).unwrap_or(false) {
        let all = (0..total).collect();
        let found = Found { layers: all, total, key: "is_encoder_decoder" };
        let block = "cross-attention to an encoder";
        return Err(refuse(cx, &Refused { block, ..Refused::PLAIN }, found));
    }
    let Ok(Some(model_type)) = fields.text("model_type") else { return Ok(()) };
    let Some(row) = REFUSED.iter().find(|row| row.model_types.contains(&model_type)) else {
        return Ok(());
    };
    let all = || Found { layers: (0..total).collect(), total, key: "model_type" };
    let found = row.places.iter().find_map(|place| place.find(fields, total));
    match found.unwrap_or_else(all) {
        Found { layers, total, .. } if layers.is_empty() && total > 0 => Ok(()),
        found => Err(refuse(cx, row, found)),
    }
}

/// Layers with a block, of how many, and the key that says so.
struct Found {
    layers: Vec<usize>,
    total: usize,
    key: &'static str,
}

fn refuse(cx: &Cx, row: &Refused, found: Found) -> Box<Diagnostic> {
    let (architecture, block) = (&cx.architecture, row.block);
    let which = match (found.layers.len(), found.total) {
        (n, total) if n == total => format!("every layer of {architecture} holds"),
        (n, total) => format!("{n} of the {total} layers of {architecture} hold"),
    };
    let mut error = Diagnostic::error(codes::UNSUPPORTED_BLOCK, format!("{which} a {block} block"));
    if found.layers.len() < found.total {
        error = error.note(format!("`{}` says so of layers {}", found.key, runs(&found.layers)));
    }
    let error = error.note(match row.tally.map(|tally| tally(cx, &found.layers)) {
        Some(Ok(tally)) => weighed(&tally),
        Some(Err(cause)) => format!("its parameters are not counted: {}", cause.message),
        None => "no operator compiles that block, and no rule counts its parameters".to_string(),
    });
    let error = error.help("choose a model whose layers are attention and feed-forward blocks");
    Box::new(cx.point(error, &[found.key, "model_type"]))
}

/// What a model holds that cannot be compiled.
fn weighed(tally: &Tally) -> String {
    format!(
        "it has {} parameters, of which a token meets {}; a token takes {} bytes of KV cache in \
         bf16, and a request {} numbers of state; no operator compiles that block",
        tally.parameters, tally.active, tally.kv_bytes, tally.state
    )
}

/// Ascending numbers as runs: `0 to 2, 4, 6 to 9`.
fn runs(numbers: &[usize]) -> String {
    const MOST: usize = 24;
    let same_run = |a: &usize, b: &usize| a + 1 == *b;
    let text = |run: &[usize]| match run {
        [first, .., last] => format!("{first} to {last}"),
        run => run.iter().map(ToString::to_string).collect(),
    };
    let mut runs: Vec<String> = numbers.chunk_by(same_run).map(text).collect();
    if runs.len() > MOST {
        runs.truncate(MOST);
        runs.push("…".to_string());
    }
    runs.join(", ")
}

fn layer_count(fields: &Fields) -> usize {
    let keys = ["num_hidden_layers", "n_layers", "num_layers", "n_layer"];
    fields.opt_whole(keys, 1, MAX_LAYERS).ok().flatten().unwrap_or(0) as usize
}

impl Place {
    /// The layers with the block; `None` where the key is absent or malformed.
    fn find(&self, fields: &Fields, total: usize) -> Option<Found> {
        let entries = |key, hit: &dyn Fn(&Value) -> bool| {
            let items = fields.array(key).ok()??;
            let hits = items.iter().enumerate().filter(|(_, node)| hit(&node.value));
            Some(Found { layers: hits.map(|(l, _)| l).collect(), total: items.len(), key })
        };
        let where_ = |key, hit: &dyn Fn(u64) -> bool| {
            Some(Found { layers: (0..total).filter(|l| hit(*l as u64)).collect(), total, key })
        };
        match *self {
            Place::Words(key, words) => {
                entries(key, &|v| matches!(v, Value::String(s) if words.contains(&s.as_str())))
            }
            Place::Zeros(key) => entries(key, &|v| *v == Value::Int(0)),
            Place::In(key) => {
                let list = fields.wholes(key).ok()??;
                where_(key, &|l| list.contains(&l))
            }
            Place::NotIn(key) => {
                let list = fields.wholes(key).ok()??;
                where_(key, &|l| !list.contains(&l))
            }
            Place::Within(key, inner) => {
                let list = fields.object(key).ok()??.wholes(inner).ok()??;
                where_(key, &|l| list.contains(&(l + 1)))
            }
            Place::Letter(key, letter) => {
                let text = fields.text(key).ok()??;
                let hits = text.chars().enumerate().filter(|(_, c)| *c == letter);
                let layers = hits.map(|(l, _)| l).collect();
                Some(Found { layers, total: text.chars().count(), key })
            }
            Place::OffPeriod(key, offset) => {
                let period = fields.opt_whole(key, 1, MAX_LAYERS).ok()??;
                let offset = fields.whole_or(offset, 0, 0, MAX_LAYERS).ok()?;
                where_(key, &|l| l % period != offset)
            }
            Place::ButEvery(key) => {
                let period = fields.opt_whole(key, 1, MAX_LAYERS).ok()??;
                where_(key, &|l| !(l + 1).is_multiple_of(period))
            }
        }
    }
}
