//! Reductions over dimensions.

use crate::held::{Held, larger};
use crate::place::Part;
use crate::tensor::{Tensor, for_each_index};
use shardc_ir::ops::reduce::{Reduce, Reduction};

/// The indices of `at` that are not among `dims`.
fn without(at: &[usize], dims: &[usize]) -> Vec<usize> {
    at.iter().enumerate().filter(|(d, _)| !dims.contains(d)).map(|(_, &i)| i).collect()
}

/// Combines the elements along `dims`, from `start` on.
fn fold(x: &Tensor, dims: &[usize], start: f64, f: impl Fn(f64, f64) -> f64) -> Tensor {
    let kept = without(x.shape(), dims);
    let shape = Tensor::filled(&kept, 0.0);
    let strides = crate::tensor::strides(&kept);
    let mut data = shape.data().iter().map(|_| start).collect::<Vec<f64>>();
    for_each_index(x.shape(), |at| {
        let to: usize = without(at, dims).iter().zip(&strides).map(|(i, s)| i * s).sum();
        data[to] = f(data[to], x.at(at));
    });
    Tensor::new(kept, data).unwrap_or(shape)
}

/// Sum, maximum or minimum; over some of the indices a contribution to it.
pub(super) fn reduce(a: &Reduce, x: Part<'_>) -> Result<Tensor, String> {
    Ok(match a.kind {
        Reduction::Sum => fold(x.tensor, &a.dims, 0.0, |a, b| a + b),
        Reduction::Max => fold(x.tensor, &a.dims, f64::NEG_INFINITY, larger),
        Reduction::Min => {
            x.need_whole("the operand", a.dims.iter().copied())?;
            fold(x.tensor, &a.dims, f64::INFINITY, |a, b| -larger(-a, -b))
        }
    })
}

/// `exp(x − max) / Σ exp(x − max)` along one dimension.
pub(super) fn softmax(dim: usize, x: Part<'_>) -> Result<Tensor, String> {
    x.need_whole("the operand", [dim])?;
    let max = fold(x.tensor, &[dim], f64::NEG_INFINITY, larger);
    let spread = |t: &Tensor| Tensor::from_fn(x.shape(), |at| t.at(&without(at, &[dim])));
    let exp = x.tensor.zip(&spread(&max), |x, max| (x - max).exp());
    let sum = fold(&exp, &[dim], 0.0, |a, b| a + b);
    Ok(exp.zip(&spread(&sum), |e, sum| e / sum))
}

/// The largest element along one dimension and its index in the whole tensor, the lowest of equal
/// ones. Where no element is here, an index beyond all.
pub(super) fn arg_max(dim: usize, x: Part<'_>) -> Held {
    let max = fold(x.tensor, &[dim], f64::NEG_INFINITY, larger);
    let first = x.place.ranges[dim].start;
    let index = Tensor::from_fn(max.shape(), |kept| {
        let mut at = kept.to_vec();
        at.insert(dim, 0);
        let found = (0..x.shape()[dim]).find(|&i| {
            at[dim] = i;
            x.tensor.at(&at) == max.at(kept)
        });
        found.map_or(f64::INFINITY, |i| (first + i) as f64)
    });
    Held::arg_max(max, index)
}
