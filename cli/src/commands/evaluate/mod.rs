//! `shardc evaluate`: layouts and loads by the thousand, a line a question, a line an answer.

mod answer;
pub mod bench;
mod fields;
pub mod question;
mod tree;

use crate::failure::{Outcome, to_json};
use crate::output;
use question::Desk;
use rayon::prelude::*;
use serde_json::{Value, json};
use shardc::codes;
use shardc_ir::diag::Diagnostic;
use shardc_passes::schedule::Fault;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

/// Bytes of questions that are read at once, where there are as many.
const LOT: usize = 1 << 20;
/// Longest question, bytes.
const LONGEST: usize = 1 << 20;

/// Answers questions about layouts: memory, TTFT, TPOT, throughput.
///
/// Reads one JSON object a line from standard input and prints one a line, in order; what is wrong
/// with a line is its answer. Lines are answered as they come, in parallel where several wait.
/// docs/evaluate.md has all keys:
/// {"model": "config.json", "cluster": "h100x8", "layout": {"tp": 8}, "isl": 1024, "osl": 256,
/// "concurrency": 32}
#[derive(Clone, Debug, clap::Args)]
pub struct EvaluateArgs {
    /// Read questions from this file instead
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

/// Runs the command.
///
/// Errors: questions that cannot be read, answers that cannot be written.
pub fn run(args: &EvaluateArgs) -> Outcome {
    let unreadable = |error: io::Error| {
        let message = format!("questions cannot be read: {error}");
        Box::new(Diagnostic::error(codes::UNREADABLE, message))
    };
    let input: Box<dyn Read> = match &args.input {
        Some(path) => Box::new(std::fs::File::open(path).map_err(unreadable)?),
        None => Box::new(io::stdin().lock()),
    };
    let mut input = BufReader::with_capacity(LOT, input);
    let desk = Desk::default();
    loop {
        let lines = lot(&mut input).map_err(unreadable)?;
        if lines.is_empty() {
            return Ok(());
        }
        let answers: Vec<String> = lines.par_iter().map(|line| answer(&desk, line)).collect();
        output::print(&answers.concat())?;
        desk.tidy();
    }
}

/// The lines that can be read without waiting for more than the first; none at the end.
fn lot(input: &mut BufReader<Box<dyn Read>>) -> io::Result<Vec<Vec<u8>>> {
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        if input.by_ref().take(LONGEST as u64 + 1).read_until(b'\n', &mut line)? == 0 {
            return Ok(lines);
        }
        if line.last() != Some(&b'\n') && line.len() > LONGEST {
            input.skip_until(b'\n')?;
        }
        lines.push(line);
        if !input.buffer().contains(&b'\n') {
            return Ok(lines);
        }
    }
}

/// The answer to a line, with its line break; nothing for an empty line.
fn answer(desk: &Desk, line: &[u8]) -> String {
    if line.iter().all(u8::is_ascii_whitespace) {
        return String::new();
    }
    let answer: Value = match desk.answer(line) {
        Ok(answer) => answer,
        Err(fault) => json!({ "error": error(&fault) }),
    };
    format!("{answer}\n")
}

/// A diagnostic, and of a decision that is not legal what it is about and what could stand there.
fn error(fault: &Fault) -> Value {
    let mut out = to_json(&fault.diagnostic, None);
    let parts = [("operator", &fault.operator), ("dim", &fault.dim), ("axis", &fault.axis)];
    for (key, part) in parts {
        if let Some(part) = part {
            out[key] = json!(part);
        }
    }
    if !fault.legal.is_empty() {
        out["legal"] = json!(fault.legal);
    }
    out
}
