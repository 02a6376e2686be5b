//! `shardc completions`: a shell's completion script.

use crate::args::Cli;
use crate::failure::Outcome;
use crate::output;
use clap::CommandFactory;
use clap_complete::Shell;

/// Prints a completion script.
#[derive(Clone, Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// Runs the command.
pub fn run(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "shardc", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
