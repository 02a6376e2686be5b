//! Which part of a global tensor a tensor is.

use crate::tensor::Tensor;
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;
use std::ops::Range;

/// A box of a global tensor: the true extents of one device, without padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Extents of the global tensor.
    pub whole: Vec<usize>,
    /// The indices of each dimension that are here.
    pub ranges: Vec<Range<usize>>,
}

/// A tensor with its place.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The elements that are here.
    pub tensor: &'a Tensor,
    /// Which elements they are.
    pub place: &'a Place,
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

    /// Whether all of dimension `dim` is here.
    pub fn is_whole(&self, dim: usize) -> bool {
        self.ranges[dim] == (0..self.whole[dim])
    }

    /// The indices that both places hold.
    pub fn overlap(&self, other: &Place) -> Vec<Range<usize>> {
        let pairs = self.ranges.iter().zip(&other.ranges);
        pairs
            .map(|(a, b)| a.start.max(b.start)..a.end.min(b.end).max(a.start.max(b.start)))
            .collect()
    }

    /// `ranges` of the global tensor counted from where the part begins.
    pub fn relative(&self, ranges: &[Range<usize>]) -> Vec<Range<usize>> {
        let pairs = ranges.iter().zip(&self.ranges);
        pairs.map(|(r, own)| r.start - own.start..r.end - own.start).collect()
    }
}

impl<'a> Part<'a> {
    /// Extents of the part.
    pub fn shape(&self) -> &'a [usize] {
        self.tensor.shape()
    }

    /// Checks that dimensions are here whole: the operator reads across them.
    pub(crate) fn need_whole(
        &self,
        what: &str,
        dims: impl IntoIterator<Item = usize>,
    ) -> Result<(), String> {
        match dims.into_iter().find(|&d| !self.place.is_whole(d)) {
            None => Ok(()),
            Some(d) => Err(format!(
                "dimension {d} of {what} must be whole, and {:?} of {} is here",
                self.place.ranges[d], self.place.whole[d]
            )),
        }
    }

    /// Checks that dimension `dim` holds the same indices as dimension `theirs` of `other`.
    pub(crate) fn need_same(
        &self,
        dim: usize,
        other: &Part<'_>,
        theirs: usize,
    ) -> Result<(), String> {
        let (a, b) = (&self.place.ranges[dim], &other.place.ranges[theirs]);
        if a == b {
            return Ok(());
        }
        Err(format!("indices {a:?} of one operand meet indices {b:?} of another"))
    }
}
