//! Hunyuan 1, dense and mixture of experts: a norm on each head after the rotation.

use super::deepseek;
use super::prelude::*;
use crate::json::{Node, Value};

const SHARED: &[NameRow] = &[
    own(Part::SharedGate, "mlp.shared_mlp.gate_proj.*"),
    own(Part::SharedUp, "mlp.shared_mlp.up_proj.*"),
    own(Part::SharedDown, "mlp.shared_mlp.down_proj.*"),
];
const NAMES: Names = Names::llama_with(&[
    SHARED,
    &[
        own(Part::QueryNorm, "self_attn.query_layernorm.*"),
        own(Part::KeyNorm, "self_attn.key_layernorm.*"),
        own(Part::Router, "mlp.gate.wg.*"),
    ],
]);
const STYLE: Style = Style { eps: 1e-5, names: NAMES, ..Style::GROUPED };

/// Hunyuan dense.
pub(in crate::config) fn dense(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, STYLE)?;
    let gqa = attention(cx, &core)?;
    let mlp = core.mlp(cx)?;
    core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(core.rms()))))
}

/// Hunyuan MoE: one shared expert; experts, choices and widths may differ per layer.
pub(in crate::config) fn sparse(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, STYLE)?;
    let gqa = attention(cx, &core)?;
    let mlp = core.mlp(cx)?;
    core.model(cx, |l| {
        let experts = per_layer(cx, "num_experts", l, core.layers)?;
        let top_k = per_layer(cx, "moe_topk", l, core.layers)?;
        moe::check_top_k(cx, experts, top_k)?;
        let width = match cx.has("moe_intermediate_size") {
            true => per_layer(cx, "moe_intermediate_size", l, core.layers)?,
            false => mlp.width,
        };
        let count = match cx.has("num_shared_expert") {
            true => per_layer(cx, "num_shared_expert", l, core.layers)?,
            false => 1,
        };
        let expert = Mlp { width, ..mlp };
        let router = Router::new(Scoring::Softmax, true);
        let moe = Moe { experts, top_k, expert, router, shared: moe::shared(expert, count) };
        Ok(LayerSpec::new(gqa.clone(), moe, Block::pre(core.rms())))
    })
}

/// Hunyuan 3: sigmoid routing with a correction bias, a norm on each head before RoPE.
pub(in crate::config) fn v3(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names::llama_with(&[
        SHARED,
        &[own(Part::Router, "mlp.router.gate.*"), own(Part::RouterCorrection, "mlp.expert_bias")],
    ]);
    let core = Core::read(cx, Style { eps: 1e-5, names: NAMES, ..Style::GROUPED })?;
    let gqa = Gqa {
        bias: Biases::all(cx.flag_or("attention_bias", false)?),
        qk_norm: Some(QkNorm::per_head(core.rms())),
        ..core.gqa(Some(rope::read(cx, core.head_dim, rope::Defaults::theta(11_158_840.0))?))
    };
    let (experts, top_k) = moe::sizes(cx)?;
    let expert = core.mlp_of(cx, cx.dim("moe_intermediate_size")?)?;
    let router = Router {
        scale: cx.positive_or("router_scaling_factor", 2.826)?,
        correction: Correction::Buffer,
        ..Router::new(Scoring::Sigmoid, true)
    };
    let shared = moe::shared(expert, moe::shared_count(cx)?);
    let moe = Moe { experts, top_k, expert, router, shared };
    let mlp = Mlp { bias: cx.flag_or("mlp_bias", false)?, ..core.mlp(cx)? };
    let sparse = moe::routed_layers(cx, core.layers, |cx| deepseek::dense_first(cx, core.layers))?;
    core.model(cx, |l| {
        let ffn = if sparse[l] { Ffn::Moe(moe) } else { Ffn::Dense(mlp) };
        Ok(LayerSpec::new(gqa.clone(), ffn, Block::pre(core.rms())))
    })
}

/// A number, or one per layer.
fn per_layer(cx: &Cx, key: &'static str, layer: usize, layers: usize) -> Result<u64> {
    match cx.find(key).map(|(_, member)| &member.node) {
        Some(Node { value: Value::Array(_), .. }) => {
            let list = cx.wholes(key)?.unwrap_or_default();
            layers::check_length(cx, key, list.len(), layers)?;
            match list[layer] {
                0 => Err(cx.conflict(
                    &[key],
                    format!("`{key}` is 0 in layer {layer}"),
                    "give 1 or more",
                )),
                n => Ok(n),
            }
        }
        _ => cx.dim(key),
    }
}

fn attention(cx: &Cx, core: &Core) -> Result<Gqa> {
    let norm = QkNorm { after_rope: true, ..QkNorm::per_head(core.rms()) };
    let normed = cx.flag_or("use_qk_norm", true)?;
    Ok(Gqa {
        bias: Biases::all(cx.flag_or("attention_bias", false)?),
        qk_norm: normed.then_some(norm),
        ..core.gqa(Some(grown_rope(cx, core.head_dim)?))
    })
}

/// `alpha` grows the base once for all contexts: `theta · alpha^(d / (d − 2))`.
fn grown_rope(cx: &Cx, head_dim: u64) -> Result<Rope> {
    let rope = rope::read(cx, head_dim, rope::Defaults::LLAMA)?;
    let Some(p) = cx.object(["rope_parameters", "rope_scaling"])? else { return Ok(rope) };
    let (Some(alpha), RopeScaling::Dynamic { .. }) = (p.positive("alpha")?, &rope.scaling) else {
        return Ok(rope);
    };
    let dim = head_dim as f64;
    let theta = rope.theta * alpha.powf(dim / (dim - 2.0).max(1.0));
    Ok(Rope { theta, scaling: RopeScaling::None, ..rope })
}
