//! Reductions over dimensions.

use super::operand::{Numbers, Operand, Output, larger};
use crate::place::{for_each_index, strides, volume};
use shardc_ir::ops::reduce::{Reduce, Reduction};

fn dense(x: &Operand<'_>) -> Result<(), String> {
    match x.rows {
        None => Ok(()),
        Some(_) => Err("routed rows are reduced by `combine` alone".to_string()),
    }
}

/// Combines the elements along `dims`, from `start` on.
fn fold(
    x: &[f32],
    shape: &[usize],
    dims: &[usize],
    start: f64,
    f: fn(f64, f64) -> f64,
) -> Vec<f64> {
    let kept: Vec<usize> = (0..shape.len()).filter(|d| !dims.contains(d)).collect();
    let extents: Vec<usize> = kept.iter().map(|&d| shape[d]).collect();
    let mut steps = vec![0; shape.len()];
    kept.iter().zip(strides(&extents)).for_each(|(&d, s)| steps[d] = s);
    let mut out = vec![start; volume(&extents)];
    let mut numbers = x.iter();
    for_each_index(shape, |at| {
        let to: usize = at.iter().zip(&steps).map(|(i, s)| i * s).sum();
        if let Some(&x) = numbers.next() {
            out[to] = f(out[to], f64::from(x));
        }
    });
    out
}

fn wide(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// Sum, maximum or minimum; over some of the indices a contribution to it.
pub fn reduce(a: &Reduce, x: &Operand<'_>) -> Result<Output, String> {
    dense(x)?;
    if a.kind == Reduction::Min {
        x.need_whole("the operand", a.dims.iter().copied())?;
    }
    let (start, f): (f64, fn(f64, f64) -> f64) = match a.kind {
        Reduction::Sum => (0.0, |a, b| a + b),
        Reduction::Max => (f64::NEG_INFINITY, wide),
        Reduction::Min => (f64::INFINITY, |a, b| -wide(-a, -b)),
    };
    let out = fold(&x.floats(), &x.shape(), &a.dims, start, f);
    Ok(out.into_iter().map(|x| x as f32).collect::<Vec<_>>().into())
}

/// `exp(x − max) / Σ exp(x − max)` along one dimension.
pub fn softmax(dim: usize, x: &Operand<'_>) -> Result<Output, String> {
    dense(x)?;
    x.need_whole("the operand", [dim])?;
    let shape = x.shape();
    let (extent, step) = (shape[dim], volume(&shape[dim + 1..]));
    let mut numbers = x.floats();
    for block in numbers.chunks_mut((extent * step).max(1)) {
        for lane in 0..step {
            let own = || (lane..extent * step).step_by(step);
            let max = own().map(|i| block[i]).fold(f32::NEG_INFINITY, larger);
            own().for_each(|i| block[i] = (block[i] - max).exp());
            let sum: f32 = own().map(|i| block[i]).sum();
            own().for_each(|i| block[i] /= sum);
        }
    }
    Ok(numbers.into())
}

/// The largest element along one dimension and its index in the whole tensor, the lowest of equal
/// ones. Where no element is here, an index beyond all.
pub fn arg_max(dim: usize, x: &Operand<'_>) -> Result<Output, String> {
    dense(x)?;
    let shape = x.shape();
    let (extent, step) = (shape[dim], volume(&shape[dim + 1..]));
    let outer = volume(&shape[..dim]);
    let numbers = x.floats();
    let first = x.place.ranges[dim].start as i64;
    let (mut values, mut indices) = (Vec::new(), Vec::new());
    for lane in (0..outer).flat_map(|o| (0..step).map(move |s| o * extent * step + s)) {
        let own = (0..extent).map(|i| numbers[lane + i * step]);
        let max = own.clone().fold(f32::NEG_INFINITY, larger);
        let found = own.clone().position(|x| x == max);
        if found.is_none() && extent > 0 {
            return Err("the largest element is not a number".to_string());
        }
        values.push(max);
        indices.push(found.map_or(i64::MAX, |i| first + i as i64));
    }
    Ok(Output { parts: vec![Numbers::Real(values), Numbers::Whole(indices)], rows: None })
}
