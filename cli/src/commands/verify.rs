//! `shardc verify`: whether the programs of a plan compute what the model computes.

use super::plan_file::{self, verified};
use crate::failure::Outcome;
use crate::input;
use crate::output;
use serde::Deserialize;
use serde_json::json;
use shardc::codes;
use shardc_ir::diag::Diagnostic;
use shardc_verify::{Phase, Program, Programs, Report, verify};
use std::path::{Path, PathBuf};

/// Runs the programs of a plan against its model, with random weights at reduced sizes.
///
/// Every program that `shardc compile -o` wrote, of both phases and after each pass, runs on a
/// simulated mesh: results and caches of a prompt and of decode steps must be those of the model.
#[derive(Clone, Debug, clap::Args)]
pub struct VerifyArgs {
    /// A directory that `shardc compile -o` wrote
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// Seed of weights and tokens
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What is read of a `plan.json`.
#[derive(Deserialize)]
struct PlanFile {
    files: Vec<String>,
}

/// Runs the command.
///
/// Errors: files that cannot be read, a program that computes something else.
pub fn run(args: &VerifyArgs) -> Outcome {
    let programs = read(&args.path)?;
    let report = verify(&programs, args.seed)?;
    output::print(&match args.json {
        true => format!("{:#}\n", document(&report)),
        false => screen(&report),
    })
}

fn read(directory: &Path) -> Outcome<Programs> {
    if !directory.join("plan.json").is_file() {
        let message = format!("{} is no directory of a plan", directory.display());
        let help = "name a directory that `shardc compile -o` wrote";
        return Err(Box::new(Diagnostic::error(codes::PLAN, message).help(help)).into());
    }
    let file: PlanFile = plan_file::read(directory, "plan.json")?;
    let of = |phase: Phase| -> Outcome<Vec<Program>> {
        let prefix = format!("ir/{}/", phase.name());
        let names = file.files.iter().filter(|name| !name.contains(".."));
        let names = names.filter_map(|name| Some((name, name.strip_prefix(&prefix)?)));
        names.map(|(name, own)| program(&directory.join(name), own)).collect()
    };
    Ok(Programs { prefill: of(Phase::Prefill)?, decode: of(Phase::Decode)? })
}

/// The program of a file such as `03-insert-reshards.sir`.
fn program(path: &Path, name: &str) -> Outcome<Program> {
    let source = input::program(path)?;
    let module = verified(&source)?;
    let stem = name.strip_suffix(".sir").unwrap_or(name);
    let pass = stem.split_once('-').map_or(stem, |(_, pass)| pass);
    Ok(Program { pass: pass.to_string(), module })
}

fn document(report: &Report) -> serde_json::Value {
    let programs = report.programs.iter().map(|p| {
        json!({"phase": p.phase, "pass": p.pass, "instructions": p.instructions, "equal": true})
    });
    json!({
        "programs": programs.collect::<Vec<_>>(),
        "devices": {"plan": report.mesh.0.devices() * report.stages.0 as u64,
                    "simulated": report.mesh.1.devices() * report.stages.1 as u64},
        "layers": {"plan": report.layers.0, "simulated": report.layers.1},
        "parameters": report.parameters,
        "requests": report.sizes.requests,
        "prompt": [report.sizes.prompt, report.sizes.more],
        "decode_steps": report.sizes.steps,
    })
}

fn screen(report: &Report) -> String {
    let (mesh, small) = &report.mesh;
    let devices = |mesh: u64, stages: usize| mesh.saturating_mul(stages as u64);
    let mut out = format!(
        "ran       {} of {} layers, {} parameters, on {} simulated devices for the plan's {}\n",
        report.layers.1,
        report.layers.0,
        report.parameters,
        devices(small.devices(), report.stages.1),
        devices(mesh.devices(), report.stages.0),
    );
    out.push_str(&format!(
        "          {small} for {mesh}; {} of {} pipeline stages\n",
        report.stages.1, report.stages.0
    ));
    out.push_str(&format!(
        "          {} requests, a prompt of {} and {} tokens, {} decode steps; random weights\n",
        report.sizes.requests, report.sizes.prompt, report.sizes.more, report.sizes.steps
    ));
    for phase in Phase::ALL {
        let of = report.programs.iter().filter(|p| p.phase == phase.name());
        let passes: Vec<&str> = of.map(|p| p.pass.as_str()).collect();
        out.push_str(&format!("{:<10}equal after {}\n", phase.name(), passes.join(", ")));
    }
    out
}
