//! Mixture of experts: routing, dispatch, experts, combination, shared experts.

use super::context::Cx;
use super::ffn;
use crate::spec::{Correction, GroupScore, Moe, Scoring, Shared};
use shardc_ir::attr::F64;
use shardc_ir::diag::Result;
use shardc_ir::dtype::DType;
use shardc_ir::graph::Value;
use shardc_ir::ops::Op;
use shardc_ir::ops::contract::Einsum;
use shardc_ir::ops::elementwise::Unary;
use shardc_ir::ops::moe::{self as op, Combine, Dispatch};

/// The block on `x` `[B, S, H]`.
pub(super) fn build(cx: &mut Cx, moe: &Moe, x: Value) -> Result<Value> {
    let [weights, ids] = route(cx, moe, x)?;
    let scales_input = moe.router.scales_input;
    let mut operands = vec![x, ids];
    operands.extend(scales_input.then_some(weights));
    let dispatch = Op::Dispatch(Dispatch { experts: moe.experts.into() });
    let rows = cx.op("moe.rows", dispatch, &operands)?;
    let rows = ffn::build(cx, "moe", &moe.expert, rows)?;
    let mut operands = vec![rows, ids];
    operands.extend((!scales_input).then_some(weights));
    let routed = cx.op("moe.out", Op::Combine(Combine {}), &operands)?;
    match &moe.shared {
        Some(shared) => {
            let shared = shared_experts(cx, shared, x)?;
            cx.f.add("moe.sum", routed, shared, &[])
        }
        None => Ok(routed),
    }
}

/// Weights and indices `[B, S, k]` of the chosen experts, from logits in f32.
fn route(cx: &mut Cx, moe: &Moe, x: Value) -> Result<[Value; 2]> {
    let w = cx.weight("moe.router.w")?;
    let dot = Einsum { spec: "bsh,he->bse".to_string(), out: Some(DType::F32) };
    let mut logits = cx.op("moe.logits", Op::Dot(dot), &[x, w])?;
    if let Some(b) = cx.weight_if("moe.router.b") {
        logits = cx.f.add("moe.logits.biased", logits, b, &[2])?;
    }
    let mut operands = vec![logits];
    if moe.router.correction != Correction::None {
        operands.push(cx.weight("moe.correction.w")?);
    }
    cx.f.two(["moe.weights", "moe.ids"], Op::Router(router(moe)), &operands)
}

fn router(moe: &Moe) -> op::Router {
    let router = &moe.router;
    let jitter = match router.scoring {
        Scoring::SparseMixer { jitter } => Some(F64(jitter)),
        _ => None,
    };
    let score = |s: GroupScore| match s {
        GroupScore::Max => op::GroupScore::Max,
        GroupScore::Top2Sum => op::GroupScore::TopTwo,
    };
    op::Router {
        top_k: moe.top_k,
        scoring: match router.scoring {
            Scoring::Softmax => op::Scoring::Softmax,
            Scoring::SoftmaxOfTopK => op::Scoring::TopKSoftmax,
            Scoring::Sigmoid => op::Scoring::Sigmoid,
            Scoring::SparseMixer { .. } => op::Scoring::SparseMixer,
        },
        groups: router.groups.map(|g| g.groups),
        top_groups: router.groups.map(|g| g.keep),
        group_score: router.groups.map(|g| score(g.score)),
        normalise: router.normalise,
        scale: Some(F64(router.scale)).filter(|_| router.scale != 1.0),
        jitter,
    }
}

/// The experts that every token passes, behind their gate where there is one.
fn shared_experts(cx: &mut Cx, shared: &Shared, x: Value) -> Result<Value> {
    let out = ffn::build(cx, "shared", &shared.mlp, x)?;
    if !shared.gate {
        return Ok(out);
    }
    let w = cx.weight("shared.mix.w")?;
    let mix = cx.f.dot("shared.mix", x, w, "bsh,h->bs")?;
    let mix = cx.op("shared.mix.sigmoid", Op::Sigmoid(Unary {}), &[mix])?;
    cx.f.mul("shared.out", out, mix, &[0, 1])
}
