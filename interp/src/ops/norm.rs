//! Normalisations over the last dimensions.

use crate::place::Part;
use crate::tensor::{Tensor, volume};
use shardc_ir::ops::norm::{LayerNorm, RmsNorm};

/// `x / sqrt(mean(x²) + eps) · weight`.
pub(super) fn rms_norm(a: &RmsNorm, x: &[Part<'_>]) -> Result<Tensor, String> {
    let normed = by_rows(x, a.last.unwrap_or(1), |row| {
        let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
        let by = 1.0 / (mean + a.eps.0).sqrt();
        row.iter().map(|x| x * by).collect()
    })?;
    Ok(affine(normed, x, a.one_plus))
}

/// `(x − mean) / sqrt(variance + eps) · weight + bias`.
pub(super) fn layer_norm(a: &LayerNorm, x: &[Part<'_>]) -> Result<Tensor, String> {
    let normed = by_rows(x, a.last.unwrap_or(1), |row| {
        let n = row.len() as f64;
        let mean = row.iter().sum::<f64>() / n;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let by = 1.0 / (variance + a.eps.0).sqrt();
        row.iter().map(|x| (x - mean) * by).collect()
    })?;
    Ok(affine(normed, x, a.one_plus))
}

/// `f` of every row of the last `last` dimensions.
fn by_rows(x: &[Part<'_>], last: usize, f: impl Fn(&[f64]) -> Vec<f64>) -> Result<Tensor, String> {
    let rank = x[0].tensor.rank();
    let first = rank.checked_sub(last).ok_or("more dimensions are normalised than there are")?;
    x[0].need_whole("the operand", first..rank)?;
    let width = volume(&x[0].shape()[first..]).max(1);
    let rows = x[0].tensor.data().chunks(width);
    Tensor::new(x[0].shape().to_vec(), rows.flat_map(f).collect())
}

/// Rows times the weight plus the bias, where they are given.
fn affine(normed: Tensor, x: &[Part<'_>], one_plus: bool) -> Tensor {
    let offset = if one_plus { 1.0 } else { 0.0 };
    let tail = |at: &[usize], t: &Tensor| t.at(&at[at.len() - t.rank()..]);
    Tensor::from_fn(normed.shape(), |at| {
        let scaled = match x.get(1) {
            Some(weight) => normed.at(at) * (offset + tail(at, weight.tensor)),
            None => normed.at(at),
        };
        scaled + x.get(2).map_or(0.0, |bias| tail(at, bias.tensor))
    })
}
