//! Running a program: inputs by name in, results and caches out.

mod bind;
mod collective;
mod machine;
mod spread;
mod stages;
mod trace;

pub use trace::{Trace, first_difference};

use crate::codes;
use crate::number::Precision;
use crate::tensor::Tensor;
use machine::Machine;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::{Level, Module};
use shardc_ir::mesh::Mesh;
use shardc_ir::verify::verify;
use std::collections::BTreeMap;

/// Whole tensors by the names of the model's parameters: token ids, positions, weights, caches.
pub type Inputs = BTreeMap<String, Tensor>;

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The function to run, where not the one that no `repeat` runs; above local level.
    pub entry: Option<&'a str>,
    /// How numbers are kept between operators.
    pub precision: Precision,
    /// Whether to keep every value.
    pub trace: bool,
    /// Whether to run what the verifier refuses, to see what the run alone tells.
    pub unverified: bool,
}

/// What a program gives, as whole tensors.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// The returned values that are no caches, in order.
    pub results: Vec<Tensor>,
    /// The new caches by the names of the parameters they come from.
    pub caches: Inputs,
    /// Every value, if asked for.
    pub trace: Trace,
}

/// Runs a program on whole tensors, whatever its layouts; not at local level.
///
/// # Errors
/// `U201` or `U202` where the inputs or the program do not fit, `X301` where an operator fails.
pub fn run_whole(module: &Module, inputs: &Inputs, options: &Options<'_>) -> Result<Outputs> {
    if module.level == Level::Local {
        return Err(refused("a local program has no whole tensors; run it on its mesh"));
    }
    let one_device = Mesh { name: "one".to_string(), axes: Vec::new() };
    run(module, one_device, inputs, options)
}

/// Runs a program with decided layouts on the devices of its mesh, all pipeline stages together.
///
/// # Errors
/// `U201` or `U202` where the inputs or the program do not fit, `X301` where an operator reads what
/// its device does not hold, `X302` where copies differ.
pub fn run_on_mesh(module: &Module, inputs: &Inputs, options: &Options<'_>) -> Result<Outputs> {
    match &module.mesh {
        Some(mesh) if module.level >= Level::Sharded => run(module, mesh.clone(), inputs, options),
        _ => Err(refused("a program without decided layouts cannot run on a mesh")),
    }
}

fn run(module: &Module, mesh: Mesh, inputs: &Inputs, options: &Options<'_>) -> Result<Outputs> {
    let refused = if options.unverified { None } else { verify(module).err() };
    if let Some(first) = refused.and_then(|found| found.into_iter().next()) {
        let message = format!("@{} is not valid: {}", module.name, first.message);
        return Err(Box::new(Diagnostic::error(codes::PROGRAM, message).note(first.code.id)));
    }
    let stages = stages::of(module, options.entry)?;
    let bind = bind::symbols(module, &stages, inputs)?;
    let mut machine = Machine::new(module, mesh, bind, options);
    let mut outputs = stages::run(&mut machine, &stages, inputs)?;
    outputs.trace = machine.trace;
    Ok(outputs)
}

fn refused(message: impl Into<String>) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(codes::PROGRAM, message.into()))
}
