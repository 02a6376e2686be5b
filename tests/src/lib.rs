//! Data-driven tests of the whole compiler.
