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
pub use shardc_ir::weights::{Rows, Source};
