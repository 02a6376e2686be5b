//! Elements that do not lie one after another: views of a part of a buffer.

use crate::place::{for_each_index, strides};

/// Where the elements of a view lie, in elements from the beginning of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strided {
    first: usize,
    /// Extent and distance between neighbours of each dimension.
    dims: Vec<(usize, usize)>,
}

impl Strided {
    /// All of a row-major tensor.
    pub fn whole(shape: &[usize]) -> Self {
        Strided { first: 0, dims: shape.iter().copied().zip(strides(shape)).collect() }
    }

    /// Elements `lo..lo + extent` of a dimension; `None` where there are not so many.
    pub fn slice(&mut self, dim: usize, lo: usize, extent: usize) -> Option<()> {
        let (own, stride) = self.dims.get_mut(dim)?;
        if lo.checked_add(extent)? > *own {
            return None;
        }
        *own = extent;
        self.first += lo * *stride;
        Some(())
    }

    /// The same elements under other extents; `None` where no strides say that.
    pub fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        let count = |extents: &mut dyn Iterator<Item = usize>| extents.product::<usize>();
        let all = count(&mut shape.iter().copied());
        if all != count(&mut self.dims.iter().map(|d| d.0)) {
            return None;
        }
        if all == 0 {
            return Some(Strided {
                first: self.first,
                dims: shape.iter().map(|&n| (n, 0)).collect(),
            });
        }
        // Runs of elements with one distance, innermost first: as long as they can be.
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for &(extent, stride) in self.dims.iter().rev().filter(|d| d.0 > 1) {
            match runs.last_mut() {
                Some((long, step)) if *step * *long == stride => *long *= extent,
                _ => runs.push((extent, stride)),
            }
        }
        let mut runs = runs.into_iter();
        let (mut left, mut step) = (1, 1);
        let mut dims = Vec::with_capacity(shape.len());
        for &extent in shape.iter().rev() {
            if extent == 1 {
                dims.push((1, 0));
                continue;
            }
            if left == 1 {
                (left, step) = runs.next()?;
            }
            if left % extent != 0 {
                return None;
            }
            dims.push((extent, step));
            (left, step) = (left / extent, step * extent);
        }
        dims.reverse();
        Some(Strided { first: self.first, dims })
    }

    /// One past the last element.
    pub fn end(&self) -> usize {
        if self.dims.iter().any(|d| d.0 == 0) {
            return 0;
        }
        self.first + self.dims.iter().map(|(n, stride)| (n - 1) * stride).sum::<usize>() + 1
    }

    /// Calls `f(first, count)` for every run of neighbours, in the order of the elements.
    pub fn for_each_run(&self, mut f: impl FnMut(usize, usize)) {
        let (outer, run) = match self.dims.split_last() {
            Some((&(extent, 1), outer)) => (outer, extent),
            _ => (&self.dims[..], 1),
        };
        let extents: Vec<usize> = outer.iter().map(|d| d.0).collect();
        for_each_index(&extents, |index| {
            let at: usize = index.iter().zip(outer).map(|(i, d)| i * d.1).sum();
            f(self.first + at, run);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(strided: &Strided) -> Vec<usize> {
        let mut out = Vec::new();
        strided.for_each_run(|first, count| out.extend(first..first + count));
        out
    }

    #[test]
    fn slices_and_reshapes_compose() {
        let mut view = Strided::whole(&[2, 3, 4]);
        view.slice(2, 2, 2).unwrap();
        assert_eq!(elements(&view), [2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23]);
        assert_eq!(view.end(), 24);
        let merged = view.reshaped(&[6, 2]).unwrap();
        assert_eq!(elements(&merged), elements(&view));
        assert_eq!(elements(&view.reshaped(&[3, 1, 2, 2, 1]).unwrap()), elements(&view));
        assert_eq!(view.reshaped(&[12]), None);
        assert_eq!(view.reshaped(&[5, 2]), None);
        let mut rows = Strided::whole(&[4, 6]);
        rows.slice(0, 1, 2).unwrap();
        assert_eq!(elements(&rows.reshaped(&[3, 4]).unwrap()), (6..18).collect::<Vec<_>>());
        assert_eq!(rows.slice(1, 5, 2), None);
        let mut none = Strided::whole(&[2, 3]);
        none.slice(0, 2, 0).unwrap();
        assert_eq!((elements(&none).len(), none.end()), (0, 0));
        assert!(none.reshaped(&[0]).is_some());
    }
}
