//! Predictions beside served rows: how far off, and whether the best layout is found.

use super::accuracy::{Accuracy, Ranks};
use crate::commands::cost::table::{Row, Table};
use crate::commands::evaluate::question::Desk;
use crate::failure::{InSource, Outcome};
use crate::input::{self, Source};
use crate::output;
use rayon::prelude::*;
use serde_json::{Value, json};
use shardc_ir::diag::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// Rows of one point: what was served, and every metric that was measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub source: String,
    pub engine: String,
    pub model: String,
    pub gpu: String,
    pub precision: String,
    pub gpus: u64,
    /// tp, pp and ep as the row has them; an ep of 0 is not given.
    pub layout: (u64, u64, u64),
    pub isl: u64,
    pub osl: u64,
    /// Requests in flight; `None` is as many as yield most.
    pub concurrency: Option<u64>,
    /// Whether a batch starts and ends together.
    pub fixed_batch: bool,
}

/// Compares every row of a table of served points with its prediction and prints errors by engine,
/// GPU and model.
///
/// `models` is a table of model names and paths of their configurations, relative to itself.
///
/// Errors: a table that cannot be read.
pub fn run(path: &Path, models: &Path) -> Outcome {
    let configs = configs(models)?;
    let source = input::pins(path)?;
    let mut points: BTreeMap<Point, BTreeMap<String, f64>> = BTreeMap::new();
    let table = Table::parse(&source.text).in_source(&source)?;
    for row in table.rows() {
        let (point, metric, value) = row.and_then(|row| read(&row)).in_source(&source)?;
        points.entry(point).or_default().insert(metric, value);
    }
    let desk = Desk::default();
    let all: Vec<(&Point, &BTreeMap<String, f64>)> = points.iter().collect();
    let answers: Vec<Result<Value>> =
        all.par_iter().map(|(point, _)| ask(&desk, point, &configs)).collect();
    let (mut accuracy, mut ranks) = (Accuracy::default(), Ranks::default());
    let mut unanswered: BTreeMap<String, u64> = BTreeMap::new();
    for ((point, measured), answer) in all.into_iter().zip(answers) {
        let answer = match answer {
            Ok(answer) if answer["fits"] == true => answer,
            Ok(answer) => {
                *unanswered.entry(answer["reason"].to_string()).or_default() += 1;
                continue;
            }
            Err(diagnostic) => {
                *unanswered.entry(diagnostic.message.clone()).or_default() += 1;
                continue;
            }
        };
        for (metric, value) in measured {
            if let Some(predicted) = predicted(metric, point, &answer) {
                accuracy.add(metric, point, predicted, *value);
            }
        }
        ranks.add(point, measured, &answer);
    }
    let left = unanswered.iter().map(|(why, n)| format!("{n} points left out: {why}\n"));
    let left: String = left.collect();
    output::print(&format!("{}\n{}\n{left}", accuracy.to_text(), ranks.to_text()))
}

/// Paths of configurations by the names of models.
fn configs(path: &Path) -> Outcome<BTreeMap<String, String>> {
    let source: Source = input::pins(path)?;
    let table = Table::parse(&source.text).in_source(&source)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut out = BTreeMap::new();
    for row in table.rows() {
        let cell = |row: &Row<'_>, name: &str| row.text(name).map(str::to_string);
        let entry = row.and_then(|row| Ok((cell(&row, "model")?, cell(&row, "config")?)));
        let (model, config) = entry.in_source(&source)?;
        out.insert(model, folder.join(config).display().to_string());
    }
    Ok(out)
}

fn read(row: &Row<'_>) -> Result<(Point, String, f64)> {
    let text = |name: &str| row.text(name).map(str::to_string);
    // Counts may be written as 1.0, and may be missing.
    let whole =
        |name: &str| row.get(name).and_then(|c| c.parse::<f64>().ok()).unwrap_or(0.0) as u64;
    let point = Point {
        source: text("source")?,
        engine: text("engine")?,
        model: text("model")?,
        gpu: text("gpu")?,
        precision: text("precision")?,
        gpus: whole("n_gpus"),
        layout: (whole("tp").max(1), whole("pp").max(1), whole("ep")),
        isl: whole("isl"),
        osl: whole("osl"),
        concurrency: Some(whole("batch_or_concurrency")).filter(|n| *n > 0),
        fixed_batch: row.get("note").is_some_and(|note| note.contains("static batch")),
    };
    let value = row.positive("value")?;
    Ok((point, text("metric")?, value))
}

/// The prediction of a point.
fn ask(desk: &Desk, point: &Point, configs: &BTreeMap<String, String>) -> Result<Value> {
    let (tp, pp, ep) = point.layout;
    // Where experts are split, tp counts the parts of an expert, and attention is split over all.
    let layout = match ep {
        0 => json!({"tp": tp, "pp": pp}),
        _ => json!({"tp": point.gpus / pp, "pp": pp, "ep": ep, "etp": tp}),
    };
    let engine = point.engine.as_str();
    // Checkpoints of these makers hold scales for an fp8 cache.
    let fp8_cache = engine.starts_with("TensorRT") || point.model.starts_with("nvidia/");
    let question = json!({
        "model": configs.get(&point.model).map_or(point.model.as_str(), String::as_str),
        "cluster": cluster(&point.gpu),
        "gpus": point.gpus,
        "layout": layout,
        "profile": profile(engine),
        "precision": point.precision,
        "kv_precision": (point.precision == "fp8" && fp8_cache).then_some("fp8"),
        "isl": point.isl,
        "osl": point.osl,
        "concurrency": point.concurrency,
        "waves": point.fixed_batch.then_some(1 << 20),
    });
    desk.answer(question.to_string().as_bytes()).map_err(|fault| fault.diagnostic)
}

/// The machine of a GPU's name; Argonne's A100 have 40 GB.
fn cluster(gpu: &str) -> &'static str {
    match gpu {
        "A100-SXM-80GB" => "a100x8",
        gpu if gpu.starts_with("A100") => "a100-40gx8",
        gpu if gpu.starts_with("H200") => "h200x8",
        gpu if gpu.starts_with("B200") => "b200x8",
        gpu if gpu.starts_with("L40S") => "l40sx8",
        _ => "h100x8",
    }
}

/// The profile of an engine: TensorRT-LLM's before 1.0 are compiled engines.
fn profile(engine: &str) -> &'static str {
    match engine.to_ascii_lowercase() {
        engine if engine.starts_with("vllm") => "vllm",
        engine if engine.starts_with("sglang") => "sglang",
        engine if engine.starts_with("trtllm") => "trtllm",
        _ => "tensorrt",
    }
}

/// What an answer says of a metric, in the metric's unit.
fn predicted(metric: &str, point: &Point, answer: &Value) -> Option<f64> {
    let number = |key: &str| answer[key].as_f64();
    let rate = number("throughput_tokens_per_s_per_gpu")?;
    match metric {
        "ttft" | "first_token_latency" => number("ttft_ms"),
        "tpot" => number("tpot_ms"),
        "output_throughput" => Some(rate * point.gpus as f64),
        "output_throughput_per_gpu" => Some(rate),
        "e2e_latency" => stay(point, number("ttft_ms")?, number("tpot_ms")?).map(|ms| ms / 1e3),
        _ => None,
    }
}

/// Time of a whole request, ms.
pub(super) fn stay(point: &Point, ttft: f64, tpot: f64) -> Option<f64> {
    Some(ttft + tpot * point.osl.checked_sub(1)? as f64)
}
