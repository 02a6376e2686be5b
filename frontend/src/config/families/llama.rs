//! Llama 1 to 3, Code Llama, and kin that differ in a flag or a default.

use super::prelude::*;
use crate::config::core::SizeKeys;

/// Llama.
pub(in crate::config) fn llama(cx: &Cx) -> Result<ModelSpec> {
    let bias = Biases::all(cx.flag_or("attention_bias", false)?);
    plain(cx, Style::LLAMA, rope::Defaults::LLAMA, bias)
}

/// InternLM 1: a flag of its own for biases, and an object of its own for RoPE.
pub(in crate::config) fn internlm(cx: &Cx) -> Result<ModelSpec> {
    let bias = Biases::all(cx.flag_or("bias", true)?);
    let mut rope = rope::Defaults::LLAMA;
    if let Some(p) = cx.object("rotary")? {
        rope.keyed = false;
        rope.theta = p.positive_or("base", rope.theta)?;
        if let Some(other) = p.text("type")?.filter(|t| !matches!(*t, "origin" | "dynamic")) {
            let message = format!("the RoPE type {other:?} is not supported");
            return Err(p.unsupported("type", message, "supported: origin, dynamic"));
        }
    }
    plain(cx, Style { keys: SizeKeys::UNGROUPED, ..Style::LLAMA }, rope, bias)
}

/// InternLM 3: a flag of its own for the biases of q, k and v.
pub(in crate::config) fn internlm3(cx: &Cx) -> Result<ModelSpec> {
    let o = cx.flag_or(["bias", "mlp_bias"], false)?;
    let bias = Biases { o, ..Biases::qkv(cx.flag_or(["qkv_bias", "attention_bias"], false)?) };
    let mut model = plain(cx, Style::GROUPED, rope::Defaults::LLAMA, bias)?;
    for layer in &mut model.layers {
        if let Ffn::Dense(mlp) = &mut layer.ffn {
            mlp.bias = o;
        }
    }
    Ok(model)
}

/// Seed-OSS: a flag of its own for the output projection's bias.
pub(in crate::config) fn seed_oss(cx: &Cx) -> Result<ModelSpec> {
    let qkv = cx.flag_or("attention_bias", true)?;
    let bias = Biases { o: cx.flag_or("attention_out_bias", false)?, ..Biases::qkv(qkv) };
    plain(cx, Style::HEADED, rope::Defaults::LLAMA, bias)
}

/// InternLM 2: one tensor for q, k and v.
pub(in crate::config) fn internlm2(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names::llama_with(&[&[
        own(Part::Embedding, "model.tok_embeddings.*"),
        own(Part::Head, "output.*"),
        own(Part::AttnIn, "attention_norm.*"),
        own(Part::FfnIn, "ffn_norm.*"),
        share(Part::Query, "attention.wqkv.*", Fusion::PerKvHead),
        share(Part::Key, "attention.wqkv.*", Fusion::PerKvHead),
        share(Part::Value, "attention.wqkv.*", Fusion::PerKvHead),
        own(Part::Output, "attention.wo.*"),
        own(Part::Gate, "feed_forward.w1.*"),
        own(Part::Up, "feed_forward.w3.*"),
        own(Part::Down, "feed_forward.w2.*"),
    ]]);
    let bias = Biases::all(cx.flag_or("bias", false)?);
    plain(cx, Style { names: NAMES, ..Style::GROUPED }, rope::Defaults::LLAMA, bias)
}

/// Arcee: squared ReLU without a gate.
pub(in crate::config) fn arcee(cx: &Cx) -> Result<ModelSpec> {
    let style = Style { eps: 1e-5, act: ("hidden_act", "relu2"), ..Style::LLAMA };
    let bias = Biases::all(cx.flag_or("attention_bias", false)?);
    let mut model = plain(cx, style, rope::Defaults::LLAMA, bias)?;
    for layer in &mut model.layers {
        if let Ffn::Dense(mlp) = &mut layer.ffn {
            mlp.gated = false;
        }
    }
    Ok(model)
}

/// Helium: pairs of neighbours rotate.
pub(in crate::config) fn helium(cx: &Cx) -> Result<ModelSpec> {
    let style = Style { eps: 1e-8, ..Style::GROUPED };
    let core = Core::read(cx, style)?;
    let rope = rope::read(cx, core.head_dim, rope::Defaults::theta(1e5))?;
    let gqa = core.gqa(Some(Rope { interleaved: true, ..rope }));
    let gqa = Gqa { bias: Biases::qkv(cx.flag_or("attention_bias", false)?), ..gqa };
    let mlp = core.mlp(cx)?;
    core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(core.rms()))))
}

/// SmolLM 3: no RoPE in every fourth layer.
pub(in crate::config) fn smollm3(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { tied: true, ..Style::GROUPED })?;
    let rope = rope::read(cx, core.head_dim, rope::Defaults::theta(2e6))?;
    let rotates = super::llama4::rotating_layers(cx, core.layers)?;
    let windowed = cx.flag_or("use_sliding_window", false)?;
    let window = layers::window(cx)?.filter(|_| windowed);
    let masks = layers::masks(cx, core.layers, window, |l| window.is_some() && !rotates[l])?;
    let bias = Biases::all(cx.flag_or("attention_bias", false)?);
    let mlp = Mlp { bias: cx.flag_or("mlp_bias", false)?, ..core.mlp(cx)? };
    core.model(cx, |l| {
        let gqa = core.gqa(rotates[l].then(|| rope.clone()));
        Ok(LayerSpec::new(Gqa { bias, mask: masks[l], ..gqa }, mlp, Block::pre(core.rms())))
    })
}

/// Code World Model: Llama 3 with windows as `layer_types` says.
pub(in crate::config) fn cwm(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, ..Style::GROUPED })?;
    let rope = rope::read(cx, core.head_dim, rope::Defaults::theta(1e6))?;
    let masks = layers::masks(cx, core.layers, layers::window(cx)?, |l| l % 4 != 0)?;
    let gqa = core.gqa(Some(rope));
    let mlp = core.mlp(cx)?;
    core.model(cx, |l| Ok(LayerSpec::new(gqa.masked(masks[l]), mlp, Block::pre(core.rms()))))
}

/// Equal layers of grouped-query attention and a gated dense block.
pub(super) fn plain(
    cx: &Cx,
    style: Style,
    rope: rope::Defaults,
    bias: Biases,
) -> Result<ModelSpec> {
    let core = Core::read(cx, style)?;
    let rope = rope::read(cx, core.head_dim, rope)?;
    let gqa = Gqa { bias, ..core.gqa(Some(rope)) };
    let mlp = Mlp { bias: cx.flag_or("mlp_bias", false)?, ..core.mlp(cx)? };
    core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(core.rms()))))
}
