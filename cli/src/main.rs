//! The `shardc` binary.

fn main() {}
