//! A naive evaluator of programs at every level, and a simulated mesh: the oracle.
//!
//! A program above local level runs on whole tensors ([`run_whole`]): the definition of what it
//! computes. From sharded level on it runs on a simulated mesh ([`run_on_mesh`]): every device holds
//! its own part of every value, in the true extents of its share, and collectives move parts between
//! devices. Both ways should give the same numbers; where they do not, the compiler is wrong.
//!
//! Both are one machine. Running on whole tensors is running on a mesh of one device, where every
//! layout replicates and every collective has one member.
//!
//! Devices that hold copies of a value are compared after every instruction. What nobody may read
//! is not a number: rows that an expert does not hold, and cache rows if the caller fills them so.
//!
//! Nothing here is fast, and no pass depends on it.

pub mod codes;
mod held;
mod number;
mod ops;
mod place;
mod run;
mod tensor;

pub use held::Held;
pub use number::{Precision, largest, round};
pub use place::{Part, Place};
pub use run::{Inputs, Options, Outputs, Trace, first_difference, run_on_mesh, run_whole};
pub use tensor::{Tensor, for_each_index, volume};
