//! `shardc opt`: the pass workbench on files.

use crate::failure::{Failure, Outcome};
use crate::input::{self, Source};
use crate::output;
use shardc::workbench::{OptFlags, Stopped, optimise};
use std::path::PathBuf;

/// Run passes on a program of the IR and print what they leave.
///
/// The program may be of any level. It is verified first; what flags ask to show on the way goes to
/// standard error, so that standard output is a program. Without --passes it is only printed in
/// canonical form.
#[derive(Clone, Debug, clap::Args)]
pub struct OptArgs {
    /// A program in text form; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub flags: OptFlags,
    /// Write the program to a file instead of standard output
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Runs the command.
///
/// Errors: the file cannot be read or holds no program, a pass is unknown or refuses the program, or
/// a check fails.
pub fn run(args: &OptArgs) -> Outcome {
    let source = input::program(&args.file)?;
    let done = optimise(&source.text, &args.flags, &mut |shown| output::complain(shown))
        .map_err(|stopped| failure(stopped, &source))?;
    let Some(path) = &args.output else { return output::print(&done.text) };
    Ok(output::write(path, &done.text)?)
}

/// The findings with the text they point into: the input, or the program as a pass left it.
fn failure(stopped: Stopped, input: &Source) -> Failure {
    let listing = stopped.listing.map(|(name, text)| Source { name, text });
    Failure::from(stopped.found).within(listing.as_ref().unwrap_or(input))
}
