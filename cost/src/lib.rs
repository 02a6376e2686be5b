//! Machines, latency and memory models: pure functions of sizes.
//!
//! Nothing here knows the IR. Whoever walks a program calls these functions with local shapes and
//! adds up what they return.

pub mod codes;
pub mod collective;
mod fitted;
pub mod machine;
pub mod memory;
pub mod ops;
pub mod profile;
pub mod serving;
pub mod simulate;
pub mod source;
pub mod time;
