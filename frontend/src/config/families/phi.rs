//! Phi 3, 3.5 mini and 4: Llama with fused projections.

use super::mistral::window_everywhere;
use super::prelude::*;

const PHI3: Names = Names::llama_with(&[&[
    share(Part::Query, "self_attn.qkv_proj.*", Fusion::Concat),
    share(Part::Key, "self_attn.qkv_proj.*", Fusion::Concat),
    share(Part::Value, "self_attn.qkv_proj.*", Fusion::Concat),
    share(Part::Gate, "mlp.gate_up_proj.*", Fusion::Concat),
    share(Part::Up, "mlp.gate_up_proj.*", Fusion::Concat),
]]);

/// Phi 3 and 4.
pub(in crate::config) fn phi3(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, names: PHI3, ..Style::LLAMA })?;
    let rope = rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?;
    let masks = window_everywhere(cx, core.layers)?;
    let mlp = core.mlp(cx)?;
    core.model(cx, |l| {
        Ok(LayerSpec {
            attention: Attention::Gqa(Gqa { mask: masks[l], ..core.gqa(Some(rope.clone())) }),
            ffn: Ffn::Dense(mlp),
            block: Block::pre(core.rms()),
            residual_scale: None,
        })
    })
}
