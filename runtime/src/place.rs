//! Which part of a global tensor a rank holds.

use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;
use std::ops::Range;

/// A box of a global tensor: the true extents of one rank, without padding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Extents of the global tensor.
    pub whole: Vec<usize>,
    /// The indices of each dimension that are here.
    pub ranges: Vec<Range<usize>>,
}

/// The number of elements of a shape, saturating.
pub fn volume(shape: &[usize]) -> usize {
    shape.iter().fold(1, |n, &d| n.saturating_mul(d))
}

/// Distance in row-major order between neighbours along each dimension.
pub fn strides(shape: &[usize]) -> Vec<usize> {
    let mut out = vec![1usize; shape.len()];
    for d in (1..shape.len()).rev() {
        out[d - 1] = out[d].saturating_mul(shape[d]);
    }
    out
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

impl Place {
    /// All of a tensor.
    pub fn all(whole: &[usize]) -> Self {
        Place { whole: whole.to_vec(), ranges: whole.iter().map(|&n| 0..n).collect() }
    }

    /// What `device` holds under a layout.
    pub fn on(device: u64, layout: &Layout, mesh: &Mesh, whole: &[usize]) -> Self {
        let dims: Vec<u64> = whole.iter().map(|&n| n as u64).collect();
        let ranges = layout.index_ranges(mesh, &dims, device).into_iter();
        let ranges = ranges.map(|r| r.start as usize..r.end as usize).collect();
        Place { whole: whole.to_vec(), ranges }
    }

    /// Extents of the part.
    pub fn shape(&self) -> Vec<usize> {
        self.ranges.iter().map(Range::len).collect()
    }

    /// Elements of the part.
    pub fn volume(&self) -> usize {
        volume(&self.shape())
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.whole.len()
    }

    /// The same place without the first dimension.
    pub fn inner(&self) -> Self {
        Place { whole: self.whole[1..].to_vec(), ranges: self.ranges[1..].to_vec() }
    }

    /// Whether all of dimension `dim` is here.
    pub fn is_whole(&self, dim: usize) -> bool {
        self.ranges[dim] == (0..self.whole[dim])
    }

    /// The indices that both places hold.
    pub fn overlap(&self, other: &Place) -> Vec<Range<usize>> {
        let pairs = self.ranges.iter().zip(&other.ranges);
        pairs
            .map(|(a, b)| {
                let start = a.start.max(b.start);
                start..a.end.min(b.end).max(start)
            })
            .collect()
    }

    /// Whether every index of `other` is here.
    pub fn holds(&self, other: &Place) -> bool {
        other.volume() == 0
            || self
                .ranges
                .iter()
                .zip(&other.ranges)
                .all(|(a, b)| a.start <= b.start && b.end <= a.end)
    }

    /// `ranges` of the global tensor counted from where the part begins.
    pub fn relative(&self, ranges: &[Range<usize>]) -> Vec<Range<usize>> {
        let pairs = ranges.iter().zip(&self.ranges);
        pairs.map(|(r, own)| r.start - own.start..r.end - own.start).collect()
    }
}

/// Calls `f(first, count)` for every run of neighbours of a box in a row-major tensor of `shape`.
pub fn for_each_run(shape: &[usize], ranges: &[Range<usize>], mut f: impl FnMut(usize, usize)) {
    if ranges.iter().any(Range::is_empty) {
        return;
    }
    let steps = strides(shape);
    let whole = |d: usize| ranges[d] == (0..shape[d]);
    // Dimensions from `inner` on are read in one run.
    let mut inner = shape.len();
    while inner > 0 && (inner == shape.len() || whole(inner)) {
        inner -= 1;
    }
    let run: usize = ranges[inner.min(shape.len())..].iter().map(Range::len).product();
    let outer: Vec<usize> = ranges[..inner].iter().map(Range::len).collect();
    let base: usize = ranges.iter().zip(&steps).map(|(r, s)| r.start * s).sum();
    for_each_index(&outer, |index| {
        let at: usize = index.iter().zip(&steps).map(|(i, s)| i * s).sum();
        f(base + at, run);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(shape: &[usize], ranges: &[Range<usize>]) -> Vec<(usize, usize)> {
        let mut out = Vec::new();
        for_each_run(shape, ranges, |first, count| out.push((first, count)));
        out
    }

    #[test]
    fn boxes_are_runs_of_neighbours() {
        assert_eq!(runs(&[2, 3, 4], &[0..2, 0..3, 0..4]), [(0, 24)]);
        assert_eq!(runs(&[2, 3, 4], &[1..2, 0..2, 1..3]), [(13, 2), (17, 2)]);
        assert_eq!(runs(&[2, 3, 4], &[0..2, 1..3, 0..4]), [(4, 8), (16, 8)]);
        assert_eq!(runs(&[2, 3], &[0..0, 0..3]), []);
        assert_eq!(runs(&[], &[]), [(0, 1)]);
    }
}
