//! Changes of shape.

use super::operand::{Numbers, Operand, Output, ROUTED};
use crate::place::{Place, for_each_index, for_each_run, strides, volume};
use shardc_ir::ops::shape::Pad;
use std::ops::Range;

/// The elements of an operand in its own kind of numbers.
fn numbers(x: &Operand<'_>) -> Numbers {
    match x.dtype.is_float() {
        true => Numbers::Real(x.floats()),
        false => Numbers::Whole(x.integers()),
    }
}

impl Numbers {
    /// The elements at `indices`; zeros where there is none.
    fn pick(&self, indices: &[Option<usize>]) -> Self {
        match self {
            Numbers::Real(x) => {
                Numbers::Real(indices.iter().map(|i| i.map_or(0.0, |i| x[i])).collect())
            }
            Numbers::Whole(x) => {
                Numbers::Whole(indices.iter().map(|i| i.map_or(0, |i| x[i])).collect())
            }
        }
    }
}

fn single(numbers: Numbers) -> Output {
    Output { parts: vec![numbers], rows: None }
}

/// The same elements; those that the result's type converts.
pub fn same(x: &Operand<'_>) -> Output {
    single(numbers(x)).with_rows(x.rows.cloned())
}

/// The numbers of the first and last element of every run of a part, in the whole tensor.
fn runs(place: &Place) -> Vec<(usize, usize)> {
    let mut out: Vec<(usize, usize)> = Vec::new();
    for_each_run(&place.whole, &place.ranges, |first, count| match out.last_mut() {
        Some(last) if last.0 + last.1 == first => last.1 += count,
        _ => out.push((first, count)),
    });
    out
}

/// The elements in row-major order under other extents, if the part is the same elements there.
pub fn reshape(x: &Operand<'_>, out: &Place) -> Result<Output, String> {
    if let Some(rows) = x.rows {
        // Of routed rows only what is behind the rows may change.
        let same = x.place.ranges.get(..ROUTED) == out.ranges.get(..ROUTED);
        let width = volume(&x.shape()[ROUTED..]) == volume(&out.shape()[ROUTED.min(out.rank())..]);
        return match same && width {
            true => Ok(single(numbers(x)).with_rows(Some(rows.clone()))),
            false => Err("routed rows are reshaped across experts or tokens".to_string()),
        };
    }
    if runs(x.place) != runs(out) {
        return Err(format!(
            "{:?} of {:?} are other elements than {:?} of {:?}",
            x.place.ranges, x.place.whole, out.ranges, out.whole
        ));
    }
    Ok(single(numbers(x)))
}

fn dense(x: &Operand<'_>, what: &str) -> Result<(), String> {
    match x.rows {
        None => Ok(()),
        Some(_) => Err(format!("`{what}` of routed rows is not executed")),
    }
}

/// Result dimension `i` is operand dimension `perm[i]`.
pub fn transpose(perm: &[usize], x: &Operand<'_>) -> Result<Output, String> {
    dense(x, "transpose")?;
    let shape = x.shape();
    let steps = strides(&shape);
    let to: Vec<usize> = perm.iter().map(|&p| shape[p]).collect();
    let mut indices = Vec::with_capacity(volume(&to));
    for_each_index(&to, |at| {
        indices.push(Some(at.iter().zip(perm).map(|(i, &p)| i * steps[p]).sum()));
    });
    Ok(single(numbers(x).pick(&indices)))
}

/// The operands one after another along a dimension.
pub fn concat(dim: usize, x: &[Operand<'_>]) -> Result<Output, String> {
    for (i, part) in x.iter().enumerate() {
        dense(part, "concat")?;
        part.need_whole(&format!("operand {i}"), [dim])?;
        for other in (0..part.rank()).filter(|&d| d != dim) {
            part.need_same(other, &x[0], other)?;
        }
    }
    let outer = volume(&x[0].shape()[..dim]);
    let width = |part: &Operand<'_>| volume(&part.shape()[dim..]);
    let all: Vec<Numbers> = x.iter().map(numbers).collect();
    let total: usize = x.iter().map(width).sum();
    let whole = all.iter().any(|n| matches!(n, Numbers::Whole(_)));
    let mut real: Vec<f32> = Vec::with_capacity(outer * total);
    let mut integers: Vec<i64> = Vec::new();
    for o in 0..outer {
        for (part, numbers) in x.iter().zip(&all) {
            let own = o * width(part)..(o + 1) * width(part);
            match numbers {
                Numbers::Real(x) => real.extend(&x[own]),
                Numbers::Whole(x) => integers.extend(&x[own]),
            }
        }
    }
    match (whole, real.is_empty()) {
        (true, true) => Ok(integers.into()),
        (false, _) => Ok(real.into()),
        _ => Err("indices and numbers are joined".to_string()),
    }
}

/// A range of one dimension.
pub fn slice(dim: usize, range: Range<usize>, x: &Operand<'_>) -> Result<Output, String> {
    x.need_whole("the operand", [dim])?;
    let mut shape = x.shape();
    let mut skip = 0;
    if let Some(rows) = x.rows {
        if dim < ROUTED {
            return Err("routed rows are cut across experts or tokens".to_string());
        }
        skip = ROUTED - 1;
        shape.drain(..skip);
        shape[0] = rows.len();
    }
    let mut ranges: Vec<Range<usize>> = shape.iter().map(|&n| 0..n).collect();
    ranges[dim - skip] = range;
    let mut indices = Vec::new();
    for_each_run(&shape, &ranges, |first, count| indices.extend((first..first + count).map(Some)));
    Ok(single(numbers(x).pick(&indices)).with_rows(x.rows.cloned()))
}

/// Zeros before and after one dimension.
pub fn pad(a: &Pad, x: &Operand<'_>) -> Result<Output, String> {
    dense(x, "pad")?;
    x.need_whole("the operand", [a.dim])?;
    let (shape, before) = (x.shape(), a.lo as usize);
    let steps = strides(&shape);
    let mut to = shape.clone();
    to[a.dim] += before + a.hi as usize;
    let mut indices = Vec::with_capacity(volume(&to));
    for_each_index(&to, |at| {
        let own = at[a.dim].checked_sub(before).filter(|&i| i < shape[a.dim]);
        indices.push(own.map(|own| {
            let there = at.iter().enumerate().map(|(d, &i)| if d == a.dim { own } else { i });
            there.zip(&steps).map(|(i, s)| i * s).sum()
        }));
    });
    Ok(single(numbers(x).pick(&indices)))
}

/// Copies along the result dimensions that `dims` does not name.
pub fn broadcast(dims: &[usize], x: &Operand<'_>, out: &Place) -> Result<Output, String> {
    dense(x, "broadcast")?;
    let steps = strides(&x.shape());
    let mut indices = Vec::with_capacity(out.volume());
    for_each_index(&out.shape(), |at| {
        indices.push(Some(dims.iter().zip(&steps).map(|(&d, s)| at[d] * s).sum()));
    });
    Ok(single(numbers(x).pick(&indices)))
}
