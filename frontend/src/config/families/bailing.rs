//! Ling and Ring (Bailing MoE 1 and 2): Llama by other names with experts.

use super::deepseek;
use super::prelude::*;

/// Ling's tensor names.
pub(super) const NAMES: Names = Names::llama_with(&[&[
    own(Part::Embedding, "model.word_embeddings.*"),
    share(Part::Query, "attention.query_key_value.*", Fusion::Concat),
    share(Part::Key, "attention.query_key_value.*", Fusion::Concat),
    share(Part::Value, "attention.query_key_value.*", Fusion::Concat),
    own(Part::Output, "attention.dense.*"),
    own(Part::QueryNorm, "attention.query_layernorm.*"),
    own(Part::KeyNorm, "attention.key_layernorm.*"),
    own(Part::RouterCorrection, "mlp.gate.expert_bias"),
]]);

/// Both generations; they share a model type, and the second has norms on heads and sigmoid
/// routing within groups.
pub(in crate::config) fn bailing(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { names: NAMES, ..Style::GROUPED })?;
    let second = cx.has("score_function") || cx.architecture == "BailingMoeV2ForCausalLM";
    let partial = if second { 0.5 } else { 1.0 };
    let rope = rope::read(cx, core.head_dim, rope::Defaults { partial, ..rope::Defaults::LLAMA })?;
    if cx.flag_or("norm_head", false)? {
        let message = "rows of the head that are scaled to length 1 are not supported";
        let help = "scale the rows of `lm_head.weight` in the checkpoint, and leave the key out";
        return Err(cx.unsupported("norm_head", message, help));
    }
    let plain = cx.flag_or("use_bias", false)?;
    let qkv = cx.flag_or("use_qkv_bias", false)?;
    let normed = cx.flag_or("use_qk_norm", second)?;
    let gqa = Gqa {
        bias: Biases { o: plain, ..Biases::qkv(qkv) },
        qk_norm: normed.then_some(QkNorm::per_head(core.rms())),
        ..core.gqa(Some(rope))
    };
    let mlp = Mlp { bias: plain, ..core.mlp(cx)? };
    let moe = experts(cx, &core, mlp, second)?;
    let sparse = deepseek::dense_first(cx, core.layers)?;
    core.model(cx, |l| {
        let ffn = if sparse[l] { Ffn::Moe(moe) } else { Ffn::Dense(mlp) };
        Ok(LayerSpec::new(gqa.clone(), ffn, Block::pre(core.rms())))
    })
}

fn experts(cx: &Cx, core: &Core, dense: Mlp, second: bool) -> Result<Moe> {
    let expert = Mlp { width: cx.dim("moe_intermediate_size")?, ..dense };
    let router = match second {
        true => grouped_router(cx)?,
        false => Router::new(Scoring::Softmax, cx.flag_or("norm_topk_prob", true)?),
    };
    let moe = Moe { expert, ..deepseek::experts(cx, core, router)? };
    let own = cx.opt_dim("moe_shared_expert_intermediate_size")?.unwrap_or(expert.width);
    let shared = Mlp { width: own, ..expert };
    Ok(Moe { shared: moe::shared(shared, moe::shared_count(cx)?), ..moe })
}

fn grouped_router(cx: &Cx) -> Result<Router> {
    let scoring = match cx.text("score_function")?.unwrap_or("sigmoid") {
        "sigmoid" => Scoring::Sigmoid,
        "softmax" => Scoring::Softmax,
        other => {
            let message = format!("the score function {other:?} is not supported");
            return Err(cx.unsupported("score_function", message, "supported: sigmoid, softmax"));
        }
    };
    let steered = cx.flag_or("moe_router_enable_expert_bias", true)?;
    Ok(Router {
        groups: deepseek::groups(cx, GroupScore::Top2Sum)?,
        scale: cx.positive_or("routed_scaling_factor", 1.0)?,
        correction: if steered { Correction::Buffer } else { Correction::None },
        ..Router::new(scoring, cx.flag_or("norm_topk_prob", true)?)
    })
}
