//! Contractions: a general einsum as products of matrices.

use super::matmul::{Matrix, multiply};
use super::operand::{Operand, Output, ROUTED, Rows};
use crate::number;
use crate::place::{for_each_index, strides, volume};
use crate::stored::Elements;
use shardc_ir::dtype::DType;

/// One operand of a contraction: its letters with their extents, and where its elements are.
struct Side<'a> {
    letters: Vec<(char, usize)>,
    all: Elements<'a>,
    /// The first element.
    first: usize,
}

/// The letters of a contraction by their part in it.
struct Roles {
    /// In both operands and the result.
    batch: Vec<(char, usize)>,
    /// In the left operand and the result.
    rows: Vec<(char, usize)>,
    /// In both operands alone.
    summed: Vec<(char, usize)>,
    /// In the right operand and the result.
    columns: Vec<(char, usize)>,
}

/// The contraction `spec`; a contraction of some of the indices of a letter is a contribution to a
/// sum.
pub fn einsum(spec: &str, x: &Operand<'_>, y: &Operand<'_>) -> Result<Output, String> {
    let bad = || format!("`{spec}` is no contraction of these operands");
    let (operands, result) = spec.split_once("->").ok_or_else(bad)?;
    let (lhs, rhs) = operands.split_once(',').ok_or_else(bad)?;
    if lhs.chars().count() != x.rank() || rhs.chars().count() != y.rank() {
        return Err(bad());
    }
    for (d, c) in lhs.chars().enumerate() {
        if let Some(e) = rhs.chars().position(|r| r == c) {
            x.need_same(d, y, e)?;
        }
    }
    let named = |letters: &str, o: &Operand<'_>| -> Vec<(char, usize)> {
        letters.chars().zip(o.shape()).collect()
    };
    let (left, right) = (named(lhs, x), named(rhs, y));
    let right = Side { letters: right, all: y.elements(), first: 0 };
    match x.rows {
        Some(rows) => {
            let numbers = routed(rows, x, left, &right, result).ok_or_else(bad)?;
            Ok(Output::from(numbers).with_rows(Some(rows.clone())))
        }
        None => {
            let left = Side { letters: left, all: x.elements(), first: 0 };
            Ok(dense(&left, &right, result).ok_or_else(bad)?.into())
        }
    }
}

/// Rows of each expert by its own matrix.
fn routed(
    rows: &Rows,
    x: &Operand<'_>,
    left: Vec<(char, usize)>,
    right: &Side<'_>,
    result: &str,
) -> Option<Vec<f32>> {
    let own: Vec<char> = left.iter().take(ROUTED).map(|l| l.0).collect();
    let kept: Vec<char> = result.chars().take(ROUTED).collect();
    if own != kept || right.letters.first()?.0 != own[0] {
        return None;
    }
    // One letter numbers the rows of an expert.
    let inner: String = std::iter::once('#').chain(result.chars().skip(ROUTED)).collect();
    let width: usize = left[ROUTED..].iter().map(|l| l.1).product();
    let matrix: usize = right.letters[1..].iter().map(|l| l.1).product();
    let mut out = Vec::new();
    let mut at = 0;
    for run in rows.chunk_by(|a, b| a[0] == b[0]) {
        let mut letters = vec![('#', run.len())];
        letters.extend(&left[ROUTED..]);
        let own = Side { letters, all: x.elements(), first: at * width };
        let expert = Side {
            letters: right.letters[1..].to_vec(),
            first: right.first + run[0][0] as usize * matrix,
            ..*right
        };
        out.extend(dense(&own, &expert, &inner)?);
        at += run.len();
    }
    Some(out)
}

impl Roles {
    fn of(left: &Side<'_>, right: &Side<'_>, result: &str) -> Option<Self> {
        let has = |side: &Side<'_>, c: char| side.letters.iter().any(|l| l.0 == c);
        let pick = |side: &Side<'_>, other: &Side<'_>, shared: bool, kept: bool| {
            let fits =
                |l: &&(char, usize)| has(other, l.0) == shared && result.contains(l.0) == kept;
            side.letters.iter().filter(fits).copied().collect::<Vec<_>>()
        };
        let roles = Roles {
            batch: pick(left, right, true, true),
            rows: pick(left, right, false, true),
            summed: pick(left, right, true, false),
            columns: pick(right, left, false, true),
        };
        let known = roles.batch.len() + roles.rows.len() + roles.columns.len();
        (known == result.chars().count()).then_some(roles)
    }
}

fn size(letters: &[(char, usize)]) -> usize {
    letters.iter().map(|l| l.1).product()
}

fn joined(parts: [&[(char, usize)]; 3]) -> Vec<(char, usize)> {
    parts.concat()
}

/// A contraction of tensors without absent rows.
fn dense(left: &Side<'_>, right: &Side<'_>, result: &str) -> Option<Vec<f32>> {
    let roles = Roles::of(left, right, result)?;
    let Roles { batch, rows, summed, columns } = &roles;
    let (m, k, n) = (size(rows), size(summed), size(columns));
    let a = left.ordered(&joined([batch, rows, summed]))?;
    let straight = right.letters == joined([batch, summed, columns]);
    let turned = right.letters == joined([batch, columns, summed]);
    // A right side in another order is put in order first.
    let moved = match straight || turned {
        true => None,
        false => Some(to_bytes(&right.ordered(&joined([batch, summed, columns]))?)),
    };
    let (all, first) = match &moved {
        Some(bytes) => (Elements { dtype: DType::F32, bytes, scales: None }, 0),
        None => (right.all, right.first),
    };
    let transposed = turned && !straight;
    let mut out = Vec::with_capacity(size(batch) * m * n);
    for i in 0..size(batch) {
        let matrix = Matrix { all, first: first + i * k * n, k, n, transposed };
        out.extend(multiply(&a[i * m * k..(i + 1) * m * k], m, &matrix));
    }
    let order = joined([batch, rows, columns]);
    let wanted: Vec<(char, usize)> =
        result.chars().filter_map(|c| order.iter().find(|l| l.0 == c).copied()).collect();
    if order == wanted {
        return Some(out);
    }
    permuted(&order, &wanted).map(|at| at.into_iter().map(|i| out[i]).collect())
}

fn to_bytes(numbers: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; number::bytes_of(DType::F32, numbers.len())];
    number::narrow(DType::F32, numbers, &mut bytes);
    bytes
}

impl Side<'_> {
    /// The elements with the letters in another order.
    fn ordered(&self, wanted: &[(char, usize)]) -> Option<Vec<f32>> {
        let mut all = vec![0.0; size(&self.letters)];
        self.all.widen(self.first, &mut all);
        if self.letters == wanted {
            return Some(all);
        }
        permuted(&self.letters, wanted).map(|at| at.into_iter().map(|i| all[i]).collect())
    }
}

/// Where each element of a tensor with letters `to` is in one with letters `from`.
fn permuted(from: &[(char, usize)], to: &[(char, usize)]) -> Option<Vec<usize>> {
    let extents: Vec<usize> = from.iter().map(|l| l.1).collect();
    let steps = strides(&extents);
    let step = |l: &(char, usize)| from.iter().position(|f| f == l).map(|d| steps[d]);
    let steps: Vec<usize> = to.iter().map(step).collect::<Option<_>>()?;
    let shape: Vec<usize> = to.iter().map(|l| l.1).collect();
    let mut out = Vec::with_capacity(volume(&shape));
    for_each_index(&shape, |index| out.push(index.iter().zip(&steps).map(|(i, s)| i * s).sum()));
    Some(out)
}
