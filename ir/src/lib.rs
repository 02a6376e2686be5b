//! The IR of `shardc`: types, meshes, sharding algebra, operators, text and verifier.
//!
//! This crate does no search and no I/O and knows nothing of LLVM. See `ARCHITECTURE.md`.

pub mod diag;
pub mod layout;
pub mod mesh;
