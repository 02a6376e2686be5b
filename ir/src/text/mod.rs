//! The text form of modules: one grammar for all levels, documented in `docs/ir.md`.
//!
//! `print(parse(x))` is a fixed point, and `parse(print(m))` is `m` for every module whose names are
//! unique, whose layouts lie in its mesh, and whose header names neither axes nor symbols.
//!
//! ```
//! let source = "func @f(%x: tensor<4 x bf16>) { %y = neg %x return %y }";
//! let parsed = shardc_ir::text::parse(source);
//! assert!(parsed.diagnostics.is_empty());
//! assert!(shardc_ir::text::print(&parsed.module).contains("%y = neg %x : tensor<4 x bf16>"));
//! ```

pub mod codes;
mod lexer;
mod parse;
mod print;
mod show;
mod spans;

pub use parse::{MAX_SOURCE, Parsed, parse};
pub use print::{Listing, listing, print};
pub use show::{show_name, show_type};
pub use spans::{FuncSpans, Spans};

#[cfg(test)]
pub(crate) mod tests;
