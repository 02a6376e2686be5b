//! Rotary positions as the IR's operator.

use super::context::Cx;
use crate::spec::{Rope, RopeScaling, Temperature};
use shardc_ir::attr::F64;
use shardc_ir::diag::Result;
use shardc_ir::graph::Value;
use shardc_ir::ops::Op;
use shardc_ir::ops::position as op;

/// Rotates the leading elements of `x` `[B, S, …, width]` by positions `pos` `[B, S]`.
pub(super) fn rotate(cx: &mut Cx, name: &str, x: Value, rope: &Rope, pos: Value) -> Result<Value> {
    let width = cx.ty(x).dims.last().and_then(|d| d.as_fixed());
    let base = op::Rope {
        theta: F64(rope.theta),
        dim: Some(rope.dim).filter(|&dim| Some(dim) != width),
        interleaved: rope.interleaved,
        scaling: None,
        factor: None,
        original: None,
        low_freq: None,
        high_freq: None,
        beta_fast: None,
        beta_slow: None,
        no_truncate: false,
        magnitude: None,
        long_magnitude: None,
        short_factors: Vec::new(),
        long_factors: Vec::new(),
    };
    cx.op(name, Op::Rope(scaled(base, &rope.scaling)), &[x, pos])
}

/// Queries times the factor that grows with their positions, where there is one.
pub(super) fn tuned(cx: &mut Cx, by: Option<Temperature>, q: Value, pos: Value) -> Result<Value> {
    let Some(t) = by else { return Ok(q) };
    let shift = Some(t.shift).filter(|&n| n > 0);
    let op = op::PositionScale { shift, floor: F64(t.floor), by: F64(t.scale) };
    cx.op("attn.q.tuned", Op::PositionScale(op), &[q, pos])
}

/// The operator with the attributes of a scaling.
fn scaled(base: op::Rope, scaling: &RopeScaling) -> op::Rope {
    let number = |x: &f64| Some(F64(*x));
    let growth = |x: f64| Some(F64(x)).filter(|_| x != 1.0);
    let list = |xs: &[f64]| xs.iter().copied().map(F64).collect();
    match scaling {
        RopeScaling::None => base,
        RopeScaling::Linear { factor } => {
            op::Rope { scaling: Some(op::RopeScaling::Linear), factor: number(factor), ..base }
        }
        RopeScaling::Dynamic { factor, original } => op::Rope {
            scaling: Some(op::RopeScaling::Dynamic),
            factor: number(factor),
            original: Some(*original),
            ..base
        },
        RopeScaling::Llama3 { factor, low, high, original } => op::Rope {
            scaling: Some(op::RopeScaling::Llama3),
            factor: number(factor),
            original: Some(*original),
            low_freq: number(low),
            high_freq: number(high),
            ..base
        },
        RopeScaling::Yarn {
            factor,
            original,
            beta_fast,
            beta_slow,
            attention_factor,
            truncate,
        } => op::Rope {
            scaling: Some(op::RopeScaling::Yarn),
            factor: number(factor),
            original: Some(*original),
            beta_fast: number(beta_fast),
            beta_slow: number(beta_slow),
            no_truncate: !truncate,
            magnitude: growth(*attention_factor),
            ..base
        },
        RopeScaling::LongRope { short, long, original, short_factor, long_factor } => op::Rope {
            scaling: Some(op::RopeScaling::LongRope),
            original: Some(*original),
            magnitude: growth(*short_factor),
            long_magnitude: Some(F64(*long_factor)).filter(|_| long_factor != short_factor),
            short_factors: list(short),
            long_factors: list(long),
            ..base
        },
    }
}
