//! The independent checker: whether what the compiler emits may be run.
//!
//! It shares nothing with the passes but the types of `ir`, so that a mistake of theirs is not made
//! twice. [`certificate`] replays why local programs compute what the model computes; [`launch`]
//! holds launch plans to their local programs; [`weights`] the maps of weights to the model.

pub mod certificate;
pub mod codes;
mod findings;
pub mod launch;
pub mod weights;
