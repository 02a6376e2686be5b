//! What passes rely on and what they establish, as facts that can be checked.

use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::{FuncId, Level, Module, ValueData};
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use std::fmt;

/// Something that holds of a module between two passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The module is at this level.
    At(Level),
    /// The module has a mesh.
    Mesh,
    /// Every value has a layout that is closed, without priorities.
    Decided,
    /// At most one function runs by itself; the others are layer functions.
    OneModel,
    /// The pass has nothing left to do; the text says what is gone.
    Nothing(&'static str),
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::At(level) => write!(f, "{level} level"),
            Fact::Mesh => f.write_str("a mesh"),
            Fact::Decided => f.write_str("a decided layout for every value"),
            Fact::OneModel => f.write_str("at most one function that no `repeat` runs"),
            Fact::Nothing(what) => write!(f, "no {what}"),
        }
    }
}

impl Fact {
    /// Checks the fact for a pass that needs it; [`Fact::Nothing`] is only ever established.
    ///
    /// # Errors
    /// `S101` with the passes that bring it about.
    pub fn require(self, module: &Module, pass: &str) -> Result<()> {
        match self {
            Fact::At(wanted) => level(module, pass, wanted),
            Fact::Mesh => mesh(module, pass).map(drop),
            Fact::Decided => all_decided(module, pass),
            Fact::OneModel => one_model(module, pass),
            Fact::Nothing(_) => Ok(()),
        }
    }
}

fn lacking(message: String, help: &str) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(codes::PRECONDITION, message).help(help))
}

/// The mesh of a module.
///
/// # Errors
/// `S101` without one.
pub fn mesh(module: &Module, pass: &str) -> Result<Mesh> {
    module.mesh.clone().ok_or_else(|| {
        let message = format!("`{pass}` needs a mesh, and the module has none");
        lacking(message, "add a line such as `mesh @m = <[\"gpu\"=8]>`")
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
        Level::Logical => "it runs before layouts are decided",
        _ if module.level > level => "it runs earlier: begin with a program of that level",
        Level::Sharded => "run `propagate-shardings,insert-reshards` before it",
        Level::Collective => {
            "run `propagate-shardings,insert-reshards,reshard-to-collectives` before it"
        }
        Level::Local => "run `lower`, which ends with `localize`, before it",
    };
    Err(lacking(message, before))
}

/// Checks that every value has a decided layout.
///
/// # Errors
/// `S101` naming the first value without.
fn all_decided(module: &Module, pass: &str) -> Result<()> {
    for func in module.funcs.values() {
        let open = |v: &&ValueData| !v.sharding.as_ref().is_some_and(|s| s.is_decided());
        if let Some(value) = func.values.values().find(open) {
            let message = format!("`{pass}` needs a layout for %{} in @{}", value.name, func.name);
            return Err(lacking(message, "run `propagate-shardings` before it"));
        }
    }
    Ok(())
}

/// Checks that at most one function is the model.
///
/// # Errors
/// `S101` naming two.
fn one_model(module: &Module, pass: &str) -> Result<()> {
    if let [first, second, ..] = models(module)[..] {
        let name = |id: FuncId| &module.funcs[id].name;
        let message = format!(
            "`{pass}` makes the programs of one model, and the module has @{} and @{}",
            name(first),
            name(second)
        );
        return Err(lacking(message, "put each model in a module of its own"));
    }
    Ok(())
}

/// The functions that no `repeat` runs.
pub fn models(module: &Module) -> Vec<FuncId> {
    let mut layers: Vec<&str> = Vec::new();
    for inst in module.funcs.values().flat_map(|f| f.insts.values()) {
        if let Op::Repeat(repeat) = &inst.op {
            layers.extend(repeat.distinct().iter().map(|(name, _)| *name));
        }
    }
    let alone = |id: &FuncId| !layers.contains(&module.funcs[*id].name.as_str());
    module.funcs.keys().filter(alone).collect()
}
