//! Gemma 1 to 3: scaled embeddings, norms of `1 + weight`, tied heads; sandwich norms, windows and
//! soft caps from 2 on.

use super::prelude::*;

const STYLE: Style =
    Style { tied: true, act: ("hidden_activation", "gelu_pytorch_tanh"), ..Style::HEADED };
/// Tensor names of the sandwich norms.
const SANDWICH: Names = Names::llama_with(&[&[own(Part::FfnIn, "pre_feedforward_layernorm.*")]]);

/// Gemma 1. Its published `hidden_act` says `gelu`, but the library computes the tanh form unless
/// `hidden_activation` is given.
pub(in crate::config) fn gemma(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, STYLE)?;
    let rope = rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?;
    let bias = Biases::all(cx.flag_or("attention_bias", false)?);
    let gqa = Gqa { bias, ..core.gqa(Some(rope)) };
    let mlp = core.mlp(cx)?;
    let norm = core.rms().offset();
    let model = core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(norm))))?;
    Ok(finish(model, norm))
}

/// Gemma 2: a window in even layers.
pub(in crate::config) fn gemma2(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { names: SANDWICH, ..STYLE })?;
    let rope = rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?;
    let gqa = attention(cx, &core, rope, Some(50.0))?;
    let window = Some(cx.whole_or("sliding_window", 4096, 1, crate::config::MAX_POSITIONS)?);
    let masks = layers::masks(cx, core.layers, window, |l| l % 2 == 0)?;
    let norm = core.rms().offset();
    let mlp = core.mlp(cx)?;
    let model =
        core.model(cx, |l| Ok(LayerSpec::new(gqa.masked(masks[l]), mlp, Block::sandwich(norm))))?;
    with_cap(cx, finish(model, norm), Some(30.0))
}

/// VaultGemma: Gemma 2 with a norm before each branch only.
pub(in crate::config) fn vaultgemma(cx: &Cx) -> Result<ModelSpec> {
    let mut model = gemma2(cx)?;
    for layer in &mut model.layers {
        if let Block::Sequential { attn_out, ffn_out, .. } = &mut layer.block {
            (*attn_out, *ffn_out) = (None, None);
        }
    }
    Ok(model)
}

/// Gemma 3's text model: a norm on each query and key head, a window in five layers of six, and a
/// smaller RoPE base there.
pub(in crate::config) fn gemma3(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { names: SANDWICH, ..STYLE })?;
    let norm = core.rms().offset();
    let global = rope::read(cx, core.head_dim, rope::Defaults::theta(1e6))?;
    let base = attention(cx, &core, global, None)?;
    let base = Gqa { qk_norm: Some(QkNorm::per_head(norm)), ..base };
    let local = Gqa { rope: Some(local_rope(cx, core.head_dim)?), ..base.clone() };
    let window = Some(cx.whole_or("sliding_window", 4096, 1, crate::config::MAX_POSITIONS)?);
    let every = cx.dim_or(["sliding_window_pattern", "_sliding_window_pattern"], 6)? as usize;
    let masks = layers::masks(cx, core.layers, window, |l| (l + 1) % every != 0)?;
    let mlp = core.mlp(cx)?;
    let model = core.model(cx, |l| {
        let gqa = if masks[l] == Mask::Causal { &base } else { &local };
        Ok(LayerSpec::new(gqa.masked(masks[l]), mlp, Block::sandwich(norm)))
    })?;
    with_cap(cx, finish(model, norm), None)
}

/// RoPE of layers with a window: unscaled, on `rope_local_base_freq`.
fn local_rope(cx: &Cx, head_dim: u64) -> Result<Rope> {
    let theta = cx.positive_or("rope_local_base_freq", 10_000.0)?;
    let own = rope::read_own(cx, head_dim, rope::Defaults::theta(theta), "sliding_attention")?;
    Ok(own.unwrap_or(Rope::plain(theta, head_dim)))
}

fn attention(cx: &Cx, core: &Core, rope: Rope, soft_cap: Option<f64>) -> Result<Gqa> {
    let scalar = cx.positive_or("query_pre_attn_scalar", 256.0)?;
    Ok(Gqa {
        bias: Biases::all(cx.flag_or("attention_bias", false)?),
        scale: 1.0 / scalar.sqrt(),
        soft_cap: capped(cx, "attn_logit_softcapping", soft_cap)?,
        ..core.gqa(Some(rope))
    })
}

/// The cap of `key`; `default` where the key is absent, none where it is null.
fn capped(cx: &Cx, key: &'static str, default: Option<f64>) -> Result<Option<f64>> {
    match cx.require(key) {
        Ok(()) => cx.positive(key),
        Err(_) => Ok(default),
    }
}

fn with_cap(cx: &Cx, mut model: ModelSpec, default: Option<f64>) -> Result<ModelSpec> {
    model.head.soft_cap = capped(cx, "final_logit_softcapping", default)?;
    Ok(model)
}

/// Embeddings are scaled by √hidden.
fn finish(mut model: ModelSpec, norm: Norm) -> ModelSpec {
    model.embedding.scale = Some((model.hidden as f64).sqrt());
    model.final_norm = Some(norm);
    model
}
