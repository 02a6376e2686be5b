//! `shardc run`: a plan's programs with a checkpoint's weights.

mod plan;
mod steps;

use crate::failure::Outcome;
use crate::output as standard;
use plan::Plan;
use shardc::codes;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_runtime::comm::threads;
use shardc_runtime::front::output;
use shardc_runtime::plan::Plan as Launched;
use shardc_runtime::session::{self, Generated, Job};
use shardc_runtime::weights::Checkpoint;

/// What runs the ranks of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Device {
    /// CPU ranks, threads of this process, on buffers of the plan's own number formats
    Cpu,
    /// Simulated devices in f64
    Simulated,
}

/// Runs the programs of a plan with the weights of a checkpoint.
///
/// Every rank is a thread with its own part of weights, caches and activations, at the offsets and in
/// the order of the launch plan. `shardc-exec` runs the same with ranks as MPI processes.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    what: shardc_runtime::front::JobArgs,
    /// What runs the ranks
    #[arg(long, value_enum, default_value_t = Device::Cpu)]
    device: Device,
    /// Ranks of the plan, to be sure of them [default: as many as it has]
    #[arg(long, value_name = "N")]
    ranks: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// Errors: files that cannot be read, a checkpoint that lacks a tensor, tokens beyond the vocabulary,
/// what a rank fails with.
pub fn run(args: &RunArgs) -> Outcome {
    let (ranks, job, generated) = match args.device {
        Device::Cpu => on_threads(args)?,
        Device::Simulated => simulated(args)?,
    };
    if let Some(path) = &args.what.logits {
        output::write(path, &generated)?;
    }
    let what = match args.device {
        Device::Cpu => format!("{ranks} CPU rank{}", if ranks == 1 { "" } else { "s" }),
        Device::Simulated => {
            format!("{ranks} simulated device{}", if ranks == 1 { "" } else { "s" })
        }
    };
    standard::print(&match args.json {
        true => format!("{:#}\n", output::document(ranks, &job, &generated)),
        false => output::screen(&what, &job, &generated),
    })
}

/// Refuses another number of ranks than the plan has.
fn as_many(args: &RunArgs, ranks: usize) -> Result<()> {
    match args.ranks {
        Some(asked) if asked != ranks => {
            let message = format!("the plan has {ranks} ranks, not {asked}");
            let help = "compile it for as many devices with --gpus";
            Err(Box::new(Diagnostic::error(codes::REQUEST_RANGE, message).help(help)))
        }
        _ => Ok(()),
    }
}

fn on_threads(args: &RunArgs) -> Outcome<(usize, Job, Generated)> {
    let plan = Launched::read(&args.what.path)?;
    as_many(args, plan.ranks())?;
    let job = args.what.job(plan.vocabulary())?;
    let checkpoint = Checkpoint::open(&args.what.weights)?;
    let results = threads::run(plan.ranks(), |comm| session::run(&plan, &checkpoint, &job, comm));
    Ok((plan.ranks(), job, session::first(results)?))
}

fn simulated(args: &RunArgs) -> Outcome<(usize, Job, Generated)> {
    let plan = Plan::read(&args.what.path)?;
    as_many(args, plan.devices() as usize)?;
    let job = args.what.job(plan.vocab)?;
    let weights = plan.weights(&args.what.weights)?;
    let generated = steps::generate(&plan, &weights, &job)?;
    Ok((plan.devices() as usize, job, generated))
}
