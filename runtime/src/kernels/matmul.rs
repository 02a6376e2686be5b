//! Matrix products with a stored right side, widened tile by tile.
//!
//! The right side is a weight in whatever format it is stored; a tile of it is widened to f32 and
//! given to the library's product. Of a few rows the time is that of reading the weight, so those go
//! straight over the stored numbers. The order of every sum follows from the shapes alone, whatever
//! the number of threads.

use crate::stored::Elements;
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};
use rayon::prelude::*;

/// A stored matrix of `k` rows and `n` columns.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// All elements of the tensor it lies in.
    pub all: Elements<'a>,
    /// Its first element.
    pub first: usize,
    /// Rows.
    pub k: usize,
    /// Columns.
    pub n: usize,
    /// Whether columns, not rows, are neighbours in storage.
    pub transposed: bool,
}

/// Rows and columns of a tile.
const TILE: (usize, usize) = (256, 256);

/// Columns that one task computes.
const COLUMNS: usize = 1024;

/// Most rows of the left side for which its product is a stream over the weight.
const FEW: usize = 3;

/// Products below this many multiplications are one task.
const SMALL: usize = 1 << 17;

/// `a · b` of `a` with `m` rows, row-major.
pub fn multiply(a: &[f32], m: usize, b: &Matrix<'_>) -> Vec<f32> {
    let mut out = vec![0.0; m * b.n];
    if m == 0 || b.n == 0 || b.k == 0 {
        return out;
    }
    let starts: Vec<usize> = (0..b.n).step_by(COLUMNS).collect();
    let block = |&start: &usize| {
        let width = COLUMNS.min(b.n - start);
        let mut part = vec![0.0; m * width];
        match m <= FEW {
            true => stream(a, m, b, start, &mut part),
            false => tiles(a, m, b, start, &mut part),
        }
        (start, width, part)
    };
    let blocks: Vec<_> = match m * b.n * b.k < SMALL {
        true => starts.iter().map(block).collect(),
        false => starts.par_iter().map(block).collect(),
    };
    for (start, width, part) in blocks {
        for (row, own) in out.chunks_mut(b.n).zip(part.chunks(width)) {
            row[start..start + width].copy_from_slice(own);
        }
    }
    out
}

/// Columns from `start` on, by tiles.
fn tiles(a: &[f32], m: usize, b: &Matrix<'_>, start: usize, out: &mut [f32]) {
    let width = out.len() / m;
    let mut tile = vec![0.0; TILE.0 * TILE.1];
    for column in (0..width).step_by(TILE.1) {
        let n = TILE.1.min(width - column);
        for row in (0..b.k).step_by(TILE.0) {
            let k = TILE.0.min(b.k - row);
            b.tile(row..row + k, start + column..start + column + n, &mut tile);
            let strides = if b.transposed { (1, k) } else { (n, 1) };
            let left = ArrayView2::from_shape((m, k).strides((b.k, 1)), &a[row..]);
            let right = ArrayView2::from_shape((k, n).strides(strides), &tile);
            let sum = ArrayViewMut2::from_shape((m, n).strides((width, 1)), &mut out[column..]);
            if let (Ok(left), Ok(right), Ok(mut sum)) = (left, right, sum) {
                general_mat_mul(1.0, &left, &right, 1.0, &mut sum);
            }
        }
    }
}

impl Matrix<'_> {
    /// Widens a tile in the order of storage.
    fn tile(&self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>, out: &mut [f32]) {
        let (outer, inner, stride) = match self.transposed {
            true => (columns, rows, self.k),
            false => (rows, columns, self.n),
        };
        for (line, to) in outer.zip(out.chunks_mut(inner.len())) {
            self.all.widen(self.first + line * stride + inner.start, to);
        }
    }
}

/// Columns from `start` on, of a few rows.
fn stream(a: &[f32], m: usize, b: &Matrix<'_>, start: usize, out: &mut [f32]) {
    let width = out.len() / m;
    if b.transposed {
        let mut line = vec![0.0; b.k];
        for column in 0..width {
            let first = b.first + (start + column) * b.k;
            b.all.widen(first, &mut line);
            for row in 0..m {
                out[row * width + column] = inner(&a[row * b.k..(row + 1) * b.k], &line);
            }
        }
        return;
    }
    let mut lines = vec![0.0; 4 * width];
    for k in (0..b.k).step_by(4) {
        let count = 4.min(b.k - k);
        for (i, line) in lines.chunks_mut(width).take(count).enumerate() {
            b.all.widen(b.first + (k + i) * b.n + start, line);
        }
        for row in 0..m {
            let by = |i: usize| if i < count { a[row * b.k + k + i] } else { 0.0 };
            let own = &mut out[row * width..(row + 1) * width];
            if count < 4 {
                for i in 0..count {
                    let line = &lines[i * width..(i + 1) * width];
                    own.iter_mut().zip(line).for_each(|(sum, w)| *sum += by(i) * w);
                }
                continue;
            }
            let (x, [p, q, r, s]) = (own, [by(0), by(1), by(2), by(3)]);
            let (first, rest) = lines.split_at(width);
            let (second, rest) = rest.split_at(width);
            let (third, fourth) = rest.split_at(width);
            let pairs = first.iter().zip(second).zip(third.iter().zip(fourth));
            for (sum, ((a, b), (c, d))) in x.iter_mut().zip(pairs) {
                *sum += (p * a + q * b) + (r * c + s * d);
            }
        }
    }
}

/// The inner product of two rows, in eight sums.
pub fn inner(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    let ((left, a), (right, b)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (x, y) in left.iter().zip(right) {
        for ((sum, x), y) in sums.iter_mut().zip(x).zip(y) {
            *sum += x * y;
        }
    }
    let rest: f32 = a.iter().zip(b).map(|(x, y)| x * y).sum();
    let [p, q, r, s, t, u, v, w] = sums;
    ((p + t) + (q + u)) + ((r + v) + (s + w)) + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number;
    use shardc_ir::dtype::DType;

    #[test]
    fn products_are_sums_of_products() {
        let number = |i: usize| ((i * 37 + 11) % 19) as f32 - 9.0;
        for (m, k, n) in [(1, 5, 7), (3, 300, 1030), (4, 257, 40), (70, 9, 300)] {
            let a: Vec<f32> = (0..m * k).map(number).collect();
            for transposed in [false, true] {
                for dtype in [DType::F32, DType::Bf16] {
                    let b: Vec<f32> = (0..k * n).map(number).collect();
                    let mut bytes = vec![0; number::bytes_of(dtype, k * n)];
                    number::narrow(dtype, &b, &mut bytes);
                    let all = Elements { dtype, bytes: &bytes, scales: None };
                    let matrix = Matrix { all, first: 0, k, n, transposed };
                    let got = multiply(&a, m, &matrix);
                    let at = |k_: usize, n_: usize| {
                        if transposed { b[n_ * k + k_] } else { b[k_ * n + n_] }
                    };
                    let sum =
                        |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * at(l, j)).sum::<f32>();
                    let wanted = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
                    for ((i, j), got) in wanted.zip(&got) {
                        assert_eq!(*got, sum(i, j), "{m} {k} {n} {transposed} {dtype} at {i} {j}");
                    }
                }
            }
        }
    }
}
