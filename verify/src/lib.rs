//! Holds the programs of a plan against the model, run at reduced sizes.
//!
//! A plan's programs are those that `shardc compile -o` writes: of each phase the model and what it
//! became after each pass. [`verify`] shrinks all of them alike, so that every axis still divides
//! what it divided, gives the model random weights and tokens, and runs every program on a simulated
//! mesh: prompt and decode steps, results and caches. Layers, heads, experts, widths and vocabulary
//! shrink, and mesh axes shrink to their smallest prime.
//!
//! The local programs are not shrunk: they must be what `localize` makes of the programs before
//! them, at full size to the letter, and at reduced sizes that is what runs.

pub mod case;
mod classes;
pub mod codes;
mod describe;
mod forest;
mod layers;
mod pieces;
mod programs;
mod shrink;
mod sizes;
mod ties;
mod weights;

pub use case::{Case, Difference, Sizes};
pub use programs::{Phase, Program, Programs};

pub use weights::rows as vocabulary;

use classes::Classes;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::{Level, Module};
use shardc_ir::mesh::Mesh;
use shardc_passes::pipeline::balanced_stages;
use shardc_passes::registry::{Options, Pass};
use shrink::Reduction;

/// Requests: odd, and on many devices too few for all.
const REQUESTS: usize = 3;
/// Tokens of the prompt's parts: odd, so that shares are uneven.
const PROMPT: [usize; 2] = [7, 3];
/// Tokens after the prompt.
const STEPS: usize = 2;
/// Pipeline stages at most.
const STAGES: usize = 2;

/// A program that computes what the model computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// `prefill` or `decode`.
    pub phase: &'static str,
    /// The pass that made the program.
    pub pass: String,
    /// Instructions at full size.
    pub instructions: usize,
}

/// What was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Every program, in the order of the passes.
    pub programs: Vec<Verified>,
    /// The mesh of a stage, at full size and as simulated.
    pub mesh: (Mesh, Mesh),
    /// Pipeline stages, at full size and as simulated.
    pub stages: (usize, usize),
    /// Layers, at full size and as simulated.
    pub layers: (u64, u64),
    /// Parameters of the model at reduced sizes.
    pub parameters: u64,
    /// What was asked of it.
    pub sizes: Sizes,
}

/// Runs every program of a plan at reduced sizes; `seed` draws weights and tokens.
///
/// # Errors
/// `C001` where the programs do not belong together, `C002` for the first program that computes
/// something else than the model, `C003` where one does not run, `C004` where a local program is not
/// what the program before it lowers to.
pub fn verify(programs: &Programs, seed: u64) -> Result<Report> {
    let stages = programs.stages()?;
    let (global, mesh) = (programs.global(), programs.mesh()?);
    let modules: Vec<&Module> = global.iter().map(|(_, p)| &p.module).collect();
    programs.check_params()?;
    programs.check_local(&stages)?;
    let kept = stages.len().min(STAGES);
    let classes = Classes::of(&modules, kept).map_err(codes::unrelated)?;
    let small_mesh = sizes::smaller_mesh(&mesh, &modules);
    let sizes = sizes::choose(&classes, &modules, &mesh, &small_mesh);
    let reduction = Reduction { classes: &classes, sizes: &sizes, mesh: &small_mesh, stages: kept };
    let small: Vec<Module> =
        modules.iter().enumerate().map(|(m, module)| reduction.apply(m, module)).collect();

    let model = &small[0];
    let [prompt, more] = PROMPT;
    let asked = Sizes { requests: REQUESTS, prompt, more, steps: STEPS };
    let weights = weights::draw(model, seed);
    let parameters = weights.values().map(|t| t.data().len() as u64).sum();
    let vocab = weights::rows(model);
    let id = |request: usize, at: usize| weights::token(seed, request, at, vocab);
    let case = Case::new(model, asked, weights, id).map_err(|d| broken("the model", &d))?;

    let layers = (layer_count(modules[0]), layer_count(model));
    let stage_layers = balanced_stages(layers.1, kept as u64);
    let mut verified = Vec::new();
    for ((phase, program), small) in global.iter().zip(&small) {
        check(&case, *phase, &program.pass, small)?;
        verified.push(program.verified(*phase));
    }
    for phase in Phase::ALL {
        let Some(local) = programs.local(phase) else { continue };
        let before = global.iter().zip(&small).rfind(|((p, _), _)| *p == phase);
        let Some((_, before)) = before else { continue };
        let small = localized(before, &case, phase, &stage_layers)?;
        check(&case, phase, &local.pass, &small)?;
        verified.push(local.verified(phase));
    }
    Ok(Report {
        programs: verified,
        mesh: (mesh, small_mesh),
        stages: (stages.len(), kept),
        layers,
        parameters,
        sizes: asked,
    })
}

fn layer_count(module: &Module) -> u64 {
    let insts = module.funcs.values().flat_map(|f| f.insts.values());
    let repeats = insts.filter_map(|inst| match &inst.op {
        shardc_ir::ops::Op::Repeat(repeat) => Some(repeat.count()),
        _ => None,
    });
    repeats.sum()
}

/// What `localize` makes of a program.
fn localized(before: &Module, case: &Case, phase: Phase, stage_layers: &[u64]) -> Result<Module> {
    let new = if phase == Phase::Prefill { case.sizes.prompt } else { 1 };
    let sizes = case.symbols(new).map(|(name, n)| (name.to_string(), n));
    let options = Options {
        sizes: sizes.into_iter().collect(),
        stage_layers: stage_layers.to_vec(),
        ..Options::default()
    };
    let mut module = before.clone();
    let pass = Pass::find("localize")?;
    pass.apply(&mut module, &options).map_err(|d| broken("localize", &d))?;
    Ok(module)
}

/// Runs one program.
fn check(case: &Case, phase: Phase, pass: &str, module: &Module) -> Result<()> {
    let place = format!("{} after {pass}", phase.name());
    let difference = match phase {
        Phase::Decode => case.check_decode(module),
        Phase::Prefill => case.check_prefill(module),
    };
    match difference.map_err(|d| broken(&place, &d))? {
        None => Ok(()),
        Some(difference) => Err(describe::difference(&place, &difference, module)),
    }
}

fn broken(place: &str, cause: &Diagnostic) -> Box<Diagnostic> {
    let message = format!("{place}: {}", cause.message);
    let mut problem = Diagnostic::error(codes::BREAKS, message).note(cause.code.id);
    problem.notes.extend(cause.notes.iter().cloned());
    Box::new(problem)
}

/// Whether a program is above local level.
pub(crate) fn is_global(module: &Module) -> bool {
    module.level < Level::Local
}
