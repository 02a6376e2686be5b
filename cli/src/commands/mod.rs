//! One file per command.

pub mod bench;
pub mod check;
pub mod clusters;
pub mod compile;
pub mod completions;
pub mod cost;
pub mod degrees;
pub mod diff;
pub mod evaluate;
pub mod explain;
pub mod families;
mod figures;
pub mod ops;
pub mod opt;
pub mod passes;
mod plan_file;
pub mod reshard;
pub mod run;
pub mod simulate;
pub mod verify;

use crate::args::Command;
use crate::failure::Outcome;

/// Runs a command.
pub fn run(command: &Command) -> Outcome {
    match command {
        Command::Compile(args) => compile::run(args),
        Command::Degrees(args) => degrees::run(args),
        Command::Reshard(args) => reshard::run(args).map_err(Into::into),
        Command::Evaluate(args) => evaluate::run(args),
        Command::Families(args) => families::run(args),
        Command::Clusters(args) => clusters::run(args),
        Command::Cost(args) => cost::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Ops(args) => ops::run(args),
        Command::Opt(args) => opt::run(args),
        Command::Passes(args) => passes::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Check(args) => check::run(args),
        Command::Run(args) => run::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Completions(args) => completions::run(args),
    }
}
