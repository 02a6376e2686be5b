//! The judges judged: wrong rewrites planted in the programs of golden models, each of which the
//! verifier or a run must catch.

use super::case::Case;
use shardc_ir::graph::Module;
use shardc_ir::verify::verify;
use shardc_passes::pipeline::{Lowering, balanced_stages, lower};
use shardc_passes::strategy::megatron::{ExpertExchange, Phase, pins};
use shardc_passes::strategy::{Degrees, Groups};
use shardc_tests::Outcome;
use shardc_tests::golden::Golden;
use shardc_tests::mistakes::{REWRITES, place};
use shardc_verify::Sizes;
use std::collections::BTreeMap;
use std::path::Path;

/// More tokens than the shortest window has.
const SIZES: Sizes = Sizes { requests: 2, prompt: 9, more: 2, steps: 0 };

/// Sites of one function at which a kind of mistake is made.
const SITES: usize = 4;

/// Degrees by the folder of a model: what splits most of it.
const DEGREES: [(&str, &str); 4] = [
    ("llama-tiny", "tp=2,cp=2,pp=2"),
    ("mixtral-tiny", "tp=2,dp=2,ep=2,etp=2"),
    ("deepseek_v3-tiny", "tp=2,dp=2,ep=4"),
    ("gpt_oss-tiny", "tp=2,dp=2,ep=2"),
];

/// The program of prompts at collective and at local level.
fn programs(case: &Case, degrees: &str) -> Result<Vec<Module>, String> {
    let degrees = Degrees::parse(degrees).map_err(|d| d.to_string())?;
    let groups = Groups::new(&degrees, &case.facts, 8);
    let stage_layers = balanced_stages(case.facts.layers, degrees.pp);
    let pins = pins(&groups, Phase::Prefill, ExpertExchange::AllToAll);
    let sizes = case.runs.symbols(SIZES.prompt);
    let lowering =
        Lowering { groups: &groups, pins: &pins, sizes: &sizes, stage_layers: &stage_layers };
    let mut out = Vec::new();
    let mut keep = |pass, module: &Module| {
        if ["optimize-collectives", "localize"].contains(&pass) {
            out.push(module.clone());
        }
    };
    lower(&case.prefill, &lowering, &mut keep).map_err(|d| d.to_string())?;
    Ok(out)
}

/// The programs with one mistake each, with what it is and where.
fn mutants(module: &Module) -> Vec<(&'static str, String, Module)> {
    let mut out = Vec::new();
    for (what, mistake) in REWRITES {
        for id in module.funcs.keys() {
            let body = module.funcs[id].body.clone();
            let planted = body.into_iter().filter_map(|inst| {
                let mut wrong = module.clone();
                let place = place(&wrong.funcs[id], inst);
                (mistake.make(&mut wrong, id, inst) && wrong != *module)
                    .then_some((what, place, wrong))
            });
            let planted: Vec<_> = planted.collect();
            let stride = planted.len().div_ceil(SITES).max(1);
            out.extend(planted.into_iter().step_by(stride));
        }
    }
    out
}

/// Plants every mistake in a model.
pub fn mutants_die(config: &Path, _text: String) -> Outcome {
    let folder = config.parent().and_then(|p| p.file_name()).map(|n| n.to_string_lossy());
    let known = DEGREES.iter().find(|(name, _)| folder.as_deref() == Some(name));
    let Some((_, degrees)) = known else { return Ok(()) };
    let case = Case::new(Golden::read(config)?, SIZES)?;
    let mut deaths: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut alive = Vec::new();
    for module in programs(&case, degrees)? {
        for (what, place, wrong) in mutants(&module) {
            let by = if verify(&wrong).is_err() {
                0
            } else if !matches!(case.runs.check_prefill(&wrong), Ok(None)) {
                1
            } else {
                alive.push(format!("{what}, {place} at {} level", module.level));
                2
            };
            deaths.entry(what).or_default()[by] += 1;
        }
    }
    for (what, [verifier, run, none]) in &deaths {
        println!("{what}: {verifier} by the verifier, {run} by a run, {none} by none");
    }
    if alive.is_empty() { Ok(()) } else { Err(alive.join("\n").into()) }
}
