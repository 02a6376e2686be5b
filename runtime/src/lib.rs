//! Loads what a plan runs on.
//!
//! [`weights`] reads the weights of a checkpoint: each parameter of a program, or the part of it that
//! one device holds, and no more of the files than that.

pub mod codes;
pub mod weights;
