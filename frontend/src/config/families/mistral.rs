//! Mistral, Ministral and Mixtral.

use super::prelude::*;

/// Mistral: Llama with a sliding window where the key is set.
pub(in crate::config) fn mistral(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::GROUPED)?;
    let rope = rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?;
    let gqa = Gqa { temperature: temperature(cx)?, ..core.gqa(Some(rope)) };
    let window = match cx.model_type() {
        Some("ministral3") => layers::window(cx)?,
        _ => layers::window_or(cx, 4096)?,
    };
    let masks = layers::masks(cx, core.layers, window, |_| window.is_some())?;
    let mlp = core.mlp(cx)?;
    core.model(cx, |l| Ok(LayerSpec::new(gqa.masked(masks[l]), mlp, Block::pre(core.rms()))))
}

/// Ministral 3's growing queries, announced by `llama_4_scaling_beta`.
pub(super) fn temperature(cx: &Cx) -> Result<Option<Temperature>> {
    let Some(p) = cx.object(["rope_parameters", "rope_scaling"])? else { return Ok(None) };
    let Some(scale) = p.positive("llama_4_scaling_beta")? else { return Ok(None) };
    let floor = rope::original(cx, &p, None)? as f64;
    Ok(Some(Temperature { shift: 0, floor, scale }))
}

/// Mixtral's tensor names.
pub(super) const MIXTRAL: Names = Names::llama_with(&[&[
    own(Part::Router, "block_sparse_moe.gate.*"),
    own(Part::ExpertGate, "block_sparse_moe.experts.{e}.w1.*"),
    own(Part::ExpertUp, "block_sparse_moe.experts.{e}.w3.*"),
    own(Part::ExpertDown, "block_sparse_moe.experts.{e}.w2.*"),
    own(Part::RouterCorrection, "block_sparse_moe.e_score_correction_bias"),
]]);

/// Mixtral: every layer routes, weights are renormalised.
pub(in crate::config) fn mixtral(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, names: MIXTRAL, ..Style::GROUPED })?;
    let gqa = core.gqa(Some(rope::read(cx, core.head_dim, rope::Defaults::theta(1e6))?));
    let masks = window_everywhere(cx, core.layers)?;
    let (experts, top_k) = moe::sizes(cx)?;
    let router = Router::new(Scoring::Softmax, true);
    let moe = Moe { experts, top_k, expert: core.mlp(cx)?, router, shared: None };
    core.model(cx, |l| Ok(LayerSpec::new(gqa.masked(masks[l]), moe, Block::pre(core.rms()))))
}

/// A window in all layers where `sliding_window` is set; `layer_types` wins.
pub(super) fn window_everywhere(cx: &Cx, layers: usize) -> Result<Vec<Mask>> {
    let window = layers::window(cx)?;
    layers::masks(cx, layers, window, |_| window.is_some())
}
