//! Model descriptions to logical IR.
//!
//! [`config::read`] turns the text of a Hugging Face `config.json` into a
//! [`ModelSpec`](spec::ModelSpec) in which every choice is made; [`index::check`] compares a
//! checkpoint's index with it. Nothing here touches files.

pub mod codes;
pub mod config;
pub mod graph;
pub mod index;
pub mod json;
mod similar;
pub mod spec;
