//! Loads what a plan runs on.
//!
//! [`weights`] reads the weights of a checkpoint: each parameter of a program, or the part of it that
//! one device holds, and no more of the files than that. [`kernels`] compute what operators mean, on
//! stored numbers of one rank.

mod beside;
pub mod codes;
pub mod comm;
pub mod exec;
pub mod front;
pub mod kernels;
pub mod memory_of;
pub mod number;
pub mod place;
pub mod plan;
pub mod sampling;
pub mod session;
pub mod stored;
pub mod weights;
