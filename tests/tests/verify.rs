//! Programs against the verifier.
//!
//! A comment `; error: CODE part of the message` stands on the line that the error points at;
//! nothing else may be reported. A file without such comments must be accepted.

use shardc_ir::diag::Diagnostic;
use shardc_tests::{Outcome, findings, line_of, place};
use std::path::Path;

const MARK: &str = "; error: ";

/// What a comment expects.
struct Expected<'s> {
    line: usize,
    code: &'s str,
    part: &'s str,
}

impl Expected<'_> {
    fn matches(&self, source: &str, found: &Diagnostic) -> bool {
        line_of(source, place(found).start) == self.line
            && found.code.id == self.code
            && found.message.contains(self.part)
    }
}

fn expectations(source: &str) -> Vec<Expected<'_>> {
    let marked = source.lines().enumerate().flat_map(|(i, line)| {
        line.split(MARK).skip(1).map(move |comment| {
            let (code, part) = comment.trim().split_once(' ').unwrap_or((comment.trim(), ""));
            Expected { line: i + 1, code, part: part.trim() }
        })
    });
    marked.collect()
}

fn verify(_path: &Path, source: String) -> Outcome {
    let mut found = findings(&source);
    let mut problems = Vec::new();
    for expected in expectations(&source) {
        match found.iter().position(|d| expected.matches(&source, d)) {
            Some(i) => {
                found.remove(i);
            }
            None => problems.push(format!(
                "line {} should report {} with \"{}\"",
                expected.line, expected.code, expected.part
            )),
        }
    }
    for extra in found {
        let line = line_of(&source, place(&extra).start);
        problems.push(format!("line {line} reports {extra}\n  help: {:?}", extra.help));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n").into()) }
}

datatest_stable::harness! {
    { test = verify, root = "files/verify", pattern = r"\.sir$" },
    { test = verify, root = "../examples/programs", pattern = r"\.sir$" },
}
