//! The command `shardc-exec`: a plan's directory on CPU ranks, as threads, or as processes that `mpirun`
//! starts.

use super::{JobArgs, Request, output};
use crate::plan::Plan;
use crate::session::Generated;
use clap::Parser;
use shardc_ir::diag::{Diagnostic, Result};
use std::process::ExitCode;

/// Runs a plan on CPU ranks.
///
/// Started by `mpirun` with as many processes as the plan has ranks, each process is a rank, if built
/// with the feature `mpi`; else all ranks are threads of this process.
#[derive(Debug, Parser)]
#[command(name = "shardc-exec", version)]
struct Args {
    #[command(flatten)]
    run: JobArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Seconds that a rank waits for another one before it gives up, over MPI
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    patience: u64,
}

/// Runs the command with the arguments of this process.
pub fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            report(&problem);
            ExitCode::from(problem.code.class.exit_code())
        }
    }
}

fn report(problem: &Diagnostic) {
    let mut text = format!("error[{}]: {}\n", problem.code, problem.message);
    problem.notes.iter().for_each(|note| text.push_str(&format!("  note: {note}\n")));
    problem.help.iter().for_each(|help| text.push_str(&format!("  help: {help}\n")));
    eprint!("{text}");
}

#[cfg(feature = "mpi")]
fn run(args: &Args) -> Result<()> {
    use crate::comm::mpi::Process;
    use crate::session;
    use crate::weights::Checkpoint;
    use std::time::Duration;
    if std::env::var_os("OMPI_COMM_WORLD_SIZE").is_none() && std::env::var_os("PMI_SIZE").is_none()
    {
        return on_threads(args);
    }
    let mut process = Process::join(Duration::from_secs(args.patience), report)?;
    let mut work = || {
        let plan = Plan::read(&args.run.path)?;
        session::same_plan(&plan, &mut process)?;
        let request = args.run.request(plan.vocabulary())?;
        let checkpoint = Checkpoint::open(&args.run.weights)?;
        match session::run(&plan, &checkpoint, &request.job, &mut process)? {
            Some(generated) => finish(args, (plan.ranks(), "processes"), &request, &generated),
            None => Ok(()),
        }
    };
    if let Err(problem) = work() {
        process.tell(&problem);
        process.end(&problem);
    }
    Ok(())
}

#[cfg(not(feature = "mpi"))]
fn run(args: &Args) -> Result<()> {
    let started = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"].map(|name| std::env::var(name).ok());
    if started.iter().flatten().any(|size| size != "1") {
        let message = "this shardc-exec was built without MPI";
        let problem = Diagnostic::error(crate::codes::MPI, message);
        return Err(Box::new(problem.help("build it with `--features mpi`")));
    }
    on_threads(args)
}

fn on_threads(args: &Args) -> Result<()> {
    let plan = Plan::read(&args.run.path)?;
    let (request, generated) = args.run.on_threads(&plan)?;
    finish(args, (plan.ranks(), "threads"), &request, &generated)
}

fn finish(
    args: &Args,
    (ranks, kind): (usize, &str),
    request: &Request,
    generated: &Generated,
) -> Result<()> {
    let what = format!("{ranks} CPU ranks as {kind}");
    output::print(&args.run.answer((ranks, &what), args.json, request, generated)?)
}
