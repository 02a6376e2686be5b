//! Timing answers: every legal layout of a model under many loads.

use super::question::Desk;
use crate::args::ModelArgs;
use crate::failure::{InSource, Outcome};
use crate::input;
use rayon::prelude::*;
use serde_json::json;
use shardc::facade;
use shardc_ir::graph::Module;
use shardc_passes::schedule::Checked;
use shardc_passes::search::legal_degrees;
use shardc_passes::strategy::{Degrees, Facts, Groups};
use std::path::Path;
use std::time::Instant;

/// Tokens of prompts and answers, and requests in flight.
const LOADS: [(u64, u64); 6] =
    [(128, 128), (1024, 128), (1024, 1024), (2048, 256), (4096, 512), (8192, 1024)];
const CONCURRENCY: [u64; 8] = [1, 8, 32, 64, 128, 256, 512, 2048];
/// Questions that are answered at once, about as many as one lot of standard input holds.
const LOT: usize = 4096;

/// What questions ask about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All legal degrees, each under many loads.
    Layouts,
    /// Schedules, each under one load.
    Schedules,
}

/// What was timed.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// Questions.
    pub questions: usize,
    /// Distinct layouts among them.
    pub layouts: usize,
    /// Questions that no layout's memory can serve, or that are errors.
    pub refused: usize,
    /// Wall time of all, reading the model and lowering included.
    pub seconds: f64,
}

/// Times `count` questions about a model on a cluster: every legal layout under as many loads as
/// that takes, from the first question to the last answer as text.
///
/// Errors: a model or cluster that cannot be read.
pub fn time(path: &Path, cluster: &str, count: usize, kind: Kind) -> Outcome<Timed> {
    let (lines, layouts) = match kind {
        Kind::Layouts => questions(path, cluster, count)?,
        Kind::Schedules => schedules(path, cluster, count)?,
    };
    let desk = Desk::default();
    let start = Instant::now();
    let mut refused = 0;
    for lot in lines.chunks(LOT) {
        let answers: Vec<Checked<String>> = lot
            .par_iter()
            .map(|line| desk.answer(line.as_bytes()).map(|answer| answer.to_string()))
            .collect();
        let served = |a: &&Checked<String>| a.as_ref().is_ok_and(|a| a.contains("\"fits\":true"));
        refused += answers.len() - answers.iter().filter(served).count();
        desk.tidy();
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(Timed { questions: lines.len(), layouts, refused, seconds })
}

/// Questions that each give one factor of one operator other axes than Megatron's layouts do: as
/// many schedules as questions, each to be lowered.
fn schedules(path: &Path, cluster: &str, count: usize) -> Outcome<(Vec<String>, usize)> {
    let files = input::model(path)?;
    let args = ModelArgs { path: path.to_path_buf(), assume: None, dtype: None };
    let model = facade::read_model(&args.request(&files)?).in_source(&files.config)?;
    let taken = input::cluster(cluster)?;
    let facts = Facts::of(&model.logical);
    let mut lines = Vec::new();
    for degrees in legal_degrees(&facts, taken.devices()) {
        let mesh = Groups::new(&degrees, &facts, taken.node.devices).mesh;
        for (func, name, factor) in factors(&model.logical) {
            let axes = mesh.axes.iter().map(|a| a.name.as_str()).chain([""]);
            lines.extend(axes.map(|axes| {
                let schedule = json!({
                    "degrees": degrees.flag(),
                    "both": {func: {name: {factor.as_str(): axes}}},
                });
                json!({
                    "model": path.display().to_string(),
                    "cluster": cluster,
                    "schedule": schedule,
                    "isl": 1024,
                    "osl": 256,
                    "concurrency": 64,
                })
                .to_string()
            }));
        }
    }
    // Neighbours differ in one axis: every so many lines are as far apart as the space.
    let step = (lines.len() / count.max(1)).max(1);
    let lines: Vec<String> = lines.into_iter().step_by(step).take(count).collect();
    let layouts = lines.len();
    Ok((lines, layouts))
}

/// Function, operator and factor of everything that a schedule may split.
fn factors(module: &Module) -> Vec<(&str, &str, String)> {
    let mut out = Vec::new();
    for func in module.funcs.values() {
        for &inst in &func.body {
            let data = &func.insts[inst];
            let rule = func.rule(inst);
            let (Some(rule), Some(&value)) = (rule, data.results.first()) else { continue };
            let name = func.values[value].name.as_str();
            out.extend(rule.factors.into_iter().map(|f| (func.name.as_str(), name, f.name)));
        }
    }
    out
}

/// Questions as lines, and the number of layouts that they name.
fn questions(path: &Path, cluster: &str, count: usize) -> Outcome<(Vec<String>, usize)> {
    let files = input::model(path)?;
    let args = ModelArgs { path: path.to_path_buf(), assume: None, dtype: None };
    let model = facade::read_model(&args.request(&files)?).in_source(&files.config)?;
    let devices = input::cluster(cluster)?.devices();
    let layouts = legal_degrees(&Facts::of(&model.logical), devices);
    let line = |layout: &Degrees, (isl, osl): (u64, u64), concurrency: u64| {
        let Degrees { tp, pp, dp, cp, ep, etp } = layout;
        json!({
            "model": path.display().to_string(),
            "cluster": cluster,
            "layout": {"tp": tp, "pp": pp, "dp": dp, "cp": cp, "ep": ep, "etp": etp},
            "isl": isl,
            "osl": osl,
            "concurrency": concurrency,
        })
        .to_string()
    };
    let loads = CONCURRENCY.iter().flat_map(|&c| LOADS.iter().map(move |&load| (load, c)));
    let all = loads.flat_map(|(load, c)| layouts.iter().map(move |d| line(d, load, c)));
    Ok((all.take(count).collect(), layouts.len().min(count)))
}
