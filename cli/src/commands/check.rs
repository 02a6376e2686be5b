//! `shardc check`: whether the programs of a plan's directory compute what its model computes, and
//! whether its launch plans may be run.

pub mod certificate;

use super::plan_file::{self, Programs, damaged};
use crate::failure::{Failure, Outcome};
use crate::input;
use crate::output;
use serde::Deserialize;
use serde_json::{Value, json};
use shardc::codes;
use shardc_check::codes::MEMORY;
use shardc_check::launch::{Report, agree, check};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::launch::{LaunchPlan, Promised};
use std::path::{Path, PathBuf};

/// Checks a plan: that its local programs compute what its model computes, and that its launch plans
/// do what the programs say.
///
/// The certificate says of every value of the local programs which part of which value of the model
/// it is, and why; each step is replayed, by code that the compiler does not use.
///
/// Every rank of every stage is followed through one step of each phase. A plan that passes reads
/// nothing that was not written, orders what its streams share, fits the memory that it promises,
/// and has no ranks that wait for each other for ever. The maps of weights fill every parameter of
/// the model, from every output of a tensor once.
#[derive(Clone, Debug, clap::Args)]
pub struct CheckArgs {
    /// A directory that `shardc compile -o` wrote
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What is read of a `plan.json`.
#[derive(Deserialize)]
struct PlanFile {
    files: Vec<String>,
    plan: Figures,
}

#[derive(Deserialize)]
struct Figures {
    memory: Memory,
}

/// Bytes of the fullest rank.
#[derive(Deserialize)]
struct Memory {
    reserve: u64,
    usable: u64,
}

/// Runs the command.
///
/// Errors: files that cannot be read or do not belong together (`K0xx`, `R0xx`, `U132`), everything
/// that is wrong with the plans and the maps of weights (`K1xx`), and what the certificate does not show (`R1xx`).
pub fn run(args: &CheckArgs) -> Outcome {
    if !args.path.join("plan.json").is_file() {
        let message = format!("{} is no directory of a plan", args.path.display());
        let help = "name a directory that `shardc compile -o` wrote";
        return Err(Box::new(Diagnostic::error(codes::PLAN, message).help(help)).into());
    }
    let file: PlanFile = plan_file::read(&args.path, "plan.json")?;
    let mut programs = Programs::default();
    let certified = certificate::check(&args.path, &file.files, &mut programs);
    let (checked, certified) = match (launched(&args.path, &file, &mut programs), certified) {
        (Ok(checked), Ok(certified)) => (checked, certified),
        (Err(failure), Err(other)) => return Err(failure.and(other)),
        (Err(failure), Ok(_)) | (Ok(_), Err(failure)) => return Err(failure),
    };
    output::print(&match args.json {
        true => {
            let phases: Vec<Value> = checked.iter().map(document).collect();
            format!("{:#}\n", json!({ "phases": phases, "certificate": certified.document() }))
        }
        false => checked.iter().map(screen).chain([certified.screen()]).collect(),
    })
}

/// The launch plans of a directory and its maps of weights, checked.
fn launched(
    directory: &Path,
    file: &PlanFile,
    programs: &mut Programs,
) -> Outcome<Vec<(LaunchPlan, Report)>> {
    let mut checked = Vec::new();
    for name in launch_files(file)? {
        let (plan, report) = one(directory, &name, programs)?;
        within(&plan, &file.plan.memory)?;
        checked.push((plan, report));
    }
    let maps = plan_file::weights(directory)?;
    let model = file.files.iter().find(|name| name.starts_with("ir/prefill/"));
    let model = model.ok_or_else(|| damaged("the plan lists no programs"))?;
    let model = programs.get(directory, model, |_| Ok(()))?;
    shardc_check::weights::check(&maps, &model)?;
    agree(&checked.iter().map(|(plan, _)| plan).collect::<Vec<_>>()).map_err(Failure::from)?;
    Ok(checked)
}

/// The launch plans that a plan lists.
fn launch_files(file: &PlanFile) -> Result<Vec<String>> {
    let launch = |name: &&String| name.starts_with("launch/") && !name.contains("..");
    let names: Vec<String> = file.files.iter().filter(launch).cloned().collect();
    match names.is_empty() {
        true => Err(damaged("the plan lists no launch plans")),
        false => Ok(names),
    }
}

/// Reads a launch plan with its program, and checks them.
fn one(directory: &Path, name: &str, programs: &mut Programs) -> Outcome<(LaunchPlan, Report)> {
    let source = input::of_plan(&directory.join(name))?;
    let plan = LaunchPlan::read(&source.text)?;
    if plan.source.file.contains("..") || !plan.source.file.starts_with("ir/") {
        let message = format!("{name} names a program outside of the plan's directory");
        return Err(damaged(message).into());
    }
    let module = programs.get(directory, &plan.source.file, |text| plan.belongs_to(text))?;
    let report = check(&plan, &module)?;
    Ok((plan, report))
}

/// Whether what a launch plan promises is what the plan says that devices have.
fn within(plan: &LaunchPlan, memory: &Memory) -> Result<()> {
    for program in &plan.programs {
        let Promised { weights, caches, activations, workspace } = program.promised;
        let items = [weights, caches, activations, workspace, memory.reserve];
        let total = items.iter().fold(0u64, |sum, &n| sum.saturating_add(n));
        if total > memory.usable {
            let message = format!(
                "a rank of stage {} takes {total} bytes in {}, and the plan has {} of a device",
                program.stage, plan.phase, memory.usable
            );
            let help = "compile with a smaller batch (--concurrency) or more memory";
            return Err(Box::new(Diagnostic::error(MEMORY, message).help(help)));
        }
    }
    Ok(())
}

fn document((plan, report): &(LaunchPlan, Report)) -> Value {
    json!({
        "phase": plan.phase,
        "ranks": report.ranks,
        "routines": plan.routines.len(),
        "steps": report.steps,
        "buffers": report.buffers,
        "meetings": report.meetings,
        "bytes": report.bytes,
        "programs": plan.programs.iter().map(|p| json!({
            "stage": p.stage,
            "ranks": p.ranks,
            "arenas": p.arenas,
            "promised": p.promised,
        })).collect::<Vec<_>>(),
    })
}

fn screen((plan, report): &(LaunchPlan, Report)) -> String {
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    let mut out = format!(
        "{:<10}{} ranks run {} routines of {} steps and {} buffers; {} meetings of ranks\n",
        plan.phase,
        report.ranks,
        plan.routines.len(),
        report.steps,
        report.buffers,
        report.meetings
    );
    for program in &plan.programs {
        let (arenas, promised) = (&program.arenas, &program.promised);
        out.push_str(&format!(
            "  stage {:<4}weights {:.3}, caches {:.3}, scratch {:.3} GiB; promised {:.3}, {:.3}, {:.3} + {:.3}\n",
            program.stage,
            gib(arenas.weights),
            gib(arenas.caches),
            gib(arenas.scratch),
            gib(promised.weights),
            gib(promised.caches),
            gib(promised.activations),
            gib(promised.workspace),
        ));
    }
    out
}
