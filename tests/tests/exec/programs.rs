//! Programs of any level above local: after every pass, on whole tensors and on the mesh, they give
//! what the text says.

use shardc_interp::{Inputs, Options, Outputs, Tensor, run_on_mesh, run_whole};
use shardc_ir::graph::{Func, FuncId, Level, Module};
use shardc_passes::precondition::models;
use shardc_passes::registry::{self, Pass};
use shardc_tests::Outcome;
use shardc_tests::program::Program;
use shardc_tests::random::Random;
use std::path::Path;

/// Passes that may follow a program of a level, in order.
fn passes(module: &Module) -> &'static [&'static str] {
    const LOWER: &[&str] = &[
        "canonicalize",
        "cse",
        "dce",
        "propagate-shardings",
        "insert-reshards",
        "reshard-to-collectives",
        "optimize-collectives",
        "localize",
    ];
    match module.level {
        Level::Logical if module.mesh.is_none() => &LOWER[..3],
        Level::Logical => LOWER,
        Level::Sharded => &LOWER[5..],
        Level::Collective => &LOWER[6..],
        Level::Local => &[],
    }
}

/// What a program gives at its level; from sharded level on the mesh, too.
fn outputs(module: &Module, entry: &str, inputs: &Inputs) -> Result<Vec<Outputs>, String> {
    let options = Options { entry: Some(entry), ..Options::default() };
    let mut out = Vec::new();
    if module.level < Level::Local {
        out.push(run_whole(module, inputs, &options));
    }
    if module.level > Level::Logical {
        out.push(run_on_mesh(module, inputs, &options));
    }
    out.into_iter().collect::<shardc_ir::diag::Result<_>>().map_err(|d| d.to_string())
}

/// Whether both gave the same.
fn same(got: &Outputs, wanted: &Outputs) -> bool {
    let close = |(a, b): (&Tensor, &Tensor)| a.distance(b) < 1e-9;
    let caches = got.caches.values().zip(wanted.caches.values());
    got.results.len() == wanted.results.len()
        && got.caches.len() == wanted.caches.len()
        && got.results.iter().zip(&wanted.results).chain(caches).all(close)
}

/// Holds a module against what the text gives.
fn hold(module: &Module, entry: &str, inputs: &Inputs, wanted: &Outputs) -> Result<(), String> {
    match outputs(module, entry, inputs)?.iter().all(|got| same(got, wanted)) {
        true => Ok(()),
        false => Err("gives something else".to_string()),
    }
}

/// Every function of a file that no `repeat` runs, through all passes if it is the only one.
pub fn program(_path: &Path, source: String) -> Outcome {
    let program = Program::read(&source)?;
    let entries = models(&program.module);
    for &entry in &entries {
        check(&program, entry, entries.len() == 1)?;
    }
    Ok(())
}

fn check(program: &Program, entry: FuncId, lower: bool) -> Result<(), String> {
    let func: &Func = &program.module.funcs[entry];
    let mut random = Random::new(0);
    let bind = program.bind(&mut random);
    let inputs = program.inputs(func, &bind, &mut random)?;
    let given = outputs(&program.module, &func.name, &inputs)?;
    let wanted = given.first().ok_or("a local program says nothing about whole tensors")?;
    hold(&program.module, &func.name, &inputs, wanted)?;
    let mut module = program.module.clone();
    let options =
        registry::Options { stage_layers: program.stages.clone(), ..registry::Options::default() };
    for name in passes(&module).iter().filter(|_| lower) {
        let pass = Pass::named(name).ok_or_else(|| format!("no pass {name}"))?;
        pass.apply(&mut module, &options).map_err(|d| format!("{name}: {d}"))?;
        hold(&module, &func.name, &inputs, wanted).map_err(|e| format!("after {name}: {e}"))?;
    }
    Ok(())
}
