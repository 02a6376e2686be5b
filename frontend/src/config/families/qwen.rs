//! Qwen 1 to 3, dense and mixture of experts.

use super::gpt2;
use super::prelude::*;
use crate::config::core::SizeKeys;

/// Qwen 1.5, 2 and 2.5: biases on q, k and v that no key announces.
pub(in crate::config) fn qwen2(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::GROUPED)?;
    let attention = Gqa { bias: Biases::qkv(true), ..attention(cx, &core)? };
    cx.acknowledge(&["attention_bias"]);
    let masks = masks(cx, core.layers)?;
    let mlp = core.mlp(cx)?;
    core.model(cx, |l| Ok(layer(&core, &attention, masks[l], mlp)))
}

/// Qwen 1.5 MoE and 2 MoE: a shared expert with a learned gate.
pub(in crate::config) fn qwen2_moe(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { names: SHARED, ..Style::GROUPED })?;
    let bias = Biases::qkv(cx.flag_or("qkv_bias", true)?);
    let attention = Gqa { bias, ..attention(cx, &core)? };
    let moe = gated_experts(cx, &core)?;
    mixed(cx, &core, &attention, moe)
}

/// Small experts beside a shared one with a learned gate.
pub(super) fn gated_experts(cx: &Cx, core: &Core) -> Result<Moe> {
    let shared = core.mlp_of(cx, cx.dim("shared_expert_intermediate_size")?)?;
    Ok(Moe { shared: Some(Shared { mlp: shared, gate: true }), ..small_experts(cx, core)? })
}

/// Qwen 2 MoE's one shared expert.
const SHARED: Names = Names::llama_with(&[&[
    own(Part::SharedGate, "mlp.shared_expert.gate_proj.*"),
    own(Part::SharedUp, "mlp.shared_expert.up_proj.*"),
    own(Part::SharedDown, "mlp.shared_expert.down_proj.*"),
]]);

/// Qwen 1's tensor names.
const QWEN1: Names = Names {
    layer: gpt2::LAYER,
    rows: &[
        gpt2::BODY,
        gpt2::FUSED,
        &[own(Part::Gate, "mlp.w2.*"), own(Part::Up, "mlp.w1.*"), own(Part::Down, "mlp.c_proj.*")],
    ],
};

/// Qwen 1: `intermediate_size` counts gate and up together.
pub(in crate::config) fn qwen1(cx: &Cx) -> Result<ModelSpec> {
    let eps_keys = ["layer_norm_epsilon", "layer_norm_eps"];
    let core = Core::read(
        cx,
        Style { eps_keys, keys: SizeKeys::UNGROUPED, names: QWEN1, ..Style::LLAMA },
    )?;
    let head_dim = cx.dim_or("kv_channels", core.head_dim)?;
    let rope = rope::read(cx, head_dim, rope::Defaults::LLAMA)?;
    let gqa = Gqa::new(core.heads, core.heads, head_dim, Some(rope));
    let plain = cx.flag_or("no_bias", true)?;
    let gqa = Gqa { bias: Biases { o: !plain, ..Biases::qkv(true) }, ..gqa };
    let doubled = cx.dim("intermediate_size")?;
    if !doubled.is_multiple_of(2) {
        let message = format!("`intermediate_size` is {doubled}, twice the width of a projection");
        return Err(cx.conflict(&["intermediate_size"], message, "Qwen 1 needs an even number"));
    }
    let mlp = Mlp { bias: !plain, ..core.mlp_of(cx, doubled / 2)? };
    core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(core.rms()))))
}

/// Qwen 3: a norm on each query and key head.
pub(in crate::config) fn qwen3(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::HEADED)?;
    let attention = normed_attention(cx, &core)?;
    let masks = masks(cx, core.layers)?;
    let mlp = core.mlp(cx)?;
    core.model(cx, |l| Ok(layer(&core, &attention, masks[l], mlp)))
}

/// Qwen 3 MoE: experts of `moe_intermediate_size`, dense layers of `intermediate_size`.
pub(in crate::config) fn qwen3_moe(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::GROUPED)?;
    let attention = normed_attention(cx, &core)?;
    let moe = small_experts(cx, &core)?;
    mixed(cx, &core, &attention, moe)
}

fn small_experts(cx: &Cx, core: &Core) -> Result<Moe> {
    let (experts, top_k) = moe::sizes(cx)?;
    Ok(Moe {
        experts,
        top_k,
        expert: core.mlp_of(cx, cx.dim("moe_intermediate_size")?)?,
        router: Router::new(Scoring::Softmax, cx.flag_or("norm_topk_prob", false)?),
        shared: None,
    })
}

/// Mellum 2: Qwen 3 MoE with windows, RoPE and dense layers as lists say.
pub(in crate::config) fn mellum(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::HEADED)?;
    let full = normed_attention(cx, &core)?;
    let own = rope::read_own(cx, core.head_dim, rope::Defaults::LLAMA, "sliding_attention")?;
    let sliding = Gqa { rope: own.or(full.rope.clone()), ..full.clone() };
    let masks = layers::masks(cx, core.layers, layers::window_or(cx, 1024)?, |_| false)?;
    let moe = small_experts(cx, &core)?;
    let all = |_: &Cx| Ok(vec![true; core.layers]);
    let routed = moe::routed_layers(cx, core.layers, all)?;
    core.model(cx, |l| {
        let gqa = if masks[l] == Mask::Causal { &full } else { &sliding };
        let ffn = if routed[l] { Ffn::Moe(moe) } else { Ffn::Dense(core.mlp(cx)?) };
        Ok(layer(&core, gqa, masks[l], ffn))
    })
}

/// Layers that route, dense ones between them as the keys say.
fn mixed(cx: &Cx, core: &Core, attention: &Gqa, moe: Moe) -> Result<ModelSpec> {
    let sparse = sparse_layers(cx, core.layers)?;
    let masks = masks(cx, core.layers)?;
    core.model(cx, |l| {
        let ffn = if sparse[l] { Ffn::Moe(moe) } else { Ffn::Dense(core.mlp(cx)?) };
        Ok(layer(core, attention, masks[l], ffn))
    })
}

/// Layer `l` routes where `l + 1` is a multiple of `decoder_sparse_step`, unless
/// `mlp_only_layers` names it.
pub(super) fn sparse_layers(cx: &Cx, layers: usize) -> Result<Vec<bool>> {
    let step = cx.dim_or("decoder_sparse_step", 1)?;
    let dense = layers::numbered(cx, "mlp_only_layers", layers)?.unwrap_or(vec![false; layers]);
    let sparse = |(l, dense): (usize, bool)| !dense && (l as u64 + 1).is_multiple_of(step);
    Ok(dense.into_iter().enumerate().map(sparse).collect())
}

/// From layer `max_window_layers` on, layers slide, if `use_sliding_window`; `layer_types` wins.
fn masks(cx: &Cx, layers: usize) -> Result<Vec<Mask>> {
    let on = cx.flag_or("use_sliding_window", false)?;
    let window = layers::window(cx)?.filter(|_| on);
    let first = cx.whole_or("max_window_layers", 28, 0, 1 << 32)? as usize;
    layers::masks(cx, layers, window, |l| window.is_some() && l >= first)
}

fn attention(cx: &Cx, core: &Core) -> Result<Gqa> {
    Ok(core.gqa(Some(rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?)))
}

pub(super) fn normed_attention(cx: &Cx, core: &Core) -> Result<Gqa> {
    cx.acknowledge(&["use_qk_norm"]);
    Ok(Gqa {
        bias: Biases::all(cx.flag_or("attention_bias", false)?),
        qk_norm: Some(QkNorm::per_head(core.rms())),
        ..attention(cx, core)?
    })
}

fn layer(core: &Core, attention: &Gqa, mask: Mask, ffn: impl Into<Ffn>) -> LayerSpec {
    LayerSpec::new(attention.masked(mask), ffn, Block::pre(core.rms()))
}
