//! Llama 1 to 3 and Code Llama: the plain decoder that others vary.

use super::prelude::*;

/// Llama.
pub(in crate::config) fn llama(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::LLAMA)?;
    let rope = rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?;
    let bias = Biases::all(cx.flag_or("attention_bias", false)?);
    let attention = Gqa { bias, ..core.gqa(Some(rope)) };
    let mlp = Mlp { bias: cx.flag_or("mlp_bias", false)?, ..core.mlp(cx)? };
    core.model(cx, |_| {
        Ok(LayerSpec {
            attention: Attention::Gqa(attention.clone()),
            ffn: Ffn::Dense(mlp),
            block: Block::pre(core.rms()),
            residual_scale: None,
        })
    })
}
