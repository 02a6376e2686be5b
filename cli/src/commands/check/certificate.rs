//! The certificate of a plan, replayed.

use crate::commands::plan_file::{self, damaged};
use crate::failure::Outcome;
use crate::input;
use serde_json::{Value, json};
use shardc_check::certificate::{Programs, Replayed, replay};
use shardc_ir::certificate::Certificate;
use shardc_ir::graph::Module;
use shardc_ir::launch::Source;
use std::path::Path;
use std::rc::Rc;

/// The name of the file.
pub const FILE: &str = "certificate";

/// What was replayed of each phase.
pub struct Certified {
    phases: Vec<(String, Replayed)>,
}

/// Replays the certificate of a directory.
///
/// Errors: a file that cannot be read or is another than the certificate's (`R001` to `R003`), and
/// what does not hold (`R101` to `R114`).
pub fn check(
    directory: &Path,
    files: &[String],
    programs: &mut plan_file::Programs,
) -> Outcome<Certified> {
    if !files.iter().any(|name| name == FILE) {
        return Err(damaged("the plan lists no certificate").into());
    }
    let source = input::of_plan(&directory.join(FILE))?;
    let certificate = Certificate::read(&source.text)?;
    let names = certificate.phases.iter().map(|p| p.phase.as_str());
    if !names.eq(["prefill", "decode"]) {
        return Err(damaged("the certificate is not one of prefill and decode").into());
    }
    let mut phases = Vec::new();
    for proof in &certificate.phases {
        let mut program = |source| program(directory, source, programs);
        let model = program(&proof.model)?;
        let logical = program(&proof.logical)?;
        let local = program(&proof.local)?;
        let programs = Programs { model: &model, logical: &logical, local: &local };
        phases.push((proof.phase.clone(), replay(programs, proof)?));
    }
    Ok(Certified { phases })
}

/// A program that a certificate speaks of.
fn program(
    directory: &Path,
    source: &Source,
    programs: &mut plan_file::Programs,
) -> Outcome<Rc<Module>> {
    if source.file.contains("..") || !source.file.starts_with("ir/") {
        let message = format!("the certificate names `{}`, no program of the plan", source.file);
        return Err(damaged(message).into());
    }
    programs.get(directory, &source.file, |text| source.certifies(text))
}

impl Certified {
    pub fn document(&self) -> Value {
        let one = |(phase, replayed): &(String, Replayed)| {
            json!({
                "phase": phase,
                "functions": replayed.functions,
                "rewrites": replayed.rewrites,
                "steps": replayed.steps,
                "rules": replayed.rules,
            })
        };
        Value::Array(self.phases.iter().map(one).collect())
    }

    pub fn screen(&self) -> String {
        let one = |(phase, replayed): &(String, Replayed)| {
            let rules = replayed.rules.iter().map(|(rule, n)| format!("{n} {rule}"));
            format!(
                "{phase:<10}certificate holds: {} functions, {} rewrites, {} steps ({})\n",
                replayed.functions,
                replayed.rewrites,
                replayed.steps,
                rules.collect::<Vec<_>>().join(", ")
            )
        };
        self.phases.iter().map(one).collect()
    }
}
