//! The `shardc` binary: parses the command line, runs one command, turns its outcome into an exit
//! code.

mod args;
mod commands;
mod failure;
mod input;
mod output;

use clap::Parser;
use failure::Failure;
use shardc::codes;
use shardc_ir::diag::Diagnostic;
use std::panic::{self, PanicHookInfo};
use std::process::ExitCode;

/// Lowering makes and drops many small lists, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    panic::set_hook(Box::new(report_bug));
    let outcome = panic::catch_unwind(|| match args::Cli::try_parse() {
        Ok(cli) => run(&cli),
        Err(error) => usage(&error),
    });
    ExitCode::from(outcome.unwrap_or_else(|_| codes::PANIC.class.exit_code()))
}

fn run(cli: &args::Cli) -> u8 {
    let outcome = commands::run(&cli.command);
    outcome.map_or_else(|failure| failure.report(cli.command.json()), |()| 0)
}

/// Help and version go to standard output; anything else is the user's error.
fn usage(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        return output::print(&error.render().to_string()).map_or_else(|f| f.report(false), |()| 0);
    }
    let text = error.render().to_string();
    output::complain(&text);
    if std::env::args_os().any(|arg| arg == "--json") {
        let message = text.trim().trim_start_matches("error: ");
        let failure = Failure::from(Box::new(Diagnostic::error(codes::USAGE, message)));
        output::print(&failure.to_json()).ok();
    }
    codes::USAGE.class.exit_code()
}

fn report_bug(info: &PanicHookInfo<'_>) {
    let place = info.location().map(|at| format!(" at {}:{}", at.file(), at.line()));
    let text = format!(
        "error[{}]: {}{}\n  = help: please report the command and its input\n",
        codes::PANIC,
        codes::PANIC.summary,
        place.unwrap_or_default()
    );
    output::complain(&text);
}
