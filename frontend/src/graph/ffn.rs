//! Feed-forward networks: of all tokens, or of each expert's routed rows.

use super::context::Cx;
use crate::spec::{Activation, Mlp};
use shardc_ir::attr::F64;
use shardc_ir::diag::Result;
use shardc_ir::graph::Value;
use shardc_ir::ops::Op;
use shardc_ir::ops::elementwise::{Clamp, Offset, Scale, Unary};
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
