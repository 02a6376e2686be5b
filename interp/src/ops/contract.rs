//! Contractions: `result[…] = Σ x[…] · y[…]` over the letters that the result lacks.

use crate::place::Part;
use crate::tensor::{Tensor, for_each_index, strides};

/// A letter of a spec: its extent here and its strides in both operands, 0 where absent.
#[derive(Clone, Copy)]
struct Letter {
    name: char,
    extent: usize,
    strides: [usize; 2],
}

/// The contraction `spec` of two operands; a contraction of some of the indices of a letter is a
/// contribution to a sum.
pub(super) fn einsum(spec: &str, x: Part<'_>, y: Part<'_>) -> Result<Tensor, String> {
    let bad = || format!("`{spec}` is no contraction");
    let (operands, result) = spec.split_once("->").ok_or_else(bad)?;
    let (lhs, rhs) = operands.split_once(',').ok_or_else(bad)?;
    for (d, c) in lhs.chars().enumerate() {
        if let Some(e) = rhs.chars().position(|r| r == c) {
            x.need_same(d, &y, e)?;
        }
    }
    let letters = letters([lhs, rhs], [x, y]);
    let find = |c: char| letters.iter().find(|l| l.name == c).copied();
    let kept: Vec<Letter> = result.chars().map(find).collect::<Option<_>>().ok_or_else(bad)?;
    let summed: Vec<Letter> =
        letters.iter().copied().filter(|l| !result.contains(l.name)).collect();
    let terms = offsets(&summed);
    let (a, b) = (x.tensor.data(), y.tensor.data());
    let element = |(i, j): (usize, usize)| terms.iter().map(|(k, l)| a[i + k] * b[j + l]).sum();
    let data = offsets(&kept).into_iter().map(element).collect();
    Tensor::new(kept.iter().map(|l| l.extent).collect(), data)
}

fn letters(names: [&str; 2], operands: [Part<'_>; 2]) -> Vec<Letter> {
    let mut out: Vec<Letter> = Vec::new();
    for (side, (names, part)) in names.into_iter().zip(operands).enumerate() {
        let dims = part.shape().iter().zip(strides(part.shape()));
        for (name, (&extent, stride)) in names.chars().zip(dims) {
            let known = out.iter().position(|l| l.name == name).unwrap_or_else(|| {
                out.push(Letter { name, extent, strides: [0, 0] });
                out.len() - 1
            });
            out[known].strides[side] = stride;
        }
    }
    out
}

/// Where the elements of both operands lie for every index of some letters, in order.
fn offsets(letters: &[Letter]) -> Vec<(usize, usize)> {
    let extents: Vec<usize> = letters.iter().map(|l| l.extent).collect();
    let mut out = Vec::new();
    for_each_index(&extents, |index| {
        let at = |side: usize| index.iter().zip(letters).map(|(i, l)| i * l.strides[side]).sum();
        out.push((at(0), at(1)));
    });
    out
}
