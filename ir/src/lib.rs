//! The IR of `shardc`: types, meshes, sharding algebra, operators, text and verifier.
//!
//! This crate does no search and no I/O and knows nothing of LLVM. See `ARCHITECTURE.md`.

pub mod algebra;
pub mod attr;
pub mod builder;
pub mod certificate;
pub mod diag;
pub mod dim;
pub mod dtype;
pub mod entity;
pub mod flow;
pub mod graph;
mod json;
pub mod launch;
pub mod layers;
pub mod layout;
pub mod mesh;
mod names;
pub mod nearest;
pub mod ops;
pub mod rewrite;
pub mod rule;
pub mod text;
pub mod types;
pub mod verify;
pub mod weights;
