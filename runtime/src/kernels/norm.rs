//! Normalisations over the last dimensions. Sums are in f64, results in f32.

use super::operand::{Operand, Output};
use crate::place::volume;
use shardc_ir::ops::norm::{LayerNorm, RmsNorm};

/// `x / sqrt(mean(x²) + eps) · weight`.
pub fn rms_norm(a: &RmsNorm, x: &[Operand<'_>]) -> Result<Output, String> {
    by_rows(x, a.last.unwrap_or(1), a.one_plus, |row| {
        let mean = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / row.len() as f64;
        let by = 1.0 / (mean + a.eps.0).sqrt();
        row.iter_mut().for_each(|x| *x = (f64::from(*x) * by) as f32);
    })
}

/// `(x − mean) / sqrt(variance + eps) · weight + bias`.
pub fn layer_norm(a: &LayerNorm, x: &[Operand<'_>]) -> Result<Output, String> {
    by_rows(x, a.last.unwrap_or(1), a.one_plus, |row| {
        let n = row.len() as f64;
        let mean = row.iter().copied().map(f64::from).sum::<f64>() / n;
        let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / n;
        let by = 1.0 / (variance + a.eps.0).sqrt();
        row.iter_mut().for_each(|x| *x = ((f64::from(*x) - mean) * by) as f32);
    })
}

/// `f` of every row of the last `last` dimensions, times the weight plus the bias.
fn by_rows(
    x: &[Operand<'_>],
    last: usize,
    one_plus: bool,
    f: impl Fn(&mut [f32]),
) -> Result<Output, String> {
    let rank = x[0].rank();
    let first = rank.checked_sub(last).ok_or("more dimensions are normalised than there are")?;
    x[0].need_whole("the operand", first..rank)?;
    let width = volume(&x[0].shape()[first..]).max(1);
    let offset = if one_plus { 1.0 } else { 0.0 };
    let [weight, bias] = [1, 2].map(|i| x.get(i).map(Operand::floats));
    for (what, numbers) in [("weight", &weight), ("bias", &bias)] {
        if numbers.as_ref().is_some_and(|n| n.len() != width) {
            return Err(format!("the {what} is not as long as a row"));
        }
    }
    let mut numbers = x[0].floats();
    for row in numbers.chunks_mut(width) {
        f(row);
        if let Some(weight) = &weight {
            row.iter_mut().zip(weight).for_each(|(x, w)| *x *= offset + w);
        }
        if let Some(bias) = &bias {
            row.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
        }
    }
    Ok(Output::from(numbers).with_rows(x[0].rows.cloned()))
}
