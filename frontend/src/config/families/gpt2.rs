//! GPT-2 and GPT BigCode (StarCoder 1): learned positions, layer norms, biases, tied heads.

use super::prelude::*;
use crate::config::core::SizeKeys;

const ROWS: &[NameRow] = &[
    own(Part::Embedding, "transformer.wte.*"),
    own(Part::Positions, "transformer.wpe.*"),
    own(Part::FinalNorm, "transformer.ln_f.*"),
    own(Part::AttnIn, "ln_1.*"),
    own(Part::FfnIn, "ln_2.*"),
    share(Part::Query, "attn.c_attn.*", Fusion::Concat),
    share(Part::Key, "attn.c_attn.*", Fusion::Concat),
    share(Part::Value, "attn.c_attn.*", Fusion::Concat),
    own(Part::Output, "attn.c_proj.*"),
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
const LAYER: &str = "transformer.h.{l}.";

const STYLE: Style = Style {
    tied: true,
    eps_keys: ["layer_norm_epsilon", "layer_norm_eps"],
    eps: 1e-5,
    act: ("activation_function", "gelu_new"),
    keys: SizeKeys {
        hidden: "n_embd",
        layers: "n_layer",
        heads: "n_head",
        kv_heads: "num_key_value_heads",
        vocab: "vocab_size",
    },
    names: Names { layer: LAYER, rows: &[ROWS, TRANSPOSED] },
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
    let names = Names { layer: LAYER, rows: &[ROWS] };
    let act = ("activation_function", "gelu_pytorch_tanh");
    let single = cx.flag_or("multi_query", true)?;
    let names = match single {
        true => names,
        false => Names { layer: LAYER, rows: &[ROWS, PER_HEAD] },
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
    let width = cx.dim_or("n_inner", core.hidden.saturating_mul(4))?;
    let mlp = Mlp { gated: false, bias: true, ..core.mlp_of(cx, width)? };
    let norm = core.layer_norm(true);
    let mut model = core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(norm))))?;
    model.embedding.learned_positions = Some(cx.dim("n_positions")?);
    model.final_norm = Some(norm);
    Ok(model)
}
