//! `shardc run`: a plan's programs with a checkpoint's weights.

mod output;
mod plan;
mod steps;
mod tokens;

use crate::failure::Outcome;
use crate::output as standard;
use plan::Plan;
use std::path::PathBuf;

/// Runs the programs of a plan with the weights of a checkpoint.
///
/// Devices are simulated, each with its own part of every value, and compute in f64: the numbers are
/// those that the plan would give, the speed is not. Tokens are chosen greedily.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// A directory that `shardc compile -o` wrote
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// A safetensors file, an index of several, or a directory that holds either
    #[arg(long, value_name = "PATH")]
    weights: PathBuf,
    /// The prompt of one request as token ids, such as 1,2,3
    #[arg(
        long,
        value_name = "IDS",
        value_delimiter = ',',
        required_unless_present = "tokens_file"
    )]
    tokens: Vec<u64>,
    /// A safetensors file with `input_ids` [B, S] and perhaps `decode_ids` [B, T], which are then fed
    /// instead of what the model chooses
    #[arg(long, value_name = "FILE", conflicts_with = "tokens")]
    tokens_file: Option<PathBuf>,
    /// Tokens to generate [default: those of `decode_ids`, or 0]
    #[arg(long, value_name = "N")]
    decode: Option<usize>,
    /// Write `logits_prefill` [B, S, V] and `logits_decode` [B, T, V] into this safetensors file
    #[arg(long, value_name = "FILE")]
    logits: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// Errors: files that cannot be read, a checkpoint that lacks a tensor, tokens beyond the vocabulary.
pub fn run(args: &RunArgs) -> Outcome {
    let plan = Plan::read(&args.path)?;
    let tokens = tokens::read(args, plan.vocab)?;
    let weights = plan.weights(&args.weights)?;
    let generated = steps::generate(&plan, &weights, &tokens, args.logits.is_some())?;
    if let Some(path) = &args.logits {
        output::write(path, &generated)?;
    }
    standard::print(&match args.json {
        true => format!("{:#}\n", output::document(&plan, &tokens, &generated)),
        false => output::screen(&plan, &tokens, &generated),
    })
}
