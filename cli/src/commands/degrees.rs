//! `shardc degrees`: every parallel degree of a model, legal or not.

use crate::args::ModelArgs;
use crate::failure::Outcome;

/// Lists every parallel degree of a model.
#[derive(Clone, Debug, clap::Args)]
pub struct DegreesArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Devices
    #[arg(long, value_name = "N")]
    gpus: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(_args: &DegreesArgs) -> Outcome {
    Ok(())
}
