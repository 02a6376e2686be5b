//! What an operator reads and what it makes, on one rank.

use crate::number;
use crate::place::{Place, for_each_index, volume};
use crate::stored::{Elements, Scales};
use shardc_ir::dtype::DType;
use std::borrow::Cow;

/// The rows that exist of a value of routed rows `[experts, b, s, …]`, in the order in which they are
/// stored: by expert, then request, then token, each counted from the first that is here.
pub type Rows = Vec<[u32; 3]>;

/// The dimensions of routed rows that [`Rows`] stand for.
pub const ROUTED: usize = 3;

/// An operand: a part of a value, as it is stored.
#[derive(Clone, Debug)]
pub struct Operand<'a> {
    /// Which part it is.
    pub place: &'a Place,
    /// Format of the elements.
    pub dtype: DType,
    /// The elements, row-major, without padding; of routed rows only those that exist.
    pub bytes: Cow<'a, [u8]>,
    /// What they are multiplied by.
    pub scales: Option<Scales<'a>>,
    /// The rows that exist, of routed rows.
    pub rows: Option<&'a Rows>,
}

/// Elements of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Real numbers.
    Real(Vec<f32>),
    /// Indices.
    Whole(Vec<i64>),
}

/// A result: its elements, and those of what else a pending reduction needs to know.
///
/// Of an unfinished arg-max the components are (value, index), of unfinished attention (accumulator,
/// largest score, sum of exponentials relative to it), the last two without the width of a head.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The components.
    pub parts: Vec<Numbers>,
    /// The rows that exist, of routed rows.
    pub rows: Option<Rows>,
}

impl From<Vec<f32>> for Output {
    fn from(numbers: Vec<f32>) -> Self {
        Output { parts: vec![Numbers::Real(numbers)], rows: None }
    }
}

impl From<Vec<i64>> for Output {
    fn from(numbers: Vec<i64>) -> Self {
        Output { parts: vec![Numbers::Whole(numbers)], rows: None }
    }
}

impl Output {
    /// The same with rows.
    pub fn with_rows(self, rows: Option<Rows>) -> Self {
        Output { rows, ..self }
    }
}

impl Operand<'_> {
    /// Extents of the part, those of absent rows included.
    pub fn shape(&self) -> Vec<usize> {
        self.place.shape()
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.place.rank()
    }

    /// Elements that are stored.
    pub fn count(&self) -> usize {
        match self.rows {
            Some(rows) => rows.len() * volume(&self.shape()[ROUTED..]),
            None => self.place.volume(),
        }
    }

    /// The elements, as they are stored.
    pub fn elements(&self) -> Elements<'_> {
        Elements { dtype: self.dtype, bytes: &self.bytes, scales: self.scales }
    }

    /// The elements.
    pub fn floats(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.count()];
        self.read(0, &mut out);
        out
    }

    /// Elements from `first` on.
    pub fn read(&self, first: usize, out: &mut [f32]) {
        self.elements().widen(first, out);
    }

    /// The elements as whole numbers.
    pub fn integers(&self) -> Vec<i64> {
        number::integers(self.dtype, &self.bytes, self.count())
    }

    /// Calls `f` with the index of every stored row of the last dimension, in storage order.
    pub fn for_each_row(&self, mut f: impl FnMut(&[usize])) {
        let shape = self.shape();
        let outer = shape.len().saturating_sub(1);
        let Some(rows) = self.rows else { return for_each_index(&shape[..outer], f) };
        let mut index = vec![0; outer];
        for row in rows {
            index.iter_mut().zip(row).for_each(|(i, &n)| *i = n as usize);
            for_each_index(&shape[ROUTED..outer], |inner| {
                index[ROUTED..].copy_from_slice(inner);
                f(&index);
            });
        }
    }

    /// The extent of the last dimension; 1 where there is none.
    pub fn width(&self) -> usize {
        self.shape().last().copied().unwrap_or(1)
    }

    /// Checks that dimensions are here whole: the operator reads across them.
    pub fn need_whole(
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
    pub fn need_same(&self, dim: usize, other: &Operand<'_>, theirs: usize) -> Result<(), String> {
        let (a, b) = (&self.place.ranges[dim], &other.place.ranges[theirs]);
        if a == b {
            return Ok(());
        }
        Err(format!("indices {a:?} of one operand meet indices {b:?} of another"))
    }
}

/// The larger number; not a number where one is none.
pub fn larger(a: f32, b: f32) -> f32 {
    if a.is_nan() || a > b { a } else { b }
}
