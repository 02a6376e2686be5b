//! Element by element.

use crate::held::larger;
use crate::place::Part;
use crate::tensor::Tensor;
use shardc_ir::ops::Op;
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// What an operator makes of two elements.
type Binary = fn(f64, f64) -> f64;

/// The function of an operator of one operand.
pub(super) fn unary(op: &Op) -> Option<Box<dyn Fn(f64) -> f64>> {
    Some(match op {
        Op::Neg(_) => Box::new(|x| -x),
        Op::Scale(a) => {
            let by = a.by.0;
            Box::new(move |x| x * by)
        }
        Op::Offset(a) => {
            let by = a.by.0;
            Box::new(move |x| x + by)
        }
        Op::Clamp(a) => {
            let lo = a.lo.map_or(f64::NEG_INFINITY, |x| x.0);
            let hi = a.hi.map_or(f64::INFINITY, |x| x.0);
            Box::new(move |x| {
                if x < lo {
                    lo
                } else if x > hi {
                    hi
                } else {
                    x
                }
            })
        }
        Op::Silu(_) => Box::new(|x| x * sigmoid(x)),
        Op::Gelu(_) => Box::new(|x| 0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2))),
        Op::GeluTanh(_) => {
            // Hendrycks and Gimpel, arXiv 1606.08415.
            Box::new(|x| 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()))
        }
        Op::Relu(_) => Box::new(relu),
        Op::Relu2(_) => Box::new(|x| relu(x).powi(2)),
        Op::Sigmoid(_) => Box::new(sigmoid),
        Op::Tanh(_) => Box::new(f64::tanh),
        Op::Exp(_) => Box::new(f64::exp),
        Op::Log(_) => Box::new(f64::ln),
        Op::Sqrt(_) => Box::new(f64::sqrt),
        Op::Rsqrt(_) => Box::new(|x| 1.0 / x.sqrt()),
        _ => return None,
    })
}

/// The function of an operator of two operands, with the dimensions that the second stands for.
pub(super) fn binary(op: &Op) -> Option<(&[usize], Binary)> {
    Some(match op {
        Op::Add(a) => (&a.dims, |x, y| x + y),
        Op::Sub(a) => (&a.dims, |x, y| x - y),
        Op::Mul(a) => (&a.dims, |x, y| x * y),
        Op::Div(a) => (&a.dims, |x, y| x / y),
        Op::Max(a) => (&a.dims, larger),
        Op::Min(a) => (&a.dims, |x, y| -larger(-x, -y)),
        _ => return None,
    })
}

/// `f` of every element of `x` and the element of `y` at its indices along `dims`, all if empty.
pub(super) fn combine(
    dims: &[usize],
    x: Part<'_>,
    y: Part<'_>,
    f: Binary,
) -> Result<Tensor, String> {
    let dims: Vec<usize> =
        if dims.is_empty() { (0..y.tensor.rank()).collect() } else { dims.to_vec() };
    for (theirs, &dim) in dims.iter().enumerate() {
        x.need_same(dim, &y, theirs)?;
    }
    Ok(Tensor::from_fn(x.shape(), |at| {
        let there: Vec<usize> = dims.iter().map(|&d| at[d]).collect();
        f(x.tensor.at(at), y.tensor.at(&there))
    }))
}

/// `1 / (1 + exp(−x))`.
pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn relu(x: f64) -> f64 {
    if x < 0.0 { 0.0 } else { x }
}

/// The error function: its Taylor series near zero, a continued fraction of its complement beyond
/// (Abramowitz and Stegun 7.1.6 and 7.1.14), each to f64's precision.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a.is_nan() || a == 0.0 {
        return x;
    }
    let value = if a < 2.5 { erf_series(a) } else { 1.0 - erfc_fraction(a) };
    value.copysign(x)
}

fn erf_series(x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term > sum * f64::EPSILON / 4.0 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

fn erfc_fraction(x: f64) -> f64 {
    let tail = (1..=80).rev().fold(x, |rest, n| x + f64::from(n) / 2.0 / rest);
    (-x * x).exp() / (PI.sqrt() * tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_function_has_known_values() {
        let known = [
            (0.1, 0.1124629160182849),
            (0.5, 0.5204998778130465),
            (1.0, 0.8427007929497149),
            (2.0, 0.9953222650189527),
            (2.5, 0.999593047982555),
            (3.0, 0.9999779095030014),
            (5.0, 0.9999999999984626),
        ];
        for (x, y) in known {
            assert!((erf(x) - y).abs() < 3e-16, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
    }
}
