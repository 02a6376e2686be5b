//! Cohere Command R and R7B: parallel blocks, layer norms without bias, scaled logits.

use super::prelude::*;

const STYLE: Style = Style {
    tied: true,
    eps_keys: ["layer_norm_eps", "layer_norm_epsilon"],
    eps: 1e-5,
    ..Style::LLAMA
};

/// Command R and R+.
pub(in crate::config) fn cohere(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, STYLE)?;
    let gqa = attention(cx, &core)?;
    let norm =
        QkNorm { norm: core.layer_norm(false), span: QkNormSpan::EachHead, after_rope: false };
    let qk_norm = cx.flag_or("use_qk_norm", false)?.then_some(norm);
    let gqa = Gqa { qk_norm, ..gqa };
    model(cx, &core, |_| gqa.clone())
}

/// Command R7B and A: layers with a window rotate, the others have no positions.
pub(in crate::config) fn cohere2(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, STYLE)?;
    let gqa = attention(cx, &core)?;
    let window = Some(cx.whole_or("sliding_window", 4096, 1, crate::config::MAX_POSITIONS)?);
    let every = cx.dim_or(["sliding_window_pattern", "_sliding_window_pattern"], 4)? as usize;
    let masks = layers::masks(cx, core.layers, window, |l| (l + 1) % every != 0)?;
    model(cx, &core, |l| match masks[l] {
        Mask::Causal => Gqa { rope: None, ..gqa.clone() },
        mask => gqa.masked(mask),
    })
}

fn attention(cx: &Cx, core: &Core) -> Result<Gqa> {
    let rope = rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?;
    let bias = Biases::all(cx.flag_or("attention_bias", false)?);
    Ok(Gqa { bias, ..core.gqa(Some(Rope { interleaved: true, ..rope })) })
}

fn model(cx: &Cx, core: &Core, attention: impl Fn(usize) -> Gqa) -> Result<ModelSpec> {
    let mlp = core.mlp(cx)?;
    let norm = core.layer_norm(false);
    let block = Block::Parallel { attn_in: norm, ffn_in: None };
    let mut model = core.model(cx, |l| Ok(LayerSpec::new(attention(l), mlp, block.clone())))?;
    model.final_norm = Some(norm);
    model.head.scale = Some(cx.positive_or("logit_scale", 0.0625)?);
    Ok(model)
}
