//! Phi 1, 1.5 and 2 (parallel blocks); 3, 3.5 mini and 4 (Llama with fused projections); 3.5 MoE.

use super::mistral::{MIXTRAL, window_everywhere};
use super::prelude::*;

const PHI: Names = Names::llama_with(&[&[
    own(Part::FinalNorm, "model.final_layernorm.*"),
    own(Part::Output, "self_attn.dense.*"),
    own(Part::QueryNorm, "self_attn.q_layernorm.*"),
    own(Part::KeyNorm, "self_attn.k_layernorm.*"),
    own(Part::Up, "mlp.fc1.*"),
    own(Part::Down, "mlp.fc2.*"),
]]);

/// Phi 1, 1.5 and 2: attention and a plain MLP side by side under one layer norm.
pub(in crate::config) fn phi(cx: &Cx) -> Result<ModelSpec> {
    let style = Style {
        eps_keys: ["layer_norm_eps", "layer_norm_epsilon"],
        eps: 1e-5,
        act: ("hidden_act", "gelu_new"),
        names: PHI,
        ..Style::LLAMA
    };
    let core = Core::read(cx, style)?;
    let defaults = rope::Defaults { partial: 0.5, ..rope::Defaults::LLAMA };
    let norm = core.layer_norm(true);
    let normed = cx.flag_or("qk_layernorm", false)?;
    let gqa = Gqa {
        bias: Biases::all(true),
        qk_norm: normed.then_some(QkNorm::per_head(norm)),
        ..core.gqa(Some(rope::read(cx, core.head_dim, defaults)?))
    };
    let mlp = Mlp { gated: false, bias: true, ..core.mlp(cx)? };
    let block = Block::Parallel { attn_in: norm, ffn_in: None };
    let mut model = core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, block.clone())))?;
    model.final_norm = Some(norm);
    model.head.bias = true;
    Ok(model)
}

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
    let defaults = rope::Defaults { original: Some(4096), ..rope::Defaults::LLAMA };
    let gqa = core.gqa(Some(rope::read(cx, core.head_dim, defaults)?));
    let masks = window_everywhere(cx, core.layers)?;
    let mlp = core.mlp(cx)?;
    core.model(cx, |l| Ok(LayerSpec::new(gqa.masked(masks[l]), mlp, Block::pre(core.rms()))))
}

/// Phi 3.5 MoE: layer norms with biases, two experts chosen one after the other.
pub(in crate::config) fn phimoe(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, names: MIXTRAL, ..Style::GROUPED })?;
    let gqa = core.gqa(Some(rope::read(cx, core.head_dim, rope::Defaults::theta(1e6))?));
    let gqa = Gqa { bias: Biases::all(cx.flag_or("attention_bias", false)?), ..gqa };
    let masks = window_everywhere(cx, core.layers)?;
    let (experts, top_k) = moe::sizes(cx)?;
    let jitter = cx.positive_or("router_jitter_noise", 0.01)?;
    let router = Router::new(Scoring::SparseMixer { jitter }, false);
    let moe = Moe { experts, top_k, expert: core.mlp(cx)?, router, shared: None };
    let norm = core.layer_norm(true);
    let mut model =
        core.model(cx, |l| Ok(LayerSpec::new(gqa.masked(masks[l]), moe, Block::pre(norm))))?;
    model.final_norm = Some(norm);
    model.head.bias = cx.flag_or("lm_head_bias", false)?;
    Ok(model)
}
