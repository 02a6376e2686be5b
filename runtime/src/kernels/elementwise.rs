//! Element by element.

use super::operand::{Operand, Output, larger};
use crate::place::strides;
use shardc_ir::ops::Op;
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// What an operator makes of two elements.
type Binary = fn(f32, f32) -> f32;

/// What an operator makes of one element.
type Unary = Box<dyn Fn(f32) -> f32>;

/// The function of an operator of one operand.
pub fn unary(op: &Op) -> Option<Unary> {
    Some(match op {
        Op::Neg(_) => Box::new(|x| -x),
        Op::Scale(a) => {
            let by = a.by.0 as f32;
            Box::new(move |x| x * by)
        }
        Op::Offset(a) => {
            let by = a.by.0 as f32;
            Box::new(move |x| x + by)
        }
        Op::Clamp(a) => {
            let lo = a.lo.map_or(f32::NEG_INFINITY, |x| x.0 as f32);
            let hi = a.hi.map_or(f32::INFINITY, |x| x.0 as f32);
            // Not `clamp`, which refuses bounds that cross.
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
        Op::Gelu(_) => Box::new(|x| {
            let x = f64::from(x);
            (0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2))) as f32
        }),
        Op::GeluTanh(_) => {
            // Hendrycks and Gimpel, arXiv 1606.08415.
            let by = (2.0 / PI).sqrt() as f32;
            Box::new(move |x| 0.5 * x * (1.0 + (by * (x + 0.044715 * x * x * x)).tanh()))
        }
        Op::Relu(_) => Box::new(relu),
        Op::Relu2(_) => Box::new(|x| relu(x) * relu(x)),
        Op::Sigmoid(_) => Box::new(sigmoid),
        Op::Tanh(_) => Box::new(f32::tanh),
        Op::Exp(_) => Box::new(f32::exp),
        Op::Log(_) => Box::new(f32::ln),
        Op::Sqrt(_) => Box::new(f32::sqrt),
        Op::Rsqrt(_) => Box::new(|x| 1.0 / x.sqrt()),
        _ => return None,
    })
}

/// The function of an operator of two operands, with the dimensions that the second stands for.
pub fn binary(op: &Op) -> Option<(&[usize], Binary)> {
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

/// `f` of every element.
pub fn map(x: &Operand<'_>, f: Unary) -> Output {
    let mut numbers = x.floats();
    numbers.iter_mut().for_each(|n| *n = f(*n));
    Output::from(numbers).with_rows(x.rows.cloned())
}

/// `f` of every element of `x` and the element of `y` at its indices along `dims`, all if empty.
pub fn combine(
    dims: &[usize],
    x: &Operand<'_>,
    y: &Operand<'_>,
    f: Binary,
) -> Result<Output, String> {
    let dims: Vec<usize> = if dims.is_empty() { (0..y.rank()).collect() } else { dims.to_vec() };
    for (theirs, &dim) in dims.iter().enumerate() {
        x.need_same(dim, y, theirs)?;
    }
    let (mut left, right) = (x.floats(), y.floats());
    if y.rows.is_some() || dims.len() == x.rank() && x.rows.is_none() {
        if x.rows != y.rows {
            return Err("routed rows meet other rows".to_string());
        }
        left.iter_mut().zip(&right).for_each(|(a, &b)| *a = f(*a, b));
        return Ok(Output::from(left).with_rows(x.rows.cloned()));
    }
    // Distance in `y` between neighbours along each dimension of `x`.
    let mut steps = vec![0; x.rank()];
    dims.iter().zip(strides(&y.shape())).for_each(|(&d, stride)| steps[d] = stride);
    let (width, step) = (x.width(), steps.last().copied().unwrap_or(0));
    let mut at = 0;
    x.for_each_row(|index| {
        let base: usize = index.iter().zip(&steps).map(|(i, s)| i * s).sum();
        let row = &mut left[at..at + width];
        match step {
            0 => row.iter_mut().for_each(|a| *a = f(*a, right[base])),
            1 => row.iter_mut().zip(&right[base..]).for_each(|(a, &b)| *a = f(*a, b)),
            _ => row
                .iter_mut()
                .zip(right[base..].iter().step_by(step))
                .for_each(|(a, &b)| *a = f(*a, b)),
        }
        at += width;
    });
    Ok(Output::from(left).with_rows(x.rows.cloned()))
}

/// `1 / (1 + exp(−x))`.
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// The error function: its Taylor series near zero, a continued fraction of its complement beyond
/// (Abramowitz and Stegun 7.1.5 and 7.1.14), to f32's precision with room.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a.is_nan() {
        return x;
    }
    let value = if a < 2.0 {
        // Σ (−1)ⁿ a^(2n+1) / (n! (2n+1)): at 2 the largest term is below 4, and 2⁻⁵² of it is left.
        let mut power = a;
        let terms = (0..40).map(|n| {
            let term = power / f64::from(2 * n + 1);
            power *= -a * a / f64::from(n + 1);
            term
        });
        2.0 / PI.sqrt() * terms.sum::<f64>()
    } else {
        let tail = (1..=60).rev().fold(a, |rest, n| a + f64::from(n) / 2.0 / rest);
        1.0 - (-a * a).exp() / (PI.sqrt() * tail)
    };
    value.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_function_has_known_values() {
        let known = [
            (0.0, 0.0),
            (0.1, 0.1124629160182849),
            (1.0, 0.8427007929497149),
            (1.9, 0.9927904292352575),
            (2.0, 0.9953222650189527),
            (3.0, 0.9999779095030014),
        ];
        for (x, y) in known {
            assert!((erf(x) - y).abs() < 1e-12, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
    }
}
