//! What a run needs of a plan's directory.

use crate::commands::plan_file::{self, damaged, verified};
use crate::failure::Outcome;
use crate::input;
use serde::Deserialize;
use shardc::codes;
use shardc_interp::{Inputs, Tensor};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::{FuncKind, Level, Module};
use shardc_ir::types::Kind;
use shardc_runtime::weights::{Checkpoint, Source};
use std::collections::BTreeMap;
use std::path::Path;

/// Parameters that fit into memory in f64, with room for a second copy in parts.
const MAX_PARAMETERS: u64 = 400_000_000;

/// A plan that can run.
#[derive(Debug)]
pub struct Plan {
    /// The model itself, for the extents of its caches.
    pub model: Module,
    /// The local programs of prompts.
    pub prefill: Module,
    /// The local programs of decode steps.
    pub decode: Module,
    /// Entries of the vocabulary.
    pub vocab: u64,
    /// Where the weights come from.
    sources: Vec<Source>,
}

/// What is read of a `plan.json`.
#[derive(Deserialize)]
struct PlanFile {
    files: Vec<String>,
}

impl Plan {
    /// Reads the directory of a plan.
    ///
    /// Errors: `U132` where it is damaged, or what the verifier finds.
    pub fn read(directory: &Path) -> Outcome<Self> {
        let file: PlanFile = plan_file::read(directory, "plan.json")?;
        let sources = plan_file::weights(directory)?;
        let of = |phase: &str| {
            let prefix = format!("ir/{phase}/");
            let plain = |name: &&String| name.starts_with(&prefix) && !name.contains("..");
            file.files.iter().filter(plain).collect::<Vec<_>>()
        };
        let program = |name: Option<&&String>, level: Level| -> Outcome<Module> {
            let name = name.ok_or_else(|| damaged("the plan lists no programs"))?;
            let module = verified(&input::program(&directory.join(name))?)?;
            match module.level == level {
                true => Ok(module),
                false => Err(damaged(format!("{name} is not at {level} level")).into()),
            }
        };
        let model = program(of("prefill").first(), Level::Logical)?;
        let vocab = shardc_verify::vocabulary(&model);
        Ok(Plan {
            prefill: program(of("prefill").last(), Level::Local)?,
            decode: program(of("decode").last(), Level::Local)?,
            model,
            vocab,
            sources,
        })
    }

    /// Devices of the plan.
    pub fn devices(&self) -> u64 {
        let stages = self.prefill.funcs.values().filter(|f| f.kind == FuncKind::Program).count();
        self.prefill.mesh.as_ref().map_or(1, |m| m.devices()).saturating_mul(stages as u64)
    }

    /// The weights of the model, whole, from a checkpoint.
    ///
    /// Errors: `W001` to `W006`, `U161` where the model is too large to be simulated.
    pub fn weights(&self, path: &Path) -> Result<Inputs> {
        let main = self.model.func("main").map(|id| &self.model.funcs[id]);
        let params = main.into_iter().flat_map(|f| f.params.iter().map(move |&p| &f.values[p]));
        let weights = params.filter(|p| p.ty.kind == Kind::Weight);
        let shapes: BTreeMap<&str, Vec<u64>> = weights
            .map(|p| {
                let dims = p.ty.dims.iter().map(|d| d.as_fixed().unwrap_or(1));
                (p.name.as_str(), dims.collect())
            })
            .collect();
        let elements = |dims: &Vec<u64>| dims.iter().fold(1u64, |n, &d| n.saturating_mul(d));
        let total = shapes.values().map(elements).fold(0, u64::saturating_add);
        if total > MAX_PARAMETERS {
            let message = format!(
                "the model has {total} parameters, and a run simulates at most {MAX_PARAMETERS}"
            );
            let help = "verify a plan of this size at reduced sizes with `shardc verify`";
            return Err(Box::new(Diagnostic::error(codes::TOO_LARGE_TO_RUN, message).help(help)));
        }
        let checkpoint = Checkpoint::open(path)?;
        let of = |(name, dims): (&&str, &Vec<u64>)| {
            let source = self.sources.iter().find(|s| s.param == **name);
            let source = source.ok_or_else(|| damaged(format!("weights.json lacks `{name}`")))?;
            let ranges = source.whole();
            if !ranges.iter().map(|r| r.end).eq(dims.iter().copied()) {
                return Err(damaged(format!("weights.json has other extents of `{name}`")));
            }
            let numbers = checkpoint.part(source, &ranges)?.into_iter().map(f64::from).collect();
            let shape = dims.iter().map(|&n| n as usize).collect();
            let tensor = Tensor::new(shape, numbers);
            let tensor = tensor.map_err(|cause| damaged(format!("`{name}`: {cause}")))?;
            Ok((name.to_string(), tensor))
        };
        shapes.iter().map(of).collect()
    }
}
