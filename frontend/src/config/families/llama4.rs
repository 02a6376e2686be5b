//! Llama 4: chunked attention with RoPE in three layers of four, none in the fourth; MoE layers
//! among dense ones, each with one shared expert.

use super::prelude::*;

const NAMES: Names = Names::llama_with(&[&[
    own(Part::Gate, "feed_forward.gate_proj.*"),
    own(Part::Up, "feed_forward.up_proj.*"),
    own(Part::Down, "feed_forward.down_proj.*"),
    own(Part::Router, "feed_forward.router.*"),
    share(Part::ExpertGate, "feed_forward.experts.gate_up_proj", Fusion::Concat).transposed(),
    share(Part::ExpertUp, "feed_forward.experts.gate_up_proj", Fusion::Concat).transposed(),
    own(Part::ExpertDown, "feed_forward.experts.down_proj").transposed(),
    own(Part::SharedGate, "feed_forward.shared_expert.gate_proj.*"),
    own(Part::SharedUp, "feed_forward.shared_expert.up_proj.*"),
    own(Part::SharedDown, "feed_forward.shared_expert.down_proj.*"),
]]);

/// Llama 4's text model.
pub(in crate::config) fn llama4(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, names: NAMES, ..Style::HEADED })?;
    let attention = attention(cx, &core)?;
    let moe = experts(cx, &core)?;
    let dense = core.mlp_of(cx, cx.dim("intermediate_size_mlp")?)?;
    let routes = moe_layers(cx, core.layers)?;
    core.model(cx, |l| {
        let ffn = if routes[l] { Ffn::Moe(moe) } else { Ffn::Dense(dense) };
        Ok(LayerSpec::new(attention[l].clone(), ffn, Block::pre(core.rms())))
    })
}

fn attention(cx: &Cx, core: &Core) -> Result<Vec<Gqa>> {
    let rotates = rotating_layers(cx, core.layers)?;
    let masks = masks(cx, core.layers, &rotates)?;
    let bias = Biases::all(cx.flag_or("attention_bias", false)?);
    let rope = rope::read(cx, core.head_dim, rope::Defaults::theta(500_000.0))?;
    let rope = Rope { interleaved: true, ..rope };
    let normed = cx.flag_or("use_qk_norm", true)?;
    let norm = QkNorm { after_rope: true, ..QkNorm::per_head(core.rms().bare()) };
    let tuned = cx.flag_or("attn_temperature_tuning", true)?;
    let temperature = Temperature {
        shift: 1,
        floor: cx.positive_or("floor_scale", 8192.0)?,
        scale: cx.positive_or("attn_scale", 0.1)?,
    };
    let layer = |l: usize| Gqa {
        bias,
        qk_norm: (normed && rotates[l]).then_some(norm),
        temperature: (tuned && !rotates[l]).then_some(temperature),
        mask: masks[l],
        ..core.gqa(rotates[l].then(|| rope.clone()))
    };
    Ok((0..core.layers).map(layer).collect())
}

/// `no_rope_layers` holds, against its name, 1 for layers that rotate. Without it every
/// `no_rope_layer_interval`-th layer does not.
pub(super) fn rotating_layers(cx: &Cx, layers: usize) -> Result<Vec<bool>> {
    let every = cx.dim_or("no_rope_layer_interval", 4)?;
    match cx.wholes("no_rope_layers")?.filter(|list| !list.is_empty()) {
        Some(list) => {
            layers::check_length(cx, "no_rope_layers", list.len(), layers)?;
            Ok(list.into_iter().map(|rotates| rotates != 0).collect())
        }
        None => Ok((1..=layers as u64).map(|l| !l.is_multiple_of(every)).collect()),
    }
}

/// Layers that rotate see their chunk; `layer_types` wins.
fn masks(cx: &Cx, layers: usize, rotates: &[bool]) -> Result<Vec<Mask>> {
    let chunk = match cx.require("attention_chunk_size") {
        Ok(()) => cx.opt_whole("attention_chunk_size", 1, crate::config::MAX_POSITIONS)?,
        Err(_) => Some(8192),
    };
    let types = layers::types(cx, layers)?;
    let chunked = |l: usize| match &types {
        Some(types) => types[l] != layers::LayerType::Full,
        None => rotates[l],
    };
    let mask = |l: usize| match chunk {
        Some(chunk) if chunked(l) => Mask::Chunk(chunk),
        _ => Mask::Causal,
    };
    Ok((0..layers).map(mask).collect())
}

/// `moe_layers`, else every `interleave_moe_layer_step`-th layer, counted from one.
fn moe_layers(cx: &Cx, layers: usize) -> Result<Vec<bool>> {
    let step = cx.dim_or("interleave_moe_layer_step", 1)?;
    let interleaved = || (1..=layers as u64).map(|l| l.is_multiple_of(step)).collect();
    Ok(layers::numbered(cx, "moe_layers", layers)?.unwrap_or_else(interleaved))
}

/// Sigmoid of the chosen logits scales the expert's input.
fn experts(cx: &Cx, core: &Core) -> Result<Moe> {
    let (experts, top_k) = moe::sizes(cx)?;
    let expert = core.mlp(cx)?;
    let router = Router { scales_input: true, ..Router::new(Scoring::Sigmoid, false) };
    let shared = Some(Shared { mlp: expert, gate: false });
    Ok(Moe { experts, top_k, expert, router, shared })
}
