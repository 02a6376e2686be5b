//! What a command line asks of a run, and what it gets: for `shardc run` and for `shardc-exec`.

pub mod exec;
pub mod output;
mod text;
mod tokens;

use crate::codes;
use crate::comm::threads;
use crate::plan::Plan;
use crate::sampling::Sampling;
use crate::session::{self, Generated, Job};
use crate::weights::Checkpoint;
use shardc_ir::diag::{Diagnostic, Result};
use std::path::PathBuf;
use text::Text;

/// What is run, with which weights, on which tokens.
#[derive(Clone, Debug, clap::Args)]
pub struct JobArgs {
    /// A directory that `shardc compile -o` wrote
    #[arg(value_name = "DIR")]
    pub path: PathBuf,
    /// A safetensors file, an index of several, or a directory that holds either
    #[arg(long, value_name = "PATH")]
    pub weights: PathBuf,
    /// The prompt of one request as token ids, such as 1,2,3
    #[arg(
        long,
        value_name = "IDS",
        value_delimiter = ',',
        required_unless_present_any = ["tokens_file", "prompt"]
    )]
    pub tokens: Vec<u64>,
    /// A safetensors file with `input_ids` [B, S] and perhaps `decode_ids` [B, T], which are then fed
    /// instead of what the model chooses
    #[arg(long, value_name = "FILE", conflicts_with = "tokens")]
    pub tokens_file: Option<PathBuf>,
    /// The prompt of one request as text, by the tokenizer.json beside the weights
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["tokens", "tokens_file"])]
    pub prompt: Option<String>,
    /// Tokens to generate [default: those of `decode_ids`, or 0]
    #[arg(long, value_name = "N")]
    pub decode: Option<usize>,
    /// Write `logits_prefill` [B, S, V] and `logits_decode` [B, T, V] into this safetensors file
    #[arg(long, value_name = "FILE")]
    pub logits: Option<PathBuf>,
    /// Divisor of the logits; 0 takes the most likely token
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub temperature: f64,
    /// Choose among the K most likely tokens [default: all]
    #[arg(long, value_name = "K", default_value_t = 0, hide_default_value = true)]
    pub top_k: usize,
    /// Choose among the fewest tokens whose probabilities add up to P
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    pub top_p: f64,
    /// Equal seeds choose equal tokens
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
}

/// What is asked for, and what makes text of it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Tokens and how to go on from them.
    pub job: Job,
    /// The tokenizer, where the prompt was text.
    pub text: Option<Text>,
}

impl JobArgs {
    /// What is asked for, of a model with `vocabulary` tokens.
    ///
    /// # Errors
    /// `W108` where the tokens make no sense, `W112` where their file cannot be read, `W115` where
    /// the tokenizer cannot be read.
    pub fn request(&self, vocabulary: u64) -> Result<Request> {
        let (mut tokens, mut text) = (self.tokens.clone(), None);
        if let Some(prompt) = &self.prompt {
            let tokenizer = Text::beside(&self.weights)?;
            tokens = tokenizer.encode(prompt)?;
            text = Some(tokenizer);
        }
        let (prompts, fed) = match &self.tokens_file {
            Some(path) => tokens::file(path)?,
            None => {
                let ids = tokens.iter().map(|&t| i64::try_from(t).unwrap_or(i64::MAX));
                (vec![ids.collect()], None)
            }
        };
        for ids in prompts.iter().chain(fed.iter().flatten()) {
            let legal = |&id: &i64| u64::try_from(id).is_ok_and(|id| id < vocabulary);
            if let Some(id) = ids.iter().find(|id| !legal(id)) {
                let message = format!("token {id} is not in the vocabulary of {vocabulary}");
                let mut problem = Diagnostic::error(codes::REQUEST, message);
                if text.is_some() {
                    problem =
                        problem.help("the tokenizer.json beside the weights is of another model");
                }
                return Err(Box::new(problem));
            }
        }
        let given = fed.as_ref().and_then(|f| f.first()).map_or(0, Vec::len);
        let decode = self.decode.unwrap_or(given);
        let sampling = Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            seed: self.seed,
        };
        sampling.check()?;
        let job = Job { prompts, fed, decode, logits: self.logits.is_some(), sampling };
        Ok(Request { job, text })
    }

    /// Runs a plan with every rank a thread of this process.
    ///
    /// # Errors
    /// `W001` to `W115`.
    pub fn on_threads(&self, plan: &Plan) -> Result<(Request, Generated)> {
        let request = self.request(plan.vocabulary())?;
        let checkpoint = Checkpoint::open(&self.weights)?;
        let job = &request.job;
        let results = threads::run(plan.ranks(), |comm| session::run(plan, &checkpoint, job, comm));
        Ok((request, session::first(results)?))
    }

    /// Writes the logits, if they are asked for, and returns what a run prints: for people, where
    /// `what` names its ranks, or as JSON.
    ///
    /// # Errors
    /// `W113` where a file cannot be written, `W108` where tokens are no text.
    pub fn answer(
        &self,
        (ranks, what): (usize, &str),
        json: bool,
        request: &Request,
        generated: &Generated,
    ) -> Result<String> {
        if let Some(path) = &self.logits {
            output::write(path, generated)?;
        }
        match json {
            true => Ok(format!("{:#}\n", output::document(ranks, request, generated)?)),
            false => output::screen(what, request, generated),
        }
    }
}
