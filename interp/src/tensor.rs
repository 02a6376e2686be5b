//! Dense tensors of numbers, row-major and never changed once made.

use std::ops::Range;
use std::sync::Arc;

/// A tensor; indices and truth values are numbers too. Copies share their elements.
#[derive(Clone, Debug)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Arc<Vec<f64>>,
}

/// The number of elements of a shape, saturating.
pub fn volume(shape: &[usize]) -> usize {
    shape.iter().fold(1, |n, &d| n.saturating_mul(d))
}

/// Calls `f` with every index of a shape, in row-major order.
pub fn for_each_index(shape: &[usize], mut f: impl FnMut(&[usize])) {
    let mut index = vec![0; shape.len()];
    for _ in 0..volume(shape) {
        f(&index);
        for (i, &n) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < n {
                break;
            }
            *i = 0;
        }
    }
}

/// Distance in row-major order between neighbours along each dimension.
pub fn strides(shape: &[usize]) -> Vec<usize> {
    let mut out = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        out[d - 1] = out[d] * shape[d];
    }
    out
}

impl Tensor {
    /// A tensor of given elements.
    ///
    /// # Errors
    /// The shape has another number of elements.
    pub fn new(shape: Vec<usize>, data: Vec<f64>) -> Result<Self, String> {
        if volume(&shape) != data.len() {
            return Err(format!("{} elements do not fill {shape:?}", data.len()));
        }
        Ok(Tensor { shape, data: Arc::new(data) })
    }

    /// A tensor whose element at `index` is `f(index)`.
    pub fn from_fn(shape: &[usize], mut f: impl FnMut(&[usize]) -> f64) -> Self {
        let mut data = Vec::with_capacity(volume(shape));
        for_each_index(shape, |index| data.push(f(index)));
        Tensor { shape: shape.to_vec(), data: Arc::new(data) }
    }

    /// A tensor of equal elements.
    pub fn filled(shape: &[usize], x: f64) -> Self {
        Tensor { shape: shape.to_vec(), data: Arc::new(vec![x; volume(shape)]) }
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The elements in row-major order.
    pub fn data(&self) -> &[f64] {
        &self.data
    }

    /// The element at `index`, which lies inside the shape.
    pub fn at(&self, index: &[usize]) -> f64 {
        self.data[index.iter().zip(&self.shape).fold(0, |at, (i, n)| at * n + i)]
    }

    /// The elements of the last dimension at `index` in the others.
    pub fn row(&self, index: &[usize]) -> &[f64] {
        let width = self.shape.last().copied().unwrap_or(1);
        let at = index.iter().zip(&self.shape).fold(0, |at, (i, n)| at * n + i);
        &self.data[at * width..(at + 1) * width]
    }

    /// `f` of every element.
    pub fn map(&self, f: impl FnMut(f64) -> f64) -> Self {
        let data = self.data.iter().copied().map(f).collect();
        Tensor { shape: self.shape.clone(), data: Arc::new(data) }
    }

    /// `f` of the elements of two tensors of one shape.
    pub(crate) fn zip(&self, other: &Tensor, f: impl Fn(f64, f64) -> f64) -> Self {
        let pairs = self.data.iter().zip(other.data.iter());
        let data = pairs.map(|(&a, &b)| f(a, b)).collect();
        Tensor { shape: self.shape.clone(), data: Arc::new(data) }
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// The shape has another number of elements.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self, String> {
        if volume(shape) != self.data.len() {
            return Err(format!("{:?} has not as many elements as {shape:?}", self.shape));
        }
        Ok(Tensor { shape: shape.to_vec(), data: Arc::clone(&self.data) })
    }

    /// The elements in `ranges`, one range inside the shape per dimension.
    pub fn part(&self, ranges: &[Range<usize>]) -> Self {
        if ranges.iter().zip(&self.shape).all(|(r, &n)| *r == (0..n)) {
            return self.clone();
        }
        let shape: Vec<usize> = ranges.iter().map(Range::len).collect();
        let mut data = Vec::with_capacity(volume(&shape));
        let outer = shape.len().saturating_sub(1);
        let run = ranges.last().cloned().unwrap_or(0..1);
        for_each_index(&shape[..outer], |index| {
            let at: Vec<usize> = index.iter().zip(ranges).map(|(i, r)| r.start + i).collect();
            data.extend_from_slice(&self.row(&at)[run.clone()]);
        });
        Tensor { shape, data: Arc::new(data) }
    }

    /// Slice `n` of the first dimension, without that dimension.
    pub fn slice(&self, n: usize) -> Self {
        let shape = self.shape[1..].to_vec();
        let size = volume(&shape);
        Tensor { shape, data: Arc::new(self.data[n * size..(n + 1) * size].to_vec()) }
    }

    /// Tensors of one shape along a new first dimension.
    pub fn stack(slices: &[Tensor]) -> Self {
        let inner = slices.first().map(|t| t.shape.clone()).unwrap_or_default();
        let data = slices.iter().flat_map(|t| t.data.iter().copied()).collect();
        Tensor { shape: [&[slices.len()], &inner[..]].concat(), data: Arc::new(data) }
    }

    /// Tensors that differ in the first extent only, one after another along it.
    pub fn concat(tensors: &[Tensor]) -> Self {
        let mut shape = tensors.first().map(|t| t.shape.clone()).unwrap_or_default();
        if let Some(first) = shape.first_mut() {
            *first = tensors.iter().map(|t| t.shape[0]).sum();
        }
        let data = tensors.iter().flat_map(|t| t.data.iter().copied()).collect();
        Tensor { shape, data: Arc::new(data) }
    }

    /// The largest difference to a tensor of the same shape in units of `1 + |element|`; infinite
    /// where shapes differ, or where one element is a number and the other is not.
    pub fn distance(&self, other: &Tensor) -> f64 {
        if self.shape != other.shape {
            return f64::INFINITY;
        }
        let apart = |(&a, &b): (&f64, &f64)| match a == b || (a.is_nan() && b.is_nan()) {
            true => 0.0,
            false => Some((a - b).abs() / (1.0 + b.abs()))
                .filter(|d| !d.is_nan())
                .unwrap_or(f64::INFINITY),
        };
        self.data.iter().zip(other.data.iter()).map(apart).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(shape: &[usize]) -> Tensor {
        let mut n = 0.0;
        Tensor::from_fn(shape, |_| {
            n += 1.0;
            n
        })
    }

    #[test]
    fn parts_slices_and_stacks() {
        let t = counting(&[2, 3, 4]);
        let part = t.part(&[1..2, 0..2, 1..3]);
        assert_eq!((part.shape(), part.data()), (&[1, 2, 2][..], &[14.0, 15.0, 18.0, 19.0][..]));
        assert_eq!(Tensor::stack(&[t.slice(0), t.slice(1)]).distance(&t), 0.0);
        let (top, rest) = (t.part(&[0..1, 0..3, 0..4]), t.part(&[1..2, 0..3, 0..4]));
        assert_eq!(Tensor::concat(&[top, rest]).distance(&t), 0.0);
        assert!(t.part(&[0..0, 0..3, 0..4]).data().is_empty());
        assert_eq!(counting(&[]).data(), [1.0]);
    }

    #[test]
    fn numbers_are_far_from_nothing() {
        let (a, b) = (Tensor::filled(&[1], f64::NAN), Tensor::filled(&[1], 1.0));
        assert_eq!((a.distance(&b), a.distance(&a)), (f64::INFINITY, 0.0));
    }
}
