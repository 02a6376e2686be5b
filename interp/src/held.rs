//! What one device holds of a value: its part, or what a pending reduction needs to know of it.

use crate::tensor::Tensor;
use shardc_ir::layout::ReduceKind;
use std::ops::Range;

/// The components of a device's part, all of one shape.
///
/// A complete value, a partial sum and a partial maximum have one component. Of an arg-max pend
/// (value, index), of attention over part of the keys (accumulator, maximum of the scores, sum of
/// their exponentials relative to it).
#[derive(Clone, Debug)]
pub struct Held {
    components: Vec<Tensor>,
}

impl From<Tensor> for Held {
    fn from(tensor: Tensor) -> Self {
        Held { components: vec![tensor] }
    }
}

impl Held {
    /// A value with the index where it was found.
    pub(crate) fn arg_max(value: Tensor, index: Tensor) -> Self {
        Held { components: vec![value, index] }
    }

    /// Attention over some of the keys.
    pub(crate) fn attended(accumulator: Tensor, max: Tensor, sum: Tensor) -> Self {
        Held { components: vec![accumulator, max, sum] }
    }

    /// Extents.
    pub fn shape(&self) -> &[usize] {
        self.components[0].shape()
    }

    /// The components.
    pub fn components(&self) -> &[Tensor] {
        &self.components
    }

    /// The only component.
    ///
    /// # Errors
    /// There are several: a reduction pends that no operator reads through.
    pub fn plain(&self) -> Result<&Tensor, String> {
        match &self.components[..] {
            [one] => Ok(one),
            [_, _] => Err("the operand is an unfinished arg-max".to_string()),
            _ => Err("the operand is unfinished attention".to_string()),
        }
    }

    /// The same part of every component.
    pub fn part(&self, ranges: &[Range<usize>]) -> Self {
        self.each(|t| t.part(ranges))
    }

    /// `f` of every component.
    pub fn each(&self, f: impl Fn(&Tensor) -> Tensor) -> Self {
        Held { components: self.components.iter().map(f).collect() }
    }

    /// Component by component what `f` makes of those of several values with equally many.
    pub(crate) fn together<E>(
        values: &[&Held],
        f: impl Fn(&[&Tensor]) -> Result<Tensor, E>,
    ) -> Result<Self, E> {
        let count = values.iter().map(|v| v.components.len()).min().unwrap_or(0);
        let one = |c: usize| f(&values.iter().map(|v| &v.components[c]).collect::<Vec<_>>());
        Ok(Held { components: (0..count).map(one).collect::<Result<_, E>>()? })
    }

    /// Ends what does not pend any more: an arg-max is its index, attention its weighted mean.
    pub(crate) fn finish(self) -> Self {
        match &self.components[..] {
            [_, index] => index.clone().into(),
            [accumulator, _, sum] => accumulator.zip(sum, |a, s| a / s).into(),
            _ => self,
        }
    }

    /// Reduces two contributions.
    ///
    /// # Errors
    /// They are not contributions to a reduction of `kind`, or differ in shape.
    pub(crate) fn merge(&self, other: &Held, kind: ReduceKind) -> Result<Self, String> {
        if self.shape() != other.shape() {
            return Err(format!("{:?} meets {:?} in a reduction", self.shape(), other.shape()));
        }
        match (kind, &self.components[..], &other.components[..]) {
            (ReduceKind::Sum, [a], [b]) => Ok(a.zip(b, |a, b| a + b).into()),
            (ReduceKind::Max, [a], [b]) => Ok(a.zip(b, larger).into()),
            (ReduceKind::ArgMax, [v, i], [w, j]) => Ok(best([v, i], [w, j])),
            (ReduceKind::Lse, [a, m, s], [b, n, t]) => Ok(rescaled([a, m, s], [b, n, t])),
            _ => Err(format!("the operand holds no contributions to a {}", kind.name())),
        }
    }
}

/// The larger number; not a number where one is none.
pub(crate) fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// Per element the pair with the larger value, of equal ones that with the lower index.
fn best([v, i]: [&Tensor; 2], [w, j]: [&Tensor; 2]) -> Held {
    let second = v.zip(w, |v, w| f64::from(u8::from(w > v)));
    let tie = v.zip(w, |v, w| f64::from(u8::from(w == v)));
    let lower = i.zip(j, f64::min);
    let index = Tensor::from_fn(i.shape(), |at| match (tie.at(at) != 0.0, second.at(at) != 0.0) {
        (true, _) => lower.at(at),
        (false, true) => j.at(at),
        (false, false) => i.at(at),
    });
    Held::arg_max(v.zip(w, larger), index)
}

/// Both accumulators and sums relative to the common maximum.
fn rescaled([a, m, s]: [&Tensor; 3], [b, n, t]: [&Tensor; 3]) -> Held {
    let max = m.zip(n, larger);
    let weight =
        |own: &Tensor| own.zip(&max, |own, max| if own == max { 1.0 } else { (own - max).exp() });
    let (left, right) = (weight(m), weight(n));
    let add = |x: &Tensor, y: &Tensor| {
        x.zip(&left, |x, w| x * w).zip(&y.zip(&right, |y, w| y * w), |x, y| x + y)
    };
    Held::attended(add(a, b), max.clone(), add(s, t))
}
