//! gpt-oss: sinks, a window in every other layer, experts with biases and clamped SwiGLU.

use super::prelude::*;

const NAMES: Names = Names::llama_with(&[&[
    own(Part::Router, "mlp.router.*"),
    share(Part::ExpertGate, "mlp.experts.gate_up_proj", Fusion::Interleaved).transposed(),
    share(Part::ExpertUp, "mlp.experts.gate_up_proj", Fusion::Interleaved).transposed(),
    own(Part::ExpertDown, "mlp.experts.down_proj").transposed(),
]]);

/// gpt-oss.
pub(in crate::config) fn gpt_oss(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, names: NAMES, ..Style::HEADED })?;
    cx.require_any(["rope_scaling", "rope_parameters"])?;
    let rope = rope::read(cx, core.head_dim, rope::Defaults::theta(150_000.0))?;
    let masks = layers::masks(cx, core.layers, layers::window(cx)?, |l| l % 2 == 0)?;
    let bias = Biases::all(cx.flag_or("attention_bias", true)?);
    let (experts, top_k) = moe::sizes(cx)?;
    let activation = Activation::ClampedSwiglu {
        alpha: cx.positive_or("swiglu_alpha", 1.702)?,
        limit: cx.positive_or("swiglu_limit", 7.0)?,
    };
    let moe = Moe {
        experts,
        top_k,
        expert: Mlp { activation, bias: true, ..core.mlp(cx)? },
        router: Router { bias: true, ..Router::new(Scoring::SoftmaxOfTopK, false) },
        shared: None,
    };
    let gqa = Gqa { bias, sinks: true, ..core.gqa(Some(rope)) };
    core.model(cx, |l| Ok(LayerSpec::new(gqa.masked(masks[l]), moe, Block::pre(core.rms()))))
}
