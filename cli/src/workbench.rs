//! The pass workbench: what `shardc opt` and `shardc passes` do, on texts instead of files.

mod opt;
mod reference;

pub use opt::{Done, OptFlags, Stopped, optimise};
pub use reference::{detail, json, page, row, table};

/// Error codes of the workbench.
pub mod codes {
    shardc_ir::codes! {
        /// A value for a symbol cannot be used.
        SETTING = "U201", User, "`--set` takes values in the ranges of symbols that the program declares";
        /// The command of a test case cannot be read.
        CASE = "U202", User, "a command written in a program is not one that `shardc opt` takes";
    }
}
