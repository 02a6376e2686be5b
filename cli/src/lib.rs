//! The `shardc` compile facade.
