//! DeepSeek V2, V3 and V3.2 (V3.1, R1, Kimi K2, GLM 4.7 Flash, GLM 5): latent attention, dense
//! layers first, then experts.

use super::mistral;
use super::prelude::*;
use crate::config::MAX_LAYERS;
use shardc_ir::diag::Diagnostic;

/// DeepSeek V2: softmax scores; a group is as good as its best expert.
pub(in crate::config) fn v2(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::latent(cx, Style::LLAMA)?;
    let limited = match cx.text("topk_method")?.unwrap_or("greedy") {
        "greedy" => false,
        "group_limited_greedy" => true,
        other => return Err(unknown_method(cx, other)),
    };
    let router = Router {
        groups: if limited { groups_v2(cx)? } else { None },
        scale: cx.positive_or("routed_scaling_factor", 1.0)?,
        ..Router::new(scoring(cx, "softmax")?, cx.flag_or("norm_topk_prob", false)?)
    };
    model(cx, &core, router, |_| mla(cx, &core))
}

/// DeepSeek V3: sigmoid scores with a correction bias; a group is as good as its best two experts.
pub(in crate::config) fn v3(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::latent(cx, Style::LLAMA)?;
    model(cx, &core, router(cx)?, |_| mla(cx, &core))
}

/// DeepSeek V3.2: V3 with an indexer that picks the keys each query looks at.
pub(in crate::config) fn v32(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::latent(cx, Style::LLAMA)?;
    let indexer = Indexer {
        heads: cx.dim("index_n_heads")?,
        head_dim: cx.dim("index_head_dim")?,
        top_k: cx.dim("index_topk")?,
        key_norm: Norm::layer(1e-6, true),
        interleaved: cx.model_type() == Some("glm_moe_dsa"),
    };
    if cx.has(["index_topk_pattern", "index_topk_freq"]) {
        let freq = cx.dim_or("index_topk_freq", 1)?;
        if freq != 1 || cx.has("index_topk_pattern") {
            return Err(cx.unsupported(
                "index_topk_freq",
                "some layers reuse the keys that an earlier layer's indexer picked",
                "only models in which every layer has an indexer are supported",
            ));
        }
    }
    model(cx, &core, router(cx)?, |_| Ok(Mla { indexer: Some(indexer), ..mla(cx, &core)? }))
}

/// Mistral 4: softmax scores, queries that grow with the position.
pub(in crate::config) fn mistral4(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names::llama_with(&[&[
        share(Part::ExpertGate, "mlp.experts.gate_up_proj", Fusion::Concat),
        share(Part::ExpertUp, "mlp.experts.gate_up_proj", Fusion::Concat),
        own(Part::ExpertDown, "mlp.experts.down_proj"),
    ]]);
    let core = Core::latent(cx, Style { names: NAMES, ..Style::LLAMA })?;
    let router = Router {
        groups: groups(cx, GroupScore::Top2Sum)?,
        scale: cx.positive_or("routed_scaling_factor", 1.0)?,
        ..Router::new(Scoring::Softmax, cx.flag_or("norm_topk_prob", true)?)
    };
    let temperature = mistral::temperature(cx)?;
    model(cx, &core, router, |_| Ok(Mla { temperature, ..mla(cx, &core)? }))
}

/// A.X K1: V3 with a norm on the output of layers with experts.
pub(in crate::config) fn axk1(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names::llama_with(&[&[own(Part::FfnOut, "post_mlp_layernorm.*")]]);
    let core = Core::latent(cx, Style { names: NAMES, ..Style::LLAMA })?;
    let mut model = model(cx, &core, router(cx)?, |_| mla(cx, &core))?;
    for layer in model.layers.iter_mut().filter(|l| matches!(l.ffn, Ffn::Moe(_))) {
        if let Block::Sequential { ffn_out, .. } = &mut layer.block {
            *ffn_out = Some(core.rms());
        }
    }
    Ok(model)
}

/// DeepSeek MoE (V1): multi-head attention, softmax scores.
pub(in crate::config) fn v1(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::LLAMA)?;
    let gqa = Gqa {
        bias: Biases::all(cx.flag_or("attention_bias", false)?),
        ..core.gqa(Some(rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?))
    };
    let router = Router::new(scoring(cx, "softmax")?, cx.flag_or("norm_topk_prob", false)?);
    let moe = experts(cx, &core, router)?;
    let sparse = dense_first(cx, core.layers)?;
    core.model(cx, |l| {
        let ffn = if sparse[l] { Ffn::Moe(moe) } else { Ffn::Dense(core.mlp(cx)?) };
        Ok(LayerSpec::new(gqa.clone(), ffn, Block::pre(core.rms())))
    })
}

/// Youtu: latent attention, dense blocks only.
pub(in crate::config) fn youtu(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::latent(cx, Style { tied: true, ..Style::LLAMA })?;
    let mlp = core.mlp(cx)?;
    core.model(cx, |_| Ok(LayerSpec::new(mla(cx, &core)?, mlp, Block::pre(core.rms()))))
}

/// The router of DeepSeek V3 and its kin.
pub(super) fn router(cx: &Cx) -> Result<Router> {
    if let Some(other) = cx.text("topk_method")?.filter(|m| *m != "noaux_tc") {
        return Err(unknown_method(cx, other));
    }
    cx.require("n_group")?;
    cx.require("routed_scaling_factor")?;
    Ok(Router {
        groups: groups(cx, GroupScore::Top2Sum)?,
        scale: cx.positive_or("routed_scaling_factor", 1.0)?,
        correction: Correction::Buffer,
        ..Router::new(scoring(cx, "sigmoid")?, cx.flag_or("norm_topk_prob", true)?)
    })
}

/// Latent attention whose pairs are neighbours unless `rope_interleave` says otherwise.
pub(super) fn mla(cx: &Cx, core: &Core) -> Result<Mla> {
    let interleaved = cx.flag_or("rope_interleave", true)?;
    mla_of(cx, core, cx.dim("v_head_dim")?, interleaved)
}

/// Latent attention with value heads of `v_dim` elements.
pub(super) fn mla_of(cx: &Cx, core: &Core, v_dim: u64, interleaved: bool) -> Result<Mla> {
    let (nope_dim, rope_dim) = (cx.dim("qk_nope_head_dim")?, cx.dim("qk_rope_head_dim")?);
    let rope = rope::read_whole(cx, rope_dim, rope::Defaults::LLAMA)?;
    let growth = rope::softmax_growth(cx, &rope.scaling)?;
    let scale = inverse_sqrt(nope_dim.saturating_add(rope_dim)) * growth;
    cx.require("q_lora_rank")?;
    Ok(Mla {
        heads: core.heads,
        q_lora_rank: cx.opt_dim("q_lora_rank")?,
        kv_lora_rank: cx.dim("kv_lora_rank")?,
        nope_dim,
        rope_dim,
        v_dim,
        latent_norm: Norm::rms(1e-6),
        rope: Rope { interleaved, ..rope },
        scale,
        temperature: None,
        bias: cx.flag_or("attention_bias", false)?,
        indexer: None,
    })
}

fn model(
    cx: &Cx,
    core: &Core,
    router: Router,
    attention: impl Fn(usize) -> Result<Mla>,
) -> Result<ModelSpec> {
    let moe = experts(cx, core, router)?;
    let sparse = moe::routed_layers(cx, core.layers, |cx| dense_first(cx, core.layers))?;
    core.model(cx, |l| {
        let ffn = if sparse[l] { Ffn::Moe(moe) } else { Ffn::Dense(core.mlp(cx)?) };
        Ok(LayerSpec::new(attention(l)?, ffn, Block::pre(core.rms())))
    })
}

/// Dense layers up to `first_k_dense_replace`, then every `moe_layer_freq`-th routes; or those
/// that `moe_layer_freq` marks with 1 in a list.
pub(super) fn dense_first(cx: &Cx, layers: usize) -> Result<Vec<bool>> {
    if let Some(marked) = layers::marked(cx, "moe_layer_freq", layers)? {
        return Ok(marked);
    }
    cx.require("first_k_dense_replace")?;
    let first = cx.whole_or("first_k_dense_replace", 0, 0, MAX_LAYERS)?;
    let step = cx.dim_or("moe_layer_freq", 1)?;
    Ok((0..layers as u64).map(|l| l >= first && l.is_multiple_of(step)).collect())
}

/// Routed experts of `moe_intermediate_size`, and `n_shared_experts` of the same width as one.
pub(super) fn experts(cx: &Cx, core: &Core, router: Router) -> Result<Moe> {
    let (experts, top_k) = moe::sizes(cx)?;
    if let Some(limit) = router.groups {
        moe::check_groups(cx, (experts, top_k), (limit.groups, limit.keep))?;
    }
    let expert = core.mlp_of(cx, cx.dim("moe_intermediate_size")?)?;
    let shared = moe::shared_count(cx)?;
    Ok(Moe { experts, top_k, expert, router, shared: moe::shared(expert, shared) })
}

/// The limit to groups; none where there is one group.
pub(super) fn groups(cx: &Cx, score: GroupScore) -> Result<Option<GroupLimit>> {
    let groups = cx.dim_or("n_group", 1)?;
    if groups == 1 {
        return Ok(None);
    }
    Ok(Some(GroupLimit { groups, keep: cx.dim("topk_group")?, score }))
}

fn groups_v2(cx: &Cx) -> Result<Option<GroupLimit>> {
    cx.require("n_group")?;
    groups(cx, GroupScore::Max)
}

fn scoring(cx: &Cx, default: &str) -> Result<Scoring> {
    match cx.text("scoring_func")?.unwrap_or(default) {
        "softmax" => Ok(Scoring::Softmax),
        "sigmoid" => Ok(Scoring::Sigmoid),
        other => Err(cx.unsupported(
            "scoring_func",
            format!("the scoring function {other:?} is not supported"),
            "supported: softmax, sigmoid",
        )),
    }
}

fn unknown_method(cx: &Cx, method: &str) -> Box<Diagnostic> {
    cx.unsupported(
        "topk_method",
        format!("the choice of experts {method:?} is not supported"),
        "supported: greedy and group_limited_greedy (V2), noaux_tc (V3)",
    )
}
