//! Changes of shape, and storage with scales.

use crate::number::{largest, round};
use crate::place::{Part, Place};
use crate::tensor::{Tensor, for_each_index};
use shardc_ir::dtype::DType;
use shardc_ir::ops::shape::{Pad, Quantise};
use std::ops::Range;

/// The number, in the whole tensor, of every element of a part in its own order.
fn numbers(place: &Place) -> Vec<usize> {
    let mut out = Vec::new();
    for_each_index(&place.shape(), |at| {
        let whole = at.iter().zip(&place.ranges).zip(&place.whole);
        out.push(whole.fold(0, |n, ((i, range), extent)| n * extent + range.start + i));
    });
    out
}

/// The elements in row-major order under other extents, if the part is the same elements there.
pub(super) fn reshape(x: Part<'_>, out: &Place) -> Result<Tensor, String> {
    if numbers(x.place) != numbers(out) {
        return Err(format!(
            "{:?} of {:?} are other elements than {:?} of {:?}",
            x.place.ranges, x.place.whole, out.ranges, out.whole
        ));
    }
    x.tensor.reshaped(&out.shape())
}

/// Result dimension `i` is operand dimension `perm[i]`.
pub(super) fn transpose(perm: &[usize], x: Part<'_>) -> Tensor {
    let shape: Vec<usize> = perm.iter().map(|&p| x.shape()[p]).collect();
    let mut there = vec![0; perm.len()];
    Tensor::from_fn(&shape, |at| {
        perm.iter().zip(at).for_each(|(&p, &i)| there[p] = i);
        x.tensor.at(&there)
    })
}

/// The operands one after another along a dimension.
pub(super) fn concat(dim: usize, x: &[Part<'_>]) -> Result<Tensor, String> {
    for (i, part) in x.iter().enumerate() {
        part.need_whole(&format!("operand {i}"), [dim])?;
        for other in (0..part.tensor.rank()).filter(|&d| d != dim) {
            part.need_same(other, &x[0], other)?;
        }
    }
    let mut shape = x[0].shape().to_vec();
    shape[dim] = x.iter().map(|part| part.shape()[dim]).sum();
    Ok(Tensor::from_fn(&shape, |at| {
        let mut there = at.to_vec();
        let owner = x.iter().find(|part| match there[dim].checked_sub(part.shape()[dim]) {
            None => true,
            Some(rest) => {
                there[dim] = rest;
                false
            }
        });
        owner.map_or(f64::NAN, |part| part.tensor.at(&there))
    }))
}

/// A range of one dimension.
pub(super) fn slice(dim: usize, range: Range<usize>, x: Part<'_>) -> Result<Tensor, String> {
    x.need_whole("the operand", [dim])?;
    let mut ranges: Vec<Range<usize>> = x.shape().iter().map(|&n| 0..n).collect();
    ranges[dim] = range;
    Ok(x.tensor.part(&ranges))
}

/// Zeros before and after one dimension.
pub(super) fn pad(a: &Pad, x: Part<'_>) -> Result<Tensor, String> {
    x.need_whole("the operand", [a.dim])?;
    let (before, extent) = (a.lo as usize, x.shape()[a.dim]);
    let mut shape = x.shape().to_vec();
    shape[a.dim] = before + extent + a.hi as usize;
    Ok(Tensor::from_fn(&shape, |at| {
        let mut there = at.to_vec();
        there[a.dim] = at[a.dim].wrapping_sub(before);
        if there[a.dim] < extent { x.tensor.at(&there) } else { 0.0 }
    }))
}

/// Copies along the result dimensions that `dims` does not name.
pub(super) fn broadcast(dims: &[usize], x: Part<'_>, out: &Place) -> Tensor {
    Tensor::from_fn(&out.shape(), |at| {
        let there: Vec<usize> = dims.iter().map(|&d| at[d]).collect();
        x.tensor.at(&there)
    })
}

/// The numbers that the narrow format stands for, with one f32 scale per `block` elements of a row:
/// the block's largest magnitude becomes the format's largest number.
pub(super) fn quantise(a: &Quantise, x: Part<'_>) -> Result<Tensor, String> {
    let last = x.tensor.rank() - 1;
    let (block, range) = (a.block as usize, &x.place.ranges[last]);
    if range.start % block != 0 || (range.end % block != 0 && range.end != x.place.whole[last]) {
        return Err(format!("elements {range:?} of a row cut blocks of {block}"));
    }
    let rows = x.tensor.data().chunks(range.len().max(1));
    let data = rows.flat_map(|row| row.chunks(block)).flat_map(|block| {
        let max = block.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        let scale = round(max / largest(a.to), DType::F32);
        let stored = |x: &f64| if scale == 0.0 { 0.0 } else { round(x / scale, a.to) * scale };
        block.iter().map(stored).collect::<Vec<_>>()
    });
    Tensor::new(x.shape().to_vec(), data.collect())
}
