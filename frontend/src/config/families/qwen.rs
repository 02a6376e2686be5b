//! Qwen 1.5 to 3, dense and mixture of experts.

use super::prelude::*;

/// Qwen 1.5, 2 and 2.5: biases on q, k and v that no key announces.
pub(in crate::config) fn qwen2(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::LLAMA)?;
    let attention = Gqa { bias: Biases::qkv(true), ..attention(cx, &core)? };
    let masks = masks(cx, core.layers)?;
    let mlp = core.mlp(cx)?;
    core.model(cx, |l| Ok(layer(&core, &attention, masks[l], Ffn::Dense(mlp))))
}

/// Qwen 3: a norm on each query and key head.
pub(in crate::config) fn qwen3(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::LLAMA)?;
    let attention = normed_attention(cx, &core)?;
    let masks = masks(cx, core.layers)?;
    let mlp = core.mlp(cx)?;
    core.model(cx, |l| Ok(layer(&core, &attention, masks[l], Ffn::Dense(mlp))))
}

/// Qwen 3 MoE: experts of `moe_intermediate_size`, dense layers of `intermediate_size`.
pub(in crate::config) fn qwen3_moe(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::LLAMA)?;
    let attention = normed_attention(cx, &core)?;
    let (experts, top_k) = moe::sizes(cx)?;
    let moe = Moe {
        experts,
        top_k,
        expert: core.mlp_of(cx, cx.dim("moe_intermediate_size")?)?,
        router: Router::new(Scoring::Softmax, cx.flag_or("norm_topk_prob", false)?),
        shared: None,
    };
    mixed(cx, &core, &attention, moe)
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
fn sparse_layers(cx: &Cx, layers: usize) -> Result<Vec<bool>> {
    let step = cx.dim_or("decoder_sparse_step", 1)?;
    let dense = cx.wholes("mlp_only_layers")?.unwrap_or_default();
    let sparse = |l: u64| !dense.contains(&l) && (l + 1).is_multiple_of(step);
    Ok((0..layers as u64).map(sparse).collect())
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

fn normed_attention(cx: &Cx, core: &Core) -> Result<Gqa> {
    Ok(Gqa {
        bias: Biases::all(cx.flag_or("attention_bias", false)?),
        qk_norm: Some(QkNorm::per_head(core.rms())),
        ..attention(cx, core)?
    })
}

fn layer(core: &Core, attention: &Gqa, mask: Mask, ffn: Ffn) -> LayerSpec {
    LayerSpec {
        attention: Attention::Gqa(Gqa { mask, ..attention.clone() }),
        ffn,
        block: Block::pre(core.rms()),
        residual_scale: None,
    }
}
