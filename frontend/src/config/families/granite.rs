//! Granite, Granite MoE and Granite 4 without state-space layers: multipliers on embeddings,
//! attention scores, residual branches and logits.

use super::prelude::*;
use crate::config::core::layer_count;

const MOE: &[NameRow] = &[
    own(Part::Router, "block_sparse_moe.router.layer.*"),
    share(Part::ExpertGate, "block_sparse_moe.input_linear.*", Fusion::Concat),
    share(Part::ExpertUp, "block_sparse_moe.input_linear.*", Fusion::Concat),
    own(Part::ExpertDown, "block_sparse_moe.output_linear.*"),
    share(Part::SharedGate, "shared_mlp.input_linear.*", Fusion::Concat),
    share(Part::SharedUp, "shared_mlp.input_linear.*", Fusion::Concat),
    own(Part::SharedDown, "shared_mlp.output_linear.*"),
];
/// Granite 4's dense layers are its shared network alone.
const SHARED_ALONE: &[NameRow] = &[
    share(Part::Gate, "shared_mlp.input_linear.*", Fusion::Concat),
    share(Part::Up, "shared_mlp.input_linear.*", Fusion::Concat),
    own(Part::Down, "shared_mlp.output_linear.*"),
];

/// Granite 3.
pub(in crate::config) fn granite(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::LLAMA)?;
    let mlp = Mlp { bias: cx.flag_or("mlp_bias", false)?, ..core.mlp(cx)? };
    model(cx, &core, true, mlp.into())
}

/// HyperCLOVA X: Granite with norms on branch outputs and logits multiplied.
pub(in crate::config) fn hyperclovax(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names::llama_with(&[&[
        own(Part::AttnOut, "post_norm1.*"),
        own(Part::FfnOut, "post_norm2.*"),
    ]]);
    let core = Core::read(cx, Style { names: NAMES, ..Style::LLAMA })?;
    let mlp = Mlp { bias: cx.flag_or("mlp_bias", false)?, ..core.mlp(cx)? };
    let mut model = model(cx, &core, true, mlp.into())?;
    let normed = cx.flag_or("use_post_norm", true)?;
    let scaled = cx.has("attention_multiplier");
    for layer in &mut model.layers {
        if normed {
            layer.block = Block::sandwich(core.rms());
        }
        if let (false, Attention::Gqa(gqa)) = (scaled, &mut layer.attention) {
            gqa.scale = inverse_sqrt(core.head_dim);
        }
    }
    model.head.scale = cx.positive("logits_scaling")?;
    Ok(model)
}

/// Granite 3 MoE, with a shared network where `shared_intermediate_size` is set.
pub(in crate::config) fn granitemoe(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { names: Names::llama_with(&[MOE]), ..Style::LLAMA })?;
    let moe = experts(cx, &core)?;
    model(cx, &core, true, moe.into())
}

/// Granite 4 whose layers are all attention.
pub(in crate::config) fn granitemoehybrid(cx: &Cx) -> Result<ModelSpec> {
    let layers = layer_count(cx, Style::LLAMA.keys.layers)?;
    layers::types(cx, layers)?.ok_or_else(|| cx.missing("layer_types"))?;
    hybrid(cx)
}

/// Granite 4 with attention in every layer, whatever the list of layers says.
pub(super) fn hybrid(cx: &Cx) -> Result<ModelSpec> {
    let names = Names::llama_with(&[MOE, SHARED_ALONE]);
    let core = Core::read(cx, Style { names, ..Style::LLAMA })?;
    let ffn = match cx.opt_whole(moe::EXPERTS, 0, moe::MAX_EXPERTS)? {
        None | Some(0) => core.mlp_of(cx, cx.dim("shared_intermediate_size")?)?.into(),
        Some(_) => experts(cx, &core)?.into(),
    };
    let rotates = cx.text("position_embedding_type")? == Some("rope");
    model(cx, &core, rotates, ffn)
}

fn experts(cx: &Cx, core: &Core) -> Result<Moe> {
    let (experts, top_k) = moe::sizes(cx)?;
    let shared = match cx.opt_whole("shared_intermediate_size", 0, crate::config::MAX_DIM)? {
        None | Some(0) => None,
        Some(width) => Some(Shared { mlp: core.mlp_of(cx, width)?, gate: false }),
    };
    let router = Router::new(Scoring::SoftmaxOfTopK, false);
    Ok(Moe { experts, top_k, expert: core.mlp(cx)?, router, shared })
}

fn model(cx: &Cx, core: &Core, rotates: bool, ffn: Ffn) -> Result<ModelSpec> {
    let rope = match rotates {
        true => Some(rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?),
        false => None,
    };
    let gqa = Gqa {
        bias: Biases::all(cx.flag_or("attention_bias", false)?),
        scale: cx.positive_or("attention_multiplier", 1.0)?,
        ..core.gqa(rope)
    };
    let residual_scale = cx.positive("residual_multiplier")?;
    let mut model = core.model(cx, |_| {
        let layer = LayerSpec::new(gqa.clone(), ffn.clone(), Block::pre(core.rms()));
        Ok(LayerSpec { residual_scale, ..layer })
    })?;
    model.embedding.scale = cx.positive("embedding_multiplier")?;
    model.head.scale = cx.positive("logits_scaling")?.map(|scaling| 1.0 / scaling);
    Ok(model)
}
