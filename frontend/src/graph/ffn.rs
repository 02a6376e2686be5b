//! Feed-forward networks: of all tokens, or of each expert's routed rows.

use super::context::Cx;
use crate::spec::{Activation, Mlp};
use shardc_ir::attr::F64;
use shardc_ir::diag::Result;
use shardc_ir::dim::Dim;
use shardc_ir::graph::Value;
use shardc_ir::ops::Op;
use shardc_ir::ops::elementwise::{AddLike, Clamp, Offset, Scale, Unary};
use shardc_ir::ops::shape::{Broadcast, Reshape};
use shardc_ir::types::Kind;

/// The network `name` on `x`: `[B, S, H]`, or routed rows `[E, B, S, H]`.
pub(super) fn build(cx: &mut Cx, name: &str, mlp: &Mlp, x: Value) -> Result<Value> {
    let routed = matches!(cx.ty(x).kind, Kind::Routed { .. });
    let (widen, narrow, bias): (_, _, &[usize]) = match routed {
        true => ("ebsh,ehf->ebsf", "ebsf,efh->ebsh", &[0, 3]),
        false => ("bsh,hf->bsf", "bsf,fh->bsh", &[2]),
    };
    let part = |p: &str| format!("{name}.{p}");
    let gate = match mlp.gated {
        true => Some(cx.project(&part("gate"), x, &part("gate"), widen, bias)?),
        false => None,
    };
    let up = cx.project(&part("up"), x, &part("up"), widen, bias)?;
    let act = match (gate, mlp.activation) {
        (Some(gate), Activation::ClampedSwiglu { alpha, limit }) => {
            clamped_swiglu(cx, name, [gate, up], alpha, limit)?
        }
        (Some(gate), activation) => {
            let gate = activate(cx, &part("gate.act"), activation, gate)?;
            cx.f.mul(&part("act"), gate, up, &[])?
        }
        (None, activation) => activate(cx, &part("act"), activation, up)?,
    };
    cx.project(&part("down"), act, &part("down"), narrow, bias)
}

/// An activation of one argument.
fn activate(cx: &mut Cx, name: &str, activation: Activation, x: Value) -> Result<Value> {
    let op = match activation {
        Activation::Silu => Op::Silu(Unary {}),
        Activation::Gelu => Op::Gelu(Unary {}),
        Activation::GeluTanh => Op::GeluTanh(Unary {}),
        Activation::Relu => Op::Relu(Unary {}),
        Activation::Relu2 => Op::Relu2(Unary {}),
        Activation::ClampedSwiglu { alpha, limit } => {
            let gate = clamp(cx, &format!("{name}.clamp"), x, None, limit)?;
            return swish(cx, name, gate, alpha);
        }
        Activation::Xielu => return xielu(cx, name, x),
    };
    cx.op(name, op, &[x])
}

/// `(up + 1) · gate · sigmoid(alpha · gate)` of the clamped `gate` and `up`.
fn clamped_swiglu(
    cx: &mut Cx,
    name: &str,
    [gate, up]: [Value; 2],
    alpha: f64,
    limit: f64,
) -> Result<Value> {
    let part = |p: &str| format!("{name}.{p}");
    let gate = clamp(cx, &part("gate.clamp"), gate, None, limit)?;
    let up = clamp(cx, &part("up.clamp"), up, Some(-limit), limit)?;
    let gate = swish(cx, &part("gate.act"), gate, alpha)?;
    let up = cx.op(&part("up.plus_one"), Op::Offset(Offset { by: F64(1.0) }), &[up])?;
    cx.f.mul(&part("act"), up, gate, &[])
}

/// `x · sigmoid(alpha · x)`.
fn swish(cx: &mut Cx, name: &str, x: Value, alpha: f64) -> Result<Value> {
    let scaled = cx.op(&format!("{name}.scaled"), Op::Scale(Scale { by: F64(alpha) }), &[x])?;
    let sigmoid = cx.op(&format!("{name}.sigmoid"), Op::Sigmoid(Unary {}), &[scaled])?;
    cx.f.mul(name, x, sigmoid, &[])
}

fn clamp(cx: &mut Cx, name: &str, x: Value, lo: Option<f64>, hi: f64) -> Result<Value> {
    cx.op(name, Op::Clamp(Clamp { lo: lo.map(F64), hi: Some(F64(hi)) }), &[x])
}

/// xIELU of `x` `[B, S, F]` with the learned numbers of the layer.
fn xielu(cx: &mut Cx, name: &str, x: Value) -> Result<Value> {
    let part = |p: &str| format!("{name}.{p}");
    let above = learned(cx, &part("positive"), x)?;
    let below = learned(cx, &part("negative"), x)?;
    let below = cx.op(&part("negative.raised"), Op::Offset(Offset { by: F64(0.5) }), &[below])?;
    let square = cx.op(&part("square"), Op::Relu2(Unary {}), &[x])?;
    let square = cx.f.mul(&part("square.scaled"), square, above, &[2])?;
    let capped = clamp(cx, &part("capped"), x, None, 0.0)?;
    let power = cx.op(&part("exp"), Op::Exp(Unary {}), &[capped])?;
    let power = cx.op(&part("exp.lowered"), Op::Offset(Offset { by: F64(-1.0) }), &[power])?;
    let bend = cx.op(&part("bend"), Op::Sub(AddLike { dims: Vec::new() }), &[power, capped])?;
    let bend = cx.f.mul(&part("bend.scaled"), bend, below, &[2])?;
    let half = cx.op(&part("half"), Op::Scale(Scale { by: F64(0.5) }), &[x])?;
    let bent = cx.f.add(&part("bent"), half, bend, &[])?;
    cx.f.add(name, bent, square, &[])
}

/// `ln(1 + exp(w))` of the learned number `name.w`, as long as a row of `x`.
fn learned(cx: &mut Cx, name: &str, x: Value) -> Result<Value> {
    let w = cx.weight(&format!("{name}.w"))?;
    let soft = cx.softplus(&format!("{name}.softplus"), w)?;
    let width = cx.ty(x).dims[2];
    let shape = vec![Dim::fixed(1), width];
    let row =
        cx.op(&format!("{name}.row"), Op::Broadcast(Broadcast { shape, dims: vec![0] }), &[soft])?;
    cx.op(&format!("{name}.flat"), Op::Reshape(Reshape { shape: vec![width] }), &[row])
}
