//! `shardc run`: a plan's programs with a checkpoint's weights.

mod plan;
mod steps;

use crate::failure::Outcome;
use crate::output as standard;
use plan::Plan;
use shardc::codes;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_runtime::front::Request;
use shardc_runtime::plan::Plan as Launched;
use shardc_runtime::session::Generated;

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
    let (ranks, request, generated) = match args.device {
        Device::Cpu => on_threads(args)?,
        Device::Simulated => simulated(args)?,
    };
    let kind = match args.device {
        Device::Cpu => "CPU rank",
        Device::Simulated => "simulated device",
    };
    let what = format!("{ranks} {kind}{}", if ranks == 1 { "" } else { "s" });
    standard::print(&args.what.answer((ranks, &what), args.json, &request, &generated)?)
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

fn on_threads(args: &RunArgs) -> Outcome<(usize, Request, Generated)> {
    let plan = Launched::read(&args.what.path)?;
    as_many(args, plan.ranks())?;
    let (request, generated) = args.what.on_threads(&plan)?;
    Ok((plan.ranks(), request, generated))
}

fn simulated(args: &RunArgs) -> Outcome<(usize, Request, Generated)> {
    let plan = Plan::read(&args.what.path)?;
    as_many(args, plan.devices() as usize)?;
    let request = args.what.request(plan.vocab)?;
    let weights = plan.weights(&args.what.weights)?;
    let generated = steps::generate(&plan, &weights, &request.job)?;
    Ok((plan.devices() as usize, request, generated))
}
