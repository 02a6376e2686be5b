//! Apertus: Llama with a norm on each head and a plain MLP whose activation is learned (xIELU).

use super::prelude::*;

const NAMES: Names = Names::llama_with(&[&[
    own(Part::AttnIn, "attention_layernorm.*"),
    own(Part::FfnIn, "feedforward_layernorm.*"),
]]);

/// Apertus.
pub(in crate::config) fn apertus(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, names: NAMES, ..Style::LLAMA })?;
    let rope = rope::read(cx, core.head_dim, rope::Defaults::theta(12e6))?;
    let gqa = Gqa {
        bias: Biases::all(cx.flag_or("attention_bias", false)?),
        qk_norm: Some(QkNorm::per_head(core.rms())),
        ..core.gqa(Some(rope))
    };
    let mlp = match cx.text("hidden_act")?.unwrap_or("xielu") {
        "xielu" => {
            let (width, activation) = (cx.dim("intermediate_size")?, Activation::Xielu);
            Mlp { width, gated: false, activation, bias: false }
        }
        _ => Mlp { gated: false, ..core.mlp(cx)? },
    };
    core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(core.rms()))))
}
