//! GPT-2, GPT BigCode (StarCoder 1) and GPT-Neo: learned positions, layer norms, biases, tied
//! heads; GPT-J: rotated neighbours, parallel branches.

use super::prelude::*;
use crate::config::MAX_LAYERS;
use crate::config::core::SizeKeys;
use crate::json::Value;

/// Embedding and norms of models that follow GPT-2's names.
pub(super) const BODY: &[NameRow] = &[
    own(Part::Embedding, "transformer.wte.*"),
    own(Part::FinalNorm, "transformer.ln_f.*"),
    own(Part::AttnIn, "ln_1.*"),
    own(Part::FfnIn, "ln_2.*"),
];
/// One tensor for q, k and v.
pub(super) const FUSED: &[NameRow] = &[
    share(Part::Query, "attn.c_attn.*", Fusion::Concat),
    share(Part::Key, "attn.c_attn.*", Fusion::Concat),
    share(Part::Value, "attn.c_attn.*", Fusion::Concat),
    own(Part::Output, "attn.c_proj.*"),
];
/// Tensors of their own for q, k and v, one level further in.
pub(super) const INNER: &[NameRow] = &[
    own(Part::Query, "attn.attention.q_proj.*"),
    own(Part::Key, "attn.attention.k_proj.*"),
    own(Part::Value, "attn.attention.v_proj.*"),
    own(Part::Output, "attn.attention.out_proj.*"),
];
const PLAIN: &[NameRow] = &[
    own(Part::Positions, "transformer.wpe.*"),
    own(Part::Up, "mlp.c_fc.*"),
    own(Part::Down, "mlp.c_proj.*"),
];
/// GPT-2 stores inputs before outputs.
const TRANSPOSED: &[NameRow] = &[
    share(Part::Query, "attn.c_attn.*", Fusion::Concat).transposed(),
    share(Part::Key, "attn.c_attn.*", Fusion::Concat).transposed(),
    share(Part::Value, "attn.c_attn.*", Fusion::Concat).transposed(),
    own(Part::Output, "attn.c_proj.*").transposed(),
    own(Part::Up, "mlp.c_fc.*").transposed(),
    own(Part::Down, "mlp.c_proj.*").transposed(),
];
/// Prefix of a layer.
pub(super) const LAYER: &str = "transformer.h.{l}.";

const STYLE: Style = Style {
    tied: true,
    eps_keys: ["layer_norm_epsilon", "layer_norm_eps"],
    eps: 1e-5,
    act: ("activation_function", "gelu_new"),
    keys: SizeKeys::GPT,
    names: Names { layer: LAYER, rows: &[BODY, FUSED, PLAIN, TRANSPOSED] },
    ..Style::LLAMA
};

/// GPT-2.
pub(in crate::config) fn gpt2(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, STYLE)?;
    if cx.flag_or("scale_attn_by_inverse_layer_idx", false)? {
        return Err(cx.unsupported(
            "scale_attn_by_inverse_layer_idx",
            "attention scores divided by the layer's number are not supported",
            "only models without this key are supported",
        ));
    }
    let kv_heads = core.heads;
    model(cx, &core, kv_heads)
}

/// GPT BigCode: one KV head where `multi_query` is set.
pub(in crate::config) fn bigcode(cx: &Cx) -> Result<ModelSpec> {
    let names = Names { layer: LAYER, rows: &[BODY, FUSED, PLAIN] };
    let act = ("activation_function", "gelu_pytorch_tanh");
    let single = cx.flag_or("multi_query", true)?;
    let names = match single {
        true => names,
        false => Names { layer: LAYER, rows: &[BODY, FUSED, PLAIN, PER_HEAD] },
    };
    let core = Core::read(cx, Style { act, names, ..STYLE })?;
    model(cx, &core, if single { 1 } else { core.heads })
}

/// Without `multi_query`, query, key and value lie together per head.
const PER_HEAD: &[NameRow] = &[
    share(Part::Query, "attn.c_attn.*", Fusion::PerHead),
    share(Part::Key, "attn.c_attn.*", Fusion::PerHead),
    share(Part::Value, "attn.c_attn.*", Fusion::PerHead),
];

fn model(cx: &Cx, core: &Core, kv_heads: u64) -> Result<ModelSpec> {
    let gqa = Gqa::new(core.heads, kv_heads, core.head_dim, None);
    let gqa = Gqa { bias: Biases::all(true), ..gqa };
    let mlp = plain_mlp(cx, core)?;
    let norm = core.layer_norm(true);
    let mut model = core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(norm))))?;
    model.embedding.positions = Some(Positions { rows: cx.dim("n_positions")?, first: 0 });
    model.final_norm = Some(norm);
    Ok(model)
}

/// Four times as wide as the hidden state, unless `n_inner` says otherwise.
fn plain_mlp(cx: &Cx, core: &Core) -> Result<Mlp> {
    let width = cx.dim_or("n_inner", core.hidden.saturating_mul(4))?;
    Ok(Mlp { gated: false, bias: true, ..core.mlp_of(cx, width)? })
}

/// GPT-J: attention without biases and an MLP with biases side by side under one norm.
pub(in crate::config) fn gptj(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names {
        layer: LAYER,
        rows: &[
            BODY,
            &[
                own(Part::Query, "attn.q_proj.*"),
                own(Part::Key, "attn.k_proj.*"),
                own(Part::Value, "attn.v_proj.*"),
                own(Part::Output, "attn.out_proj.*"),
                own(Part::Up, "mlp.fc_in.*"),
                own(Part::Down, "mlp.fc_out.*"),
            ],
        ],
    };
    let core = Core::read(cx, Style { tied: false, names: NAMES, ..STYLE })?;
    let rope = rope::read_dim(cx, core.head_dim, 64)?;
    let gqa = core.gqa(Some(Rope { interleaved: true, ..rope }));
    let norm = core.layer_norm(true);
    let block = Block::Parallel { attn_in: norm, ffn_in: None };
    let mlp = plain_mlp(cx, &core)?;
    let mut model = core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, block.clone())))?;
    model.final_norm = Some(norm);
    model.head.bias = true;
    Ok(model)
}

/// GPT-Neo: unscaled scores, layers with a window as `attention_types` says.
pub(in crate::config) fn gpt_neo(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names { layer: LAYER, rows: &[BODY, INNER, PLAIN] };
    let keys = SizeKeys {
        layers: &["num_layers", "num_hidden_layers"],
        heads: &["num_heads", "num_attention_heads"],
        ..SizeKeys::UNGROUPED
    };
    let core = Core::read(cx, Style { keys, names: NAMES, ..STYLE })?;
    let masks = neo_masks(cx, core.layers)?;
    let bias = Biases { o: true, ..Biases::NONE };
    let gqa = Gqa { bias, scale: 1.0, ..core.gqa(None) };
    let width = cx.dim_or("intermediate_size", core.hidden.saturating_mul(4))?;
    let mlp = Mlp { gated: false, bias: true, ..core.mlp_of(cx, width)? };
    let norm = core.layer_norm(true);
    let mut model =
        core.model(cx, |l| Ok(LayerSpec::new(gqa.masked(masks[l]), mlp, Block::pre(norm))))?;
    let rows = cx.dim_or("max_position_embeddings", 2048)?;
    model.embedding.positions = Some(Positions { rows, first: 0 });
    model.final_norm = Some(norm);
    Ok(model)
}

/// `attention_layers`, or what `attention_types` (runs of repeated words) spells out.
fn neo_masks(cx: &Cx, layers: usize) -> Result<Vec<Mask>> {
    let window = Mask::Window(cx.whole_or("window_size", 256, 1, crate::config::MAX_POSITIONS)?);
    let (key, words) = match cx.texts("attention_layers")? {
        Some(words) => ("attention_layers", words),
        None => ("attention_types", neo_words(cx)?),
    };
    layers::check_length(cx, key, words.len(), layers)?;
    let mask = |word: &str| match word {
        "global" => Ok(Mask::Causal),
        "local" => Ok(window),
        other => {
            let message = format!("the attention type {other:?} is not supported");
            Err(cx.unsupported(key, message, "supported: global, local"))
        }
    };
    words.into_iter().map(mask).collect()
}

/// The words of `[[["global", "local"], 12]]`, repeated.
fn neo_words<'a>(cx: &Cx<'a>) -> Result<Vec<&'a str>> {
    let key = "attention_types";
    let runs = cx.array(key)?.ok_or_else(|| cx.missing(key))?;
    let mut words = Vec::new();
    for run in runs {
        let wrong = || cx.wrong(key, run, "an array of [words, times]");
        let Value::Array(pair) = &run.value else { return Err(wrong()) };
        let [words_node, times] = &pair[..] else { return Err(wrong()) };
        let (Value::Array(list), Value::Int(times)) = (&words_node.value, &times.value) else {
            return Err(wrong());
        };
        for _ in 0..(*times).clamp(0, MAX_LAYERS as i64) {
            for word in list.iter().take(MAX_LAYERS as usize - words.len().min(4096)) {
                let Value::String(word) = &word.value else { return Err(wrong()) };
                words.push(word.as_str());
            }
        }
    }
    Ok(words)
}
