//! DBRX: sizes under names of its own, attention and experts described in nested objects.

use super::prelude::*;
use crate::config::core::SizeKeys;

const NAMES: Names = Names {
    layer: "transformer.blocks.{l}.",
    rows: &[&[
        own(Part::Embedding, "transformer.wte.*"),
        own(Part::FinalNorm, "transformer.norm_f.*"),
        own(Part::AttnIn, "norm_attn_norm.norm_1.*"),
        own(Part::FfnIn, "norm_attn_norm.norm_2.*"),
        share(Part::Query, "norm_attn_norm.attn.Wqkv.*", Fusion::Concat),
        share(Part::Key, "norm_attn_norm.attn.Wqkv.*", Fusion::Concat),
        share(Part::Value, "norm_attn_norm.attn.Wqkv.*", Fusion::Concat),
        own(Part::Output, "norm_attn_norm.attn.out_proj.*"),
        own(Part::Router, "ffn.router.layer.*"),
        own(Part::ExpertGate, "ffn.experts.mlp.w1"),
        own(Part::ExpertUp, "ffn.experts.mlp.v1"),
        own(Part::ExpertDown, "ffn.experts.mlp.w2").transposed(),
    ]],
};

const STYLE: Style = Style {
    keys: SizeKeys {
        hidden: &["d_model"],
        layers: &["n_layers"],
        heads: &["n_heads"],
        ..SizeKeys::UNGROUPED
    },
    names: NAMES,
    ..Style::LLAMA
};

/// DBRX.
pub(in crate::config) fn dbrx(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, STYLE)?;
    let norm = Norm::layer(1e-5, false);
    let gqa = attention(cx, &core)?;
    let moe = experts(cx)?;
    let mut model = core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), moe, Block::pre(norm))))?;
    model.final_norm = Some(norm);
    Ok(model)
}

fn attention(cx: &Cx, core: &Core) -> Result<Gqa> {
    let p = cx.object("attn_config")?.ok_or_else(|| cx.missing("attn_config"))?;
    let kv_heads = p.dim("kv_n_heads")?;
    if !core.heads.is_multiple_of(kv_heads) {
        let message = format!("{} heads are not a multiple of {kv_heads} KV heads", core.heads);
        return Err(p.conflict(&["kv_n_heads"], message, "kv_n_heads must divide n_heads"));
    }
    let rope = rope::read(cx, core.head_dim, rope::Defaults::FIXED)?;
    let rope = Rope { theta: p.positive_or("rope_theta", rope.theta)?, ..rope };
    let gqa = Gqa::new(core.heads, kv_heads, core.head_dim, Some(rope));
    Ok(Gqa { clip_qkv: p.positive("clip_qkv")?, ..gqa })
}

fn experts(cx: &Cx) -> Result<Moe> {
    let p = cx.object("ffn_config")?.ok_or_else(|| cx.missing("ffn_config"))?;
    let (experts, top_k) = (p.dim("moe_num_experts")?, p.dim("moe_top_k")?);
    if top_k > experts {
        let message = format!("{top_k} experts per token, but there are only {experts}");
        let keys = ["moe_top_k", "moe_num_experts"];
        return Err(p.conflict(&keys, message, "lower moe_top_k"));
    }
    let activation = match p.object("ffn_act_fn")? {
        Some(act) => crate::config::core::activation(&act, ("name", "silu"))?,
        None => Activation::Silu,
    };
    let key = "moe_normalize_expert_weights";
    let order = match p.require(key) {
        Ok(()) => p.number(key)?,
        Err(_) => Some(1.0),
    };
    if let Some(order) = order.filter(|order| *order != 1.0) {
        let message = format!("`{}` is {order}: weights over their {order}-norm", p.full(key));
        return Err(p.unsupported(key, message, "supported: 1 (their sum) and null (as they are)"));
    }
    let normalise = order.is_some();
    Ok(Moe {
        experts,
        top_k,
        expert: Mlp { width: p.dim("ffn_hidden_size")?, gated: true, activation, bias: false },
        router: Router::new(Scoring::Softmax, normalise),
        shared: None,
    })
}
