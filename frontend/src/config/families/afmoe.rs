//! Gated attention: Arcee Trinity (AFMoE) and Poolside Laguna.

use super::prelude::*;

/// AFMoE: sandwich norms, no RoPE in layers that see the whole context, dense layers first.
pub(in crate::config) fn afmoe(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names::llama_with(&[&[
        own(Part::FfnIn, "pre_mlp_layernorm.*"),
        own(Part::FfnOut, "post_mlp_layernorm.*"),
        own(Part::Router, "mlp.router.gate.*"),
        own(Part::RouterCorrection, "mlp.expert_bias"),
    ]]);
    let core = Core::read(cx, Style { eps: 1e-5, names: NAMES, ..Style::HEADED })?;
    let rope = rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?;
    let every = cx.dim_or("global_attn_every_n_layers", 4)? as usize;
    let window = layers::window_or(cx, 1024)?;
    let masks = layers::masks(cx, core.layers, window, |l| (l + 1) % every != 0)?;
    let gate = OutputGate { per_head: false, activation: GateActivation::Sigmoid };
    let gqa = Gqa {
        bias: Biases::all(cx.flag_or("attention_bias", false)?),
        qk_norm: Some(QkNorm::per_head(core.rms())),
        gate: Some(gate),
        ..core.gqa(None)
    };
    let (experts, top_k) = moe::sizes(cx)?;
    let expert = core.mlp_of(cx, cx.dim("moe_intermediate_size")?)?;
    let router = Router {
        scale: cx.positive_or("route_scale", 1.0)?,
        correction: Correction::Parameter,
        ..Router::new(Scoring::Sigmoid, true)
    };
    let shared = moe::shared(expert, moe::shared_count(cx)?);
    let moe = Moe { experts, top_k, expert, router, shared };
    let dense = cx.whole_or("num_dense_layers", 1, 0, crate::config::MAX_LAYERS)? as usize;
    let mut model = core.model(cx, |l| {
        let rope = (masks[l] != Mask::Causal).then(|| rope.clone());
        let gqa = Gqa { rope, ..gqa.masked(masks[l]) };
        let ffn = if l < dense { Ffn::Dense(core.mlp(cx)?) } else { Ffn::Moe(moe) };
        Ok(LayerSpec::new(gqa, ffn, Block::sandwich(core.rms())))
    })?;
    if cx.flag_or("mup_enabled", false)? {
        model.embedding.scale = Some((core.hidden as f64).sqrt());
    }
    Ok(model)
}

/// Laguna: a factor per head, RoPE and query heads that differ between layers.
pub(in crate::config) fn laguna(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names::llama_with(&[&[
        own(Part::OutputGate, "self_attn.g_proj.*"),
        own(Part::RouterCorrection, "mlp.experts.e_score_correction_bias"),
        own(Part::SharedGate, "mlp.shared_expert.gate_proj.*"),
        own(Part::SharedUp, "mlp.shared_expert.up_proj.*"),
        own(Part::SharedDown, "mlp.shared_expert.down_proj.*"),
    ]]);
    let core = Core::read(cx, Style { names: NAMES, ..Style::HEADED })?;
    let attention = laguna_attention(cx, &core)?;
    let moe = laguna_experts(cx, &core)?;
    let first = |_: &Cx| Ok((0..core.layers).map(|l| l > 0).collect());
    let routed = moe::routed_layers(cx, core.layers, first)?;
    core.model(cx, |l| {
        let ffn = if routed[l] { Ffn::Moe(moe) } else { Ffn::Dense(core.mlp(cx)?) };
        Ok(LayerSpec::new(attention[l].clone(), ffn, Block::pre(core.rms())))
    })
}

fn laguna_attention(cx: &Cx, core: &Core) -> Result<Vec<Gqa>> {
    let masks = layers::masks(cx, core.layers, layers::window_or(cx, 512)?, |_| false)?;
    let half = rope::Defaults { partial: 0.5, ..rope::Defaults::theta(5e5) };
    let full = rope::read_for(cx, core.head_dim, half, "full_attention")?;
    let whole = rope::Defaults::LLAMA;
    let sliding = rope::read_own(cx, core.head_dim, whole, "sliding_attention")?;
    let sliding = sliding.unwrap_or(Rope::plain(whole.theta, core.head_dim));
    let per_head = match cx.find("gating").map(|(_, member)| &member.node.value) {
        Some(crate::json::Value::Bool(true)) | None => true,
        _ => cx.text("gating")?.is_some_and(|word| word == "per-head"),
    };
    let gate = OutputGate { per_head, activation: GateActivation::Softplus };
    let listed = cx.wholes("num_attention_heads_per_layer")?;
    if let Some(list) = &listed {
        layers::check_length(cx, "num_attention_heads_per_layer", list.len(), core.layers)?;
    }
    let layer = |l: usize| {
        let heads = listed.as_ref().map_or(core.heads, |list| list[l]);
        let keys = ["num_attention_heads_per_layer", "num_key_value_heads"];
        crate::config::core::check_heads(cx, heads, core.kv_heads, &keys)?;
        let rope = if masks[l] == Mask::Causal { full.clone() } else { sliding.clone() };
        Ok(Gqa {
            bias: Biases::all(cx.flag_or("attention_bias", false)?),
            qk_norm: Some(QkNorm::per_head(core.rms())),
            gate: Some(gate),
            mask: masks[l],
            ..Gqa::new(heads, core.kv_heads, core.head_dim, Some(rope))
        })
    };
    (0..core.layers).map(layer).collect()
}

fn laguna_experts(cx: &Cx, core: &Core) -> Result<Moe> {
    if cx.number_or("moe_router_logit_softcapping", 0.0)? > 0.0 {
        let key = "moe_router_logit_softcapping";
        return Err(cx.unsupported(key, "a cap on router logits is not supported", "set it to 0"));
    }
    let (experts, top_k) = moe::sizes(cx)?;
    let expert = core.mlp_of(cx, cx.dim("moe_intermediate_size")?)?;
    let router = Router {
        scale: cx.positive_or("moe_routed_scaling_factor", 1.0)?,
        correction: Correction::Parameter,
        ..Router::new(Scoring::Sigmoid, true)
    };
    let width = cx.dim("shared_expert_intermediate_size")?;
    let shared = Some(Shared { mlp: core.mlp_of(cx, width)?, gate: false });
    Ok(Moe { experts, top_k, expert, router, shared })
}
