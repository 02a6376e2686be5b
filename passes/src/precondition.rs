//! What passes may rely on, checked.

use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::{Level, Module};
use shardc_ir::mesh::Mesh;

/// The mesh of a module.
///
/// # Errors
/// `S101` without one.
pub fn mesh(module: &Module, pass: &str) -> Result<Mesh> {
    module.mesh.clone().ok_or_else(|| {
        let message = format!("`{pass}` needs a mesh, and the module has none");
        let help = "add a line such as `mesh @m = <[\"gpu\"=8]>`";
        Box::new(Diagnostic::error(codes::PRECONDITION, message).help(help))
    })
}

/// Checks the level of a module.
///
/// # Errors
/// `S101` at another level.
pub fn level(module: &Module, pass: &str, level: Level) -> Result<()> {
    if module.level == level {
        return Ok(());
    }
    let message =
        format!("`{pass}` works at {level} level, and the module is at {} level", module.level);
    let before = match level {
        Level::Logical => "it must run before layouts are decided",
        Level::Sharded => "run `propagate-shardings,insert-reshards` before it",
        Level::Collective => "run `reshard-to-collectives` before it",
        Level::Local => "run `localize` before it",
    };
    Err(Box::new(Diagnostic::error(codes::PRECONDITION, message).help(before)))
}

/// Checks that every value has a decided layout.
///
/// # Errors
/// `S101` naming the first value without.
pub fn all_decided(module: &Module, pass: &str) -> Result<()> {
    for func in module.funcs.values() {
        let open =
            |v: &&shardc_ir::graph::ValueData| !v.sharding.as_ref().is_some_and(|s| s.is_decided());
        if let Some(value) = func.values.values().find(open) {
            let message = format!("`{pass}` needs a layout for %{} in @{}", value.name, func.name);
            let help = "run `propagate-shardings` before it";
            return Err(Box::new(Diagnostic::error(codes::PRECONDITION, message).help(help)));
        }
    }
    Ok(())
}
