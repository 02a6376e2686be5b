//! Model descriptions to logical IR.
