//! The weights of a checkpoint as the parameters of a program.
//!
//! A checkpoint stores a matrix with outputs before inputs, often several in one tensor; a program has
//! inputs before outputs, split heads, and all layers of a kind in one parameter. A [`Source`] says
//! which tensors fill a parameter, and [`Checkpoint::part`] reads any box of it.

mod checkpoint;
mod part;
pub mod random;
mod scales;

pub use checkpoint::{Checkpoint, Stored};

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Where the elements of one weight parameter come from.
///
/// A parameter of `L` layers is `[L, inputs…, outputs…]`, of experts `[L, E, inputs…, outputs…]`,
/// and outside layers without `L`. Each of `tensors` fills one layer's slice: the outputs that
/// `rows` names of the tensor `[outputs, inputs]`, transposed to `[inputs, outputs]`, read as `dims`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// Name of the parameter.
    pub param: String,
    /// Extents of one layer's slice.
    pub dims: Vec<u64>,
    /// Leading dimensions of the slice, after the experts, that are inputs; 0 where the tensor has
    /// the slice's own order.
    pub inputs: usize,
    /// Tensor of each layer, in order. `{e}` numbers the expert, `{h}` the head where each has a
    /// tensor of its own, heads outermost.
    pub tensors: Vec<String>,
    /// Whether the parameter has a dimension of layers.
    pub stacked: bool,
    /// Routed experts along the slice's first dimension. Where the names hold no `{e}`, one tensor
    /// holds all experts, outermost.
    pub experts: Option<u64>,
    /// Whether the tensor already holds inputs before outputs.
    pub transposed: bool,
    /// The outputs of the tensor that belong to the parameter; all where absent.
    pub rows: Option<Rows>,
}

impl Source {
    /// The ranges of all elements of the parameter.
    pub fn whole(&self) -> Vec<Range<u64>> {
        let layers = self.stacked.then_some(self.tensors.len() as u64);
        layers.into_iter().chain(self.dims.iter().copied()).map(|n| 0..n).collect()
    }
}

/// Outputs of a tensor: `run` neighbours at `first`, `first + stride`, …, `runs` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    /// First output.
    pub first: u64,
    /// Outputs that follow one another.
    pub run: u64,
    /// Distance between the starts of runs.
    pub stride: u64,
    /// Number of runs.
    pub runs: u64,
}

impl Rows {
    /// The output of the tensor that is output `index` of the parameter.
    fn at(&self, index: u64) -> u64 {
        self.first + index / self.run.max(1) * self.stride + index % self.run.max(1)
    }
}
