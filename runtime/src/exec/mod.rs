//! Executing launch plans on CPU ranks.
//!
//! Every rank resolves the plan for itself ([`table`]), keeps weights, caches and scratch at the
//! planned offsets ([`memory`]), and runs the steps of its routine ([`rank`]) with the operators of
//! [`kernels`](crate::kernels) and the collectives of [`collective`]. Values have their true extents
//! in their buffers, without the padding for which the plan has room.

mod access;
pub mod collective;
pub mod held;
pub mod load;
pub mod memory;
pub mod rank;
mod strided;
pub mod table;
pub mod tail;

pub use access::whole_numbers;
