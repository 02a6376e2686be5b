//! `shardc passes`: the reference of passes.

use crate::failure::Outcome;
use crate::output;
use shardc::workbench;

/// List the passes and pipelines, or describe one.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PassesArgs {
    /// The pass or pipeline to describe
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Print the whole reference as JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// Errors: no pass has the name.
pub fn run(args: &PassesArgs) -> Outcome {
    let text = match &args.name {
        Some(name) if args.json => format!("{:#}\n", workbench::row(name)?),
        Some(name) => workbench::detail(name)?,
        None if args.json => format!("{:#}\n", workbench::json()),
        None => workbench::table() + "\n`shardc passes NAME` says more about one of them\n",
    };
    output::print(&text)
}
