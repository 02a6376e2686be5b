//! GLM 4 (dense) and GLM 4.5 (mixture of experts): half of each head rotates.

use super::bailing;
use super::deepseek;
use super::prelude::*;
use crate::config::core::SizeKeys;

const HALF: rope::Defaults = rope::Defaults { partial: 0.5, ..rope::Defaults::LLAMA };
const FUSED: &[NameRow] = &[
    share(Part::Gate, "mlp.gate_up_proj.*", Fusion::Concat),
    share(Part::Up, "mlp.gate_up_proj.*", Fusion::Concat),
];
const GLM4: &[NameRow] =
    &[own(Part::AttnOut, "post_self_attn_layernorm.*"), own(Part::FfnOut, "post_mlp_layernorm.*")];

/// GLM 4 9B: pairs of neighbours rotate, gate and up in one tensor.
pub(in crate::config) fn glm(cx: &Cx) -> Result<ModelSpec> {
    dense(cx, Names::llama_with(&[FUSED]), Block::pre)
}

/// GLM 4 0414: sandwich norms.
pub(in crate::config) fn glm4(cx: &Cx) -> Result<ModelSpec> {
    dense(cx, Names::llama_with(&[FUSED, GLM4]), Block::sandwich)
}

fn dense(cx: &Cx, names: Names, block: fn(Norm) -> Block) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1.5625e-7, names, ..Style::GROUPED })?;
    let rope = rope::read(cx, core.head_dim, HALF)?;
    let gqa = Gqa {
        bias: Biases::qkv(cx.flag_or("attention_bias", true)?),
        ..core.gqa(Some(Rope { interleaved: true, ..rope }))
    };
    let mlp = core.mlp(cx)?;
    core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, block(core.rms()))))
}

/// ChatGLM 2, 3 and GLM 4 9B in the form of their own code.
pub(in crate::config) fn chatglm(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names {
        layer: "transformer.encoder.layers.{l}.",
        rows: &[&[
            own(Part::Embedding, "transformer.embedding.word_embeddings.*"),
            own(Part::FinalNorm, "transformer.encoder.final_layernorm.*"),
            own(Part::Head, "transformer.output_layer.*"),
            share(Part::Query, "self_attention.query_key_value.*", Fusion::Concat),
            share(Part::Key, "self_attention.query_key_value.*", Fusion::Concat),
            share(Part::Value, "self_attention.query_key_value.*", Fusion::Concat),
            own(Part::Output, "self_attention.dense.*"),
            share(Part::Gate, "mlp.dense_h_to_4h.*", Fusion::Concat),
            share(Part::Up, "mlp.dense_h_to_4h.*", Fusion::Concat),
            own(Part::Down, "mlp.dense_4h_to_h.*"),
        ]],
    };
    let style = Style {
        eps_keys: ["layernorm_epsilon", "layer_norm_epsilon"],
        eps: 1e-5,
        width: "ffn_hidden_size",
        keys: SizeKeys {
            layers: &["num_layers"],
            kv_heads: &["multi_query_group_num"],
            vocab: &["padded_vocab_size"],
            ..Style::LLAMA.keys
        },
        required: &["multi_query_group_num"],
        names: NAMES,
        ..Style::LLAMA
    };
    let core = Core::read(cx, style)?;
    let head_dim = cx.dim_or("kv_channels", core.head_dim)?;
    let theta = 10_000.0 * cx.positive_or("rope_ratio", 1.0)?;
    let rope = rope::read(cx, head_dim, rope::Defaults { theta, keyed: false, ..HALF })?;
    let rope = Some(Rope { interleaved: true, ..rope });
    let biased = cx.flag_or("add_bias_linear", false)?;
    let qkv = biased || cx.flag_or("add_qkv_bias", false)?;
    let gqa = Gqa {
        bias: Biases { o: biased, ..Biases::qkv(qkv) },
        ..Gqa::new(core.heads, core.kv_heads, head_dim, rope)
    };
    let mlp = Mlp { bias: biased, ..core.mlp(cx)? };
    core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(core.rms()))))
}

/// GLM 4.5: DeepSeek V3's experts behind grouped-query attention.
pub(in crate::config) fn glm4_moe(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, ..Style::GROUPED })?;
    let normed = cx.flag_or("use_qk_norm", false)?;
    let gqa = Gqa {
        bias: Biases::qkv(cx.flag_or("attention_bias", false)?),
        qk_norm: normed.then_some(QkNorm::per_head(core.rms())),
        ..core.gqa(Some(rope::read(cx, core.head_dim, HALF)?))
    };
    experts(cx, &core, |_| Ok(gqa.clone()))
}

/// Sarvam: GLM 4.5 with whole heads rotating, under Ling's tensor names.
pub(in crate::config) fn sarvam_moe(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { names: bailing::NAMES, ..Style::GROUPED })?;
    let normed = cx.flag_or("use_qk_norm", true)?;
    let gqa = Gqa {
        bias: Biases::qkv(cx.flag_or(["attention_bias", "use_qkv_bias"], false)?),
        qk_norm: normed.then_some(QkNorm::per_head(core.rms())),
        ..core.gqa(Some(rope::read(cx, core.head_dim, rope::Defaults::theta(8e6))?))
    };
    experts(cx, &core, |_| Ok(gqa.clone()))
}

/// Solar Open: GLM 4.5 with whole heads rotating and experts in every layer.
pub(in crate::config) fn solar_open(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, ..Style::GROUPED })?;
    let rope = rope::read(cx, core.head_dim, rope::Defaults::theta(1e6))?;
    let bias = Biases::qkv(cx.flag_or("attention_bias", false)?);
    let gqa = Gqa { bias, ..core.gqa(Some(rope)) };
    let moe = deepseek::experts(cx, &core, deepseek::router(cx)?)?;
    core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), moe, Block::pre(core.rms()))))
}

/// dots.llm1: GLM 4.5's experts, a norm on each head, windows as `layer_types` says.
pub(in crate::config) fn dots1(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style::GROUPED)?;
    let window = layers::window(cx)?;
    let first = cx.whole_or("max_window_layers", 62, 0, 1 << 32)? as usize;
    let masks = layers::masks(cx, core.layers, window, |l| window.is_some() && l >= first)?;
    let gqa = Gqa {
        bias: Biases::all(cx.flag_or("attention_bias", false)?),
        qk_norm: Some(QkNorm::per_head(core.rms())),
        ..core.gqa(Some(rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?))
    };
    experts(cx, &core, |l| Ok(gqa.masked(masks[l])))
}

/// Dense layers first, then DeepSeek V3's experts.
fn experts(cx: &Cx, core: &Core, attention: impl Fn(usize) -> Result<Gqa>) -> Result<ModelSpec> {
    let moe = deepseek::experts(cx, core, deepseek::router(cx)?)?;
    let sparse = moe::routed_layers(cx, core.layers, |cx| deepseek::dense_first(cx, core.layers))?;
    core.model(cx, |l| {
        let ffn = if sparse[l] { Ffn::Moe(moe) } else { Ffn::Dense(core.mlp(cx)?) };
        Ok(LayerSpec::new(attention(l)?, ffn, Block::pre(core.rms())))
    })
}
