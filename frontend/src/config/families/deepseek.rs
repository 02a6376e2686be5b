//! DeepSeek V2 and V3 (V3.1, R1, Kimi K2): latent attention, dense layers first, then experts.

use super::prelude::*;
use crate::config::fields::MAX_LAYERS;

/// DeepSeek V2: softmax scores; a group is as good as its best expert.
pub(in crate::config) fn v2(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::LLAMA)?;
    let limited = match cx.text("topk_method")?.unwrap_or("greedy") {
        "greedy" => false,
        "group_limited_greedy" => true,
        other => return Err(unknown_method(cx, other)),
    };
    let router = Router {
        groups: if limited { groups(cx, GroupScore::Max)? } else { None },
        scale: cx.positive_or("routed_scaling_factor", 1.0)?,
        ..Router::new(scoring(cx, "softmax")?, cx.flag_or("norm_topk_prob", false)?)
    };
    model(cx, &core, router, mla(cx, &core)?)
}

/// DeepSeek V3: sigmoid scores with a correction bias; a group is as good as its best two experts.
pub(in crate::config) fn v3(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::LLAMA)?;
    cx.require("n_group")?;
    let router = router_v3(cx)?;
    model(cx, &core, router, mla(cx, &core)?)
}

/// The router of DeepSeek V3.
pub(super) fn router_v3(cx: &Cx) -> Result<Router> {
    if let Some(other) = cx.text("topk_method")?.filter(|m| *m != "noaux_tc") {
        return Err(unknown_method(cx, other));
    }
    Ok(Router {
        groups: groups(cx, GroupScore::Top2Sum)?,
        scale: cx.positive_or("routed_scaling_factor", 1.0)?,
        correction: Correction::Buffer,
        ..Router::new(scoring(cx, "sigmoid")?, cx.flag_or("norm_topk_prob", true)?)
    })
}

/// Latent attention.
pub(super) fn mla(cx: &Cx, core: &Core) -> Result<Mla> {
    let (nope_dim, rope_dim) = (cx.dim("qk_nope_head_dim")?, cx.dim("qk_rope_head_dim")?);
    let scale = inverse_sqrt(nope_dim.saturating_add(rope_dim)) * rope::softmax_growth(cx)?;
    let rope = rope::read(cx, rope_dim, rope::Defaults::LLAMA)?;
    cx.require("q_lora_rank")?;
    Ok(Mla {
        heads: core.heads,
        q_lora_rank: cx.opt_dim("q_lora_rank")?,
        kv_lora_rank: cx.dim("kv_lora_rank")?,
        nope_dim,
        rope_dim,
        v_dim: cx.dim("v_head_dim")?,
        latent_norm: Norm::rms(1e-6),
        rope: Rope { interleaved: cx.flag_or("rope_interleave", true)?, ..rope },
        scale,
        bias: cx.flag_or("attention_bias", false)?,
        indexer: None,
    })
}

/// Dense layers up to `first_k_dense_replace`, then every `moe_layer_freq`-th routes.
fn model(cx: &Cx, core: &Core, router: Router, mla: Mla) -> Result<ModelSpec> {
    cx.require("n_shared_experts")?;
    cx.require("first_k_dense_replace")?;
    let moe = experts(cx, core, router)?;
    let first = cx.whole_or("first_k_dense_replace", 0, 0, MAX_LAYERS)?;
    let step = cx.dim_or("moe_layer_freq", 1)?;
    if cx.opt_whole("num_nextn_predict_layers", 0, MAX_LAYERS)?.is_some_and(|n| n > 0) {
        cx.warn(
            crate::codes::IGNORED,
            "num_nextn_predict_layers",
            "the multi-token-prediction layer is left out",
        );
    }
    core.model(cx, |l| {
        let sparse = l as u64 >= first && (l as u64).is_multiple_of(step);
        Ok(LayerSpec {
            attention: Attention::Mla(mla.clone()),
            ffn: if sparse { Ffn::Moe(moe) } else { Ffn::Dense(core.mlp(cx)?) },
            block: Block::pre(core.rms()),
            residual_scale: None,
        })
    })
}

/// Routed experts of `moe_intermediate_size`, and `n_shared_experts` of the same width as one.
pub(super) fn experts(cx: &Cx, core: &Core, router: Router) -> Result<Moe> {
    let (experts, top_k) = moe::sizes(cx)?;
    if let Some(limit) = router.groups {
        moe::check_groups(cx, (experts, top_k), (limit.groups, limit.keep))?;
    }
    let expert = core.mlp_of(cx, cx.dim("moe_intermediate_size")?)?;
    let shared = match cx.opt_whole("n_shared_experts", 0, 1 << 16)? {
        None | Some(0) => None,
        Some(n) => {
            let width = expert.width.saturating_mul(n);
            Some(Shared { mlp: Mlp { width, ..expert }, gate: false })
        }
    };
    Ok(Moe { experts, top_k, expert, router, shared })
}

/// The limit to groups; none where there is one group.
pub(super) fn groups(cx: &Cx, score: GroupScore) -> Result<Option<GroupLimit>> {
    let (groups, keep) = (cx.dim_or("n_group", 1)?, cx.dim_or("topk_group", 1)?);
    Ok((groups > 1).then_some(GroupLimit { groups, keep, score }))
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

fn unknown_method(cx: &Cx, method: &str) -> Box<shardc_ir::diag::Diagnostic> {
    cx.unsupported(
        "topk_method",
        format!("the choice of experts {method:?} is not supported"),
        "supported: greedy and group_limited_greedy (V2), noaux_tc (V3)",
    )
}
