//! Decoders with layer norms: StableLM, StarCoder 2, Nemotron 4 (Minitron), GPT-NeoX (Pythia).

use super::mistral::window_everywhere;
use super::prelude::*;
use crate::config::core::SizeKeys;

const EPS: [&str; 2] = ["layer_norm_eps", "layer_norm_epsilon"];

/// StableLM: a quarter of each head rotates.
pub(in crate::config) fn stablelm(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names::llama_with(&[&[
        own(Part::QueryNorm, "self_attn.q_layernorm.norms.{h}.*"),
        own(Part::KeyNorm, "self_attn.k_layernorm.norms.{h}.*"),
    ]]);
    let core = Core::read(cx, Style { eps_keys: EPS, eps: 1e-5, names: NAMES, ..Style::LLAMA })?;
    let defaults = rope::Defaults { partial: 0.25, ..rope::Defaults::LLAMA };
    let each =
        QkNorm { norm: core.layer_norm(false), span: QkNormSpan::EachHead, after_rope: false };
    let gqa = Gqa {
        bias: Biases::qkv(cx.flag_or("use_qkv_bias", false)?),
        qk_norm: cx.flag_or("qk_layernorm", false)?.then_some(each),
        ..core.gqa(Some(rope::read(cx, core.head_dim, defaults)?))
    };
    let norm = core.layer_norm(true);
    let block = match cx.flag_or("use_parallel_residual", false)? {
        true => Block::Parallel { attn_in: norm, ffn_in: None },
        false => Block::pre(norm),
    };
    uniform(cx, &core, gqa, core.mlp(cx)?, block, norm)
}

/// StarCoder 2: biases everywhere, a plain MLP.
pub(in crate::config) fn starcoder2(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names =
        Names::llama_with(&[&[own(Part::Up, "mlp.c_fc.*"), own(Part::Down, "mlp.c_proj.*")]]);
    let style = Style {
        tied: true,
        eps_keys: ["norm_epsilon", "layer_norm_epsilon"],
        eps: 1e-5,
        act: ("hidden_act", "gelu_pytorch_tanh"),
        names: NAMES,
        ..Style::GROUPED
    };
    let core = Core::read(cx, style)?;
    let bias = cx.flag_or("use_bias", true)?;
    let gqa = core.gqa(Some(rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?));
    let masks = window_everywhere(cx, core.layers)?;
    let gqa = Gqa { bias: Biases::all(bias), ..gqa };
    let mlp = Mlp { gated: false, bias, ..core.mlp(cx)? };
    let norm = core.layer_norm(true);
    let mut model =
        core.model(cx, |l| Ok(LayerSpec::new(gqa.masked(masks[l]), mlp, Block::pre(norm))))?;
    model.final_norm = Some(norm);
    Ok(model)
}

/// Nemotron 4 and Minitron: layer norms of `1 + weight`, squared ReLU.
pub(in crate::config) fn nemotron(cx: &Cx) -> Result<ModelSpec> {
    let style = Style {
        eps_keys: ["norm_eps", "layer_norm_eps"],
        eps: 1e-5,
        act: ("hidden_act", "relu2"),
        ..Style::LLAMA
    };
    let core = Core::read(cx, style)?;
    let defaults = rope::Defaults { partial: 0.5, ..rope::Defaults::LLAMA };
    let gqa = Gqa {
        bias: Biases::all(cx.flag_or("attention_bias", false)?),
        ..core.gqa(Some(rope::read(cx, core.head_dim, defaults)?))
    };
    let bias = cx.flag_or("mlp_bias", false)?;
    let mlp = Mlp { gated: false, bias, ..core.mlp(cx)? };
    let norm = core.layer_norm(true).offset();
    uniform(cx, &core, gqa, mlp, Block::pre(norm), norm)
}

/// Jais 2: Llama with layer norms, biases and squared ReLU.
pub(in crate::config) fn jais2(cx: &Cx) -> Result<ModelSpec> {
    let act = ("hidden_act", "relu2");
    let core = Core::read(cx, Style { eps_keys: EPS, eps: 1e-5, act, ..Style::LLAMA })?;
    let gqa = Gqa {
        bias: Biases::all(cx.flag_or("attention_bias", true)?),
        ..core.gqa(Some(rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?))
    };
    let bias = cx.flag_or("mlp_bias", true)?;
    let mlp = Mlp { gated: false, bias, ..core.mlp(cx)? };
    let norm = core.layer_norm(true);
    uniform(cx, &core, gqa, mlp, Block::pre(norm), norm)
}

/// Orion: Llama with layer norms.
pub(in crate::config) fn orion(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, ..Style::LLAMA })?;
    let gqa = core.gqa(Some(rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?));
    let norm = core.layer_norm(true);
    uniform(cx, &core, gqa, core.mlp(cx)?, Block::pre(norm), norm)
}

/// GPT-NeoX and Pythia: parallel branches with a norm each, one tensor for q, k and v per head.
pub(in crate::config) fn gpt_neox(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names {
        layer: "gpt_neox.layers.{l}.",
        rows: &[&[
            own(Part::Embedding, "gpt_neox.embed_in.*"),
            own(Part::FinalNorm, "gpt_neox.final_layer_norm.*"),
            own(Part::Head, "embed_out.*"),
            share(Part::Query, "attention.query_key_value.*", Fusion::PerHead),
            share(Part::Key, "attention.query_key_value.*", Fusion::PerHead),
            share(Part::Value, "attention.query_key_value.*", Fusion::PerHead),
            own(Part::Output, "attention.dense.*"),
            own(Part::Up, "mlp.dense_h_to_4h.*"),
            own(Part::Down, "mlp.dense_4h_to_h.*"),
        ]],
    };
    let act = ("hidden_act", "gelu");
    let core = Core::read(
        cx,
        Style {
            eps_keys: EPS,
            eps: 1e-5,
            act,
            names: NAMES,
            keys: SizeKeys::UNGROUPED,
            ..Style::LLAMA
        },
    )?;
    let defaults = rope::Defaults { partial: 0.25, ..rope::Defaults::LLAMA };
    let gqa = Gqa {
        bias: Biases::all(cx.flag_or("attention_bias", true)?),
        ..core.gqa(Some(rope::read(cx, core.head_dim, defaults)?))
    };
    let mlp = Mlp { gated: false, bias: true, ..core.mlp(cx)? };
    let norm = core.layer_norm(true);
    let block = match cx.flag_or("use_parallel_residual", true)? {
        true => Block::Parallel { attn_in: norm, ffn_in: Some(norm) },
        false => Block::pre(norm),
    };
    uniform(cx, &core, gqa, mlp, block, norm)
}

fn uniform(
    cx: &Cx,
    core: &Core,
    gqa: Gqa,
    mlp: Mlp,
    block: Block,
    final_norm: Norm,
) -> Result<ModelSpec> {
    let mut model = core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, block.clone())))?;
    model.final_norm = Some(final_norm);
    Ok(model)
}
