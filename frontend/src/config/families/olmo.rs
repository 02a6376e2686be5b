//! OLMo 1 to 3, OLMoE and FlexOlmo.

use super::prelude::*;

const POST: Names = Names::llama_with(&[&[own(Part::AttnOut, "post_attention_layernorm.*")]]);

/// OLMo 1: layer norms without weights.
pub(in crate::config) fn olmo(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::LLAMA)?;
    let gqa = attention(cx, &core)?;
    let mlp = core.mlp(cx)?;
    let norm = Norm::layer(1e-5, false).bare();
    let mut model = core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(norm))))?;
    model.final_norm = Some(norm);
    Ok(model)
}

/// OLMo 2: norms on branch outputs, and over all query heads and all key heads.
pub(in crate::config) fn olmo2(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, names: POST, ..Style::LLAMA })?;
    let gqa = Gqa { qk_norm: Some(QkNorm::whole(core.rms())), ..attention(cx, &core)? };
    let mlp = core.mlp(cx)?;
    core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::post(core.rms()))))
}

/// OLMo 3: OLMo 2 with a window in three layers of four, whose RoPE is not scaled; `transformers` 5
/// writes each type's own RoPE.
pub(in crate::config) fn olmo3(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, names: POST, ..Style::LLAMA })?;
    let gqa = Gqa { qk_norm: Some(QkNorm::whole(core.rms())), ..attention(cx, &core)? };
    let unscaled = |rope: &Rope| Rope { scaling: RopeScaling::None, ..rope.clone() };
    let own = rope::read_own(cx, core.head_dim, rope::Defaults::LLAMA, "sliding_attention")?;
    let local = Gqa { rope: own.or(gqa.rope.as_ref().map(unscaled)), ..gqa.clone() };
    let window = Some(cx.whole_or("sliding_window", 4096, 1, crate::config::MAX_POSITIONS)?);
    let masks = layers::masks(cx, core.layers, window, |l| (l + 1) % 4 != 0)?;
    let mlp = core.mlp(cx)?;
    core.model(cx, |l| {
        let gqa = if masks[l] == Mask::Causal { &gqa } else { &local };
        Ok(LayerSpec::new(gqa.masked(masks[l]), mlp, Block::post(core.rms())))
    })
}

/// OLMoE: experts in every layer, norms over all query heads and all key heads.
pub(in crate::config) fn olmoe(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, ..Style::LLAMA })?;
    experts(cx, &core, Block::pre)
}

/// FlexOlmo: OLMoE with norms on branch outputs.
pub(in crate::config) fn flex_olmo(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { names: POST, ..Style::LLAMA })?;
    experts(cx, &core, Block::post)
}

fn experts(cx: &Cx, core: &Core, block: fn(Norm) -> Block) -> Result<ModelSpec> {
    let gqa = Gqa { qk_norm: Some(QkNorm::whole(core.rms())), ..attention(cx, core)? };
    let (experts, top_k) = moe::sizes(cx)?;
    let router = Router::new(Scoring::Softmax, cx.flag_or("norm_topk_prob", false)?);
    let moe = Moe { experts, top_k, expert: core.mlp(cx)?, router, shared: None };
    core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), moe, block(core.rms()))))
}

fn attention(cx: &Cx, core: &Core) -> Result<Gqa> {
    let rope = rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?;
    Ok(Gqa {
        bias: Biases::all(cx.flag_or("attention_bias", false)?),
        clip_qkv: cx.positive("clip_qkv")?,
        ..core.gqa(Some(rope))
    })
}
