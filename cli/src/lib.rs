//! The `shardc` compile facade: files, clocks, progress and rendering live in this crate and
//! nowhere else.

pub mod codes;
pub mod facade;
pub mod reference;
pub mod render;
pub mod slots;
pub mod workbench;
