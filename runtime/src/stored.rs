//! Stored elements: numbers of a format, times the scale of their block where there are scales.

use crate::number;
use crate::place::volume;
use shardc_ir::dtype::{BlockScale, DType};

/// The blocks of a stack of matrices, row-major, matrix by matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Rows and columns of a matrix.
    matrix: (usize, usize),
    /// Rows and columns of a block.
    block: (usize, usize),
}

impl Grid {
    /// The blocks of a tensor of `shape`.
    pub fn of(blocks: &BlockScale, shape: &[usize]) -> Self {
        let split = usize::from(blocks.split).min(shape.len());
        let batch = usize::from(blocks.batch).min(split);
        let matrix = (volume(&shape[batch..split]), volume(&shape[split..]));
        let side = |block: u32, all: usize| if block == 0 { all } else { block as usize }.max(1);
        Grid { matrix, block: (side(blocks.rows, matrix.0), side(blocks.cols, matrix.1)) }
    }

    /// Rows and columns of a block.
    pub fn block(&self) -> (usize, usize) {
        self.block
    }

    /// Elements of a matrix.
    pub fn elements(&self) -> usize {
        self.matrix.0.saturating_mul(self.matrix.1)
    }

    /// Blocks of a matrix.
    pub fn blocks(&self) -> usize {
        self.matrix.0.div_ceil(self.block.0) * self.matrix.1.div_ceil(self.block.1)
    }

    /// The block of an element, and how many elements from it on are its neighbours in a row there.
    fn run(&self, element: usize) -> (usize, usize) {
        let (all, columns) = (self.elements().max(1), self.matrix.1.max(1));
        let (number, inside) = (element / all, element % all);
        let (row, column) = (inside / columns, inside % columns);
        let across = columns.div_ceil(self.block.1);
        let block = number * self.blocks() + row / self.block.0 * across + column / self.block.1;
        let past = (column / self.block.1 + 1) * self.block.1;
        (block, past.min(columns) - column)
    }

    /// Calls `f(block, elements)` for every run of a block's elements among `numbers`, which begin at
    /// element `first`.
    pub fn for_each_run(
        &self,
        first: usize,
        numbers: &mut [f32],
        mut f: impl FnMut(usize, &mut [f32]),
    ) {
        let (mut at, mut rest) = (first, numbers);
        while !rest.is_empty() {
            let (block, run) = self.run(at);
            let (own, more) = rest.split_at_mut(run.min(rest.len()));
            at += own.len();
            f(block, own);
            rest = more;
        }
    }
}

/// The scales of a tensor, one for each block.
#[derive(Clone, Copy, Debug)]
pub struct Scales<'a> {
    /// The blocks.
    pub grid: Grid,
    /// Format of a scale.
    pub dtype: DType,
    /// The scales, in the order of the blocks.
    pub bytes: &'a [u8],
}

/// Elements of a tensor as they are stored.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    /// Format of the elements.
    pub dtype: DType,
    /// The elements, row-major.
    pub bytes: &'a [u8],
    /// What they are multiplied by.
    pub scales: Option<Scales<'a>>,
}

impl Elements<'_> {
    /// Elements from `first` on, as many as `out` has.
    pub fn widen(&self, first: usize, out: &mut [f32]) {
        number::widen(self.dtype, self.bytes, first, out);
        let Some(Scales { grid, dtype, bytes }) = self.scales else { return };
        grid.for_each_run(first, out, |block, numbers| {
            let mut scale = [0.0];
            number::widen(dtype, bytes, block, &mut scale);
            numbers.iter_mut().for_each(|x| *x *= scale[0]);
        });
    }
}

/// Divides numbers by the scales of their blocks, and returns them with the scales: those given, or
/// else what makes the largest number of each block the largest of the format.
pub fn scale(
    grid: &Grid,
    (dtype, scale): (DType, DType),
    given: Option<Vec<f32>>,
    numbers: &mut [f32],
) -> Vec<u8> {
    let matrices = numbers.len().div_ceil(grid.elements().max(1));
    let count = matrices * grid.blocks();
    let mut scales = given.unwrap_or_else(|| {
        let mut most = vec![0.0f32; count];
        grid.for_each_run(0, numbers, |block, own| {
            most[block] = own.iter().fold(most[block], |m, x| m.max(x.abs()));
        });
        most.iter().map(|m| m / number::largest(dtype)).collect()
    });
    let mut bytes = vec![0; number::bytes_of(scale, count)];
    number::narrow(scale, &scales, &mut bytes);
    number::widen(scale, &bytes, 0, &mut scales);
    grid.for_each_run(0, numbers, |block, own| {
        let by = scales[block];
        own.iter_mut().for_each(|x| *x = if by == 0.0 { 0.0 } else { *x / by });
    });
    if !dtype.is_float() {
        numbers.iter_mut().for_each(|x| *x = x.round_ties_even());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: BlockScale = BlockScale {
        rows: 2,
        cols: 4,
        batch: 1,
        split: 2,
        scale: DType::F32,
        zero: None,
        singles: 0,
    };

    #[test]
    fn runs_stay_in_their_blocks() {
        // Two matrices of 3 × 6: two by two blocks each, the last ones short.
        let grid = Grid::of(&BLOCKS, &[2, 3, 6]);
        assert_eq!((grid.elements(), grid.blocks()), (18, 4));
        let mut seen = Vec::new();
        grid.for_each_run(11, &mut [0.0; 12], |block, own| seen.push((block, own.len())));
        assert_eq!(seen, [(1, 1), (2, 4), (3, 2), (4, 4), (5, 1)]);
        let all = Grid::of(&BlockScale { rows: 0, cols: 0, ..BLOCKS }, &[2, 3, 6]);
        assert_eq!((all.block(), all.blocks()), ((3, 6), 1));
    }

    #[test]
    fn scaled_numbers_come_back() {
        let grid = Grid::of(&BLOCKS, &[1, 2, 8]);
        // Codes of E4M3 times a scale per block are stored exactly.
        let codes: Vec<f32> = (0..16).map(|i| [448.0, -3.5, 0.25, 1.0][i % 4]).collect();
        let given = [0.3, 7.0];
        let mut numbers = codes.clone();
        grid.for_each_run(0, &mut numbers, |b, own| own.iter_mut().for_each(|x| *x *= given[b]));
        let wanted = numbers.clone();
        for given in [Some(given.to_vec()), None] {
            let mut scaled = wanted.clone();
            let scales = scale(&grid, (DType::F8E4M3, DType::F32), given, &mut scaled);
            let mut bytes = vec![0; 16];
            number::narrow(DType::F8E4M3, &scaled, &mut bytes);
            let scales = Some(Scales { grid, dtype: DType::F32, bytes: &scales });
            let stored = Elements { dtype: DType::F8E4M3, bytes: &bytes, scales };
            let mut out = vec![0.0; 16];
            stored.widen(0, &mut out);
            assert_eq!(out, wanted);
            stored.widen(5, &mut out[..7]);
            assert_eq!(out[..7], wanted[5..12]);
        }
    }
}
