//! Errors of predictions by group, and how often the layout predicted best is nearly the best.

use super::serving::{Point, stay};
use serde_json::Value;
use std::collections::BTreeMap;

/// How near the measured best a layout must come to count as found.
const NEAR: f64 = 0.03;

/// Ratios of predicted over measured values, by metric, engine, GPU and model.
#[derive(Debug, Default)]
pub(super) struct Accuracy(BTreeMap<[String; 4], Vec<f64>>);

impl Accuracy {
    pub fn add(&mut self, metric: &str, point: &Point, predicted: f64, measured: f64) {
        let of = |model: &str| [metric, &point.engine, &point.gpu, model].map(str::to_string);
        for key in [of(&point.model), of("")] {
            self.0.entry(key).or_default().push(predicted / measured);
        }
    }

    /// A line a group; one for all models of an engine and GPU before those of each.
    pub fn to_text(&self) -> String {
        let mut out = format!(
            "{:>5} {:>7} {:>7} {:>7}  metric, engine, GPU, model\n",
            "rows", "MAPE", "bias", "median"
        );
        for (key, ratios) in &self.0 {
            let count = ratios.len() as f64;
            let mean = |of: fn(f64) -> f64| ratios.iter().map(|r| of(*r)).sum::<f64>() / count;
            let mut sorted = ratios.clone();
            sorted.sort_by(f64::total_cmp);
            let [metric, engine, gpu, model] = key;
            let model = if model.is_empty() { "all models" } else { model };
            out += &format!(
                "{:>5} {:>6.1}% {:>+6.1}% {:>7.2}  {metric}, {engine}, {gpu}, {model}\n",
                ratios.len(),
                100.0 * mean(|r| (r - 1.0).abs()),
                100.0 * mean(|r| r - 1.0),
                sorted[sorted.len() / 2],
            );
        }
        out
    }
}

/// Layouts of one load: their predicted and measured output, by load.
#[derive(Debug, Default)]
pub(super) struct Ranks(BTreeMap<(bool, Point), Vec<(f64, f64)>>);

impl Ranks {
    /// Adds a layout to the group of equal numbers of GPUs, and to the one of any number.
    pub fn add(&mut self, point: &Point, measured: &BTreeMap<String, f64>, answer: &Value) {
        let served = measured.get("output_throughput").map(|rate| rate / point.gpus as f64);
        let per_gpu = served.or(measured.get("output_throughput_per_gpu").copied());
        let by_times = || {
            let ms = match (measured.get("e2e_latency"), measured.get("ttft")) {
                (Some(seconds), _) => seconds * 1e3,
                (None, Some(ttft)) => stay(point, *ttft, *measured.get("tpot")?)?,
                _ => return None,
            };
            let tokens = point.concurrency? as f64 * point.osl as f64;
            Some(tokens / ms * 1e3 / point.gpus as f64)
        };
        let rate = answer["throughput_tokens_per_s_per_gpu"].as_f64();
        let Some((predicted, measured)) = rate.zip(per_gpu.or_else(by_times)) else { return };
        let load = Point { layout: (0, 0, 0), ..point.clone() };
        let any = Point { gpus: 0, ..load.clone() };
        for key in [(false, load), (true, any)] {
            self.0.entry(key).or_default().push((predicted, measured));
        }
    }

    /// How many groups of two layouts or more have their best, by engine and kind of group.
    pub fn to_text(&self) -> String {
        let mut found: BTreeMap<(bool, &str), (u64, u64)> = BTreeMap::new();
        for ((any, point), layouts) in self.0.iter().filter(|(_, layouts)| layouts.len() > 1) {
            let chosen = layouts.iter().max_by(|a, b| a.0.total_cmp(&b.0));
            let best = layouts.iter().map(|l| l.1).fold(0.0, f64::max);
            let near = chosen.is_some_and(|l| l.1 >= best * (1.0 - NEAR));
            for engine in [point.engine.as_str(), ""] {
                let entry = found.entry((*any, engine)).or_default();
                *entry = (entry.0 + u64::from(near), entry.1 + 1);
            }
        }
        let mut out =
            "the layout predicted to yield most per GPU is within 3 % of the best\n".to_string();
        for ((any, engine), (near, groups)) in found {
            let kind = if any { "of any number of GPUs" } else { "of equal GPUs" };
            let engine = if engine.is_empty() { "all engines" } else { engine };
            let share = 100.0 * near as f64 / groups as f64;
            out += &format!("{near:>5} of {groups:>4} {share:>6.1}%  layouts {kind}, {engine}\n");
        }
        out
    }
}
