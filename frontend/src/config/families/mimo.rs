//! MiMo V2 Flash: windows with sinks and KV heads of their own in five layers of six, narrow value
//! heads, DeepSeek V3's experts without shared ones.

use super::deepseek;
use super::prelude::*;
use crate::config::core::check_heads;

const NAMES: Names = Names::llama_with(&[&[own(Part::Sinks, "self_attn.attention_sink_bias")]]);

/// MiMo V2 Flash, as published and as `transformers` 5 writes it.
pub(in crate::config) fn mimo_v2_flash(cx: &Cx) -> Result<ModelSpec> {
    let eps_keys = ["layernorm_epsilon", "rms_norm_eps"];
    let core = Core::read(cx, Style { eps: 1e-5, eps_keys, names: NAMES, ..Style::HEADED })?;
    let slides = sliding_layers(cx, core.layers)?;
    let (full, sliding) = (full(cx, &core)?, sliding(cx, &core)?);
    let router = Router {
        groups: deepseek::groups(cx, GroupScore::Top2Sum)?,
        scale: cx.positive_or("routed_scaling_factor", 1.0)?,
        correction: Correction::Buffer,
        ..Router::new(Scoring::Sigmoid, cx.flag_or("norm_topk_prob", true)?)
    };
    let (experts, top_k) = moe::sizes(cx)?;
    if let Some(limit) = router.groups {
        moe::check_groups(cx, (experts, top_k), (limit.groups, limit.keep))?;
    }
    let expert = core.mlp_of(cx, cx.dim("moe_intermediate_size")?)?;
    let moe = Moe { experts, top_k, expert, router, shared: None };
    let key = "moe_layer_freq";
    let listed = |cx: &Cx| layers::marked(cx, key, core.layers)?.ok_or_else(|| cx.missing(key));
    let routed = moe::routed_layers(cx, core.layers, listed)?;
    core.model(cx, |l| {
        let gqa = if slides[l] { &sliding } else { &full };
        let ffn = if routed[l] { Ffn::Moe(moe) } else { Ffn::Dense(core.mlp(cx)?) };
        Ok(LayerSpec::new(gqa.clone(), ffn, Block::pre(core.rms())))
    })
}

/// `layer_types`, else `hybrid_layer_pattern`, with 1 for a window.
fn sliding_layers(cx: &Cx, layers: usize) -> Result<Vec<bool>> {
    if let Some(types) = layers::types(cx, layers)? {
        return Ok(types.into_iter().map(|t| t != layers::LayerType::Full).collect());
    }
    let key = "hybrid_layer_pattern";
    layers::marked(cx, key, layers)?.ok_or_else(|| cx.missing(key))
}

/// A third of each head rotates.
const PARTIAL: f64 = 0.334;

fn full(cx: &Cx, core: &Core) -> Result<Gqa> {
    let defaults = rope::Defaults { partial: PARTIAL, ..rope::Defaults::theta(5e6) };
    let rope = rope::read_for(cx, core.head_dim, defaults, "full_attention")?;
    let gqa = core.gqa(Some(rope));
    Ok(Gqa {
        bias: Biases::qkv(cx.flag_or("attention_bias", false)?),
        v_head_dim: cx.dim("v_head_dim")?,
        v_scale: match cx.require("attention_value_scale") {
            Ok(()) => cx.positive("attention_value_scale")?,
            Err(_) => Some(0.707),
        },
        sinks: cx.flag_or("add_full_attention_sink_bias", false)?,
        ..gqa
    })
}

/// Layers with a window; without sizes of their own they have twice as many KV heads.
fn sliding(cx: &Cx, core: &Core) -> Result<Gqa> {
    let heads = cx.dim_or("swa_num_attention_heads", core.heads)?;
    let keys = ["swa_num_key_value_heads", "swa_num_attention_heads", "num_attention_heads"];
    let kv_heads = cx.dim_or(keys[0], core.kv_heads.saturating_mul(2))?;
    check_heads(cx, heads, kv_heads, &keys)?;
    let head_dim = cx.dim_or("swa_head_dim", core.head_dim)?;
    let theta = cx.positive_or("swa_rope_theta", 1e4)?;
    let defaults = rope::Defaults { theta, partial: PARTIAL, ..rope::Defaults::FIXED };
    let rope = match rope::read_own(cx, head_dim, defaults, "sliding_attention")? {
        Some(own) => own,
        None => Rope { theta: defaults.theta, ..rope::read(cx, head_dim, defaults)? },
    };
    let base = full(cx, core)?;
    let own = Gqa::new(heads, kv_heads, head_dim, Some(rope));
    Ok(Gqa {
        bias: base.bias,
        v_head_dim: cx.dim_or("swa_v_head_dim", base.v_head_dim)?,
        v_scale: base.v_scale,
        sinks: cx.flag_or("add_swa_attention_sink_bias", true)?,
        mask: Mask::Window(window(cx)?),
        ..own
    })
}

/// Positions that a query sees, its own included: `sliding_window_size` counts those before it.
fn window(cx: &Cx) -> Result<u64> {
    let most = crate::config::MAX_POSITIONS;
    let own = cx.opt_whole("sliding_window", 1, most)?;
    cx.acknowledge(&["attention_chunk_size"]);
    let before = cx.opt_whole("sliding_window_size", 1, most)?;
    Ok(before.map(|n| n + 1).or(own).unwrap_or(129))
}
