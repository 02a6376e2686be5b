//! `shardc bench exact`: what the search `exact` gains over degrees, how sure it is, and what it costs,
//! whole and point by point.

use super::search::case::{self, LoadArg};
use crate::failure::{InSource, Outcome};
use crate::{input, output};
use serde_json::Value;
use shardc::codes;
use shardc::facade::{ModelRequest, Programs, read_model};
use shardc_cost::machine::Cluster;
use shardc_cost::serving::Load;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_passes::search::{Evaluated, Evaluator, Found, Method, Points, search};
use std::path::PathBuf;
use std::time::Instant;

/// Compare `exact` with `degrees`: models × numbers of layers × clusters × loads.
///
/// Of each: output tokens a second and GPU of both; under a limit on TPOT also read off both plans'
/// frontiers at exactly that TPOT, between batches; how much better a plan may be; seconds of both.
#[derive(Clone, Debug, clap::Args)]
pub struct ExactArgs {
    /// Model configurations: config.json files, or directories that hold one
    #[arg(value_name = "MODEL", required = true)]
    models: Vec<PathBuf>,
    /// Clusters: presets or files
    #[arg(long, value_name = "PRESET|FILE,…", value_delimiter = ',', default_value = "h100x8x4")]
    clusters: Vec<String>,
    /// Loads: tokens in / tokens out, with a limit on TPOT in ms after @
    #[arg(long, value_name = "ISL/OSL[@MS],…", value_delimiter = ',', default_value = "2048/512")]
    loads: Vec<LoadArg>,
    /// Serve answers only: prompts come prefilled, as into a decode pool
    #[arg(long)]
    decode: bool,
    /// Numbers of layers to give the models instead of their own
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=10_000))]
    layers: Vec<u64>,
    /// Time single points instead: one of each number of stages and replicas, at this batch of a
    /// replica or the largest that fits
    #[arg(long, value_name = "BATCH", value_parser = clap::value_parser!(u64).range(1..=65_536))]
    points: Option<u64>,
}

/// Runs the command.
///
/// Errors: input that cannot be read, or a pass refuses a model.
pub fn run(args: &ExactArgs) -> Outcome {
    let title = match args.points {
        Some(batch) => format!(
            "points at batch {batch}, CPU seconds of one thread\n{:>6} {:>9} {:>9}  case\n",
            "points", "mean", "most"
        ),
        None => format!(
            "seconds and CPU seconds, {} threads\n{:>10} {:>10} {:>7} {:>9} {:>9} {:>9} {:>9}  case\n",
            rayon::current_num_threads(),
            "degrees",
            "exact",
            "gain",
            "at most",
            "degrees",
            "exact",
            "CPU"
        ),
    };
    output::print(&title)?;
    for path in &args.models {
        let files = input::model(path)?;
        for layers in wanted(&args.layers) {
            let config = with_layers(&files.config.text, layers)?;
            for cluster in &args.clusters {
                let cluster = input::cluster(cluster)?;
                for &load in &args.loads {
                    let layers = layers.map_or(String::new(), |n| format!(", {n} layers"));
                    let kind = if args.decode { ", decode" } else { "" };
                    let name = &files.name;
                    let title = format!("{name}{layers} on {}, {load}{kind}", cluster.name);
                    let lines = of_case(args, &files.name, &config, &cluster, load);
                    let lines = lines.in_source(&files.config)?;
                    output::print(&format!("{lines}  {title}\n"))?;
                }
            }
        }
    }
    Ok(())
}

/// Numbers of layers; the model's own where none are named.
fn wanted(layers: &[u64]) -> Vec<Option<u64>> {
    if layers.is_empty() { vec![None] } else { layers.iter().copied().map(Some).collect() }
}

/// A configuration with another number of layers.
fn with_layers(config: &str, layers: Option<u64>) -> Result<String> {
    let Some(layers) = layers else { return Ok(config.to_string()) };
    let unknown = || {
        let message = "the configuration has no num_hidden_layers to change";
        let help = "leave out --layers, or name models that have it";
        Box::new(Diagnostic::error(codes::USAGE, message).help(help))
    };
    let mut value: Value = serde_json::from_str(config).map_err(|_| unknown())?;
    let inner = value.pointer("/text_config/num_hidden_layers").is_some();
    let at = if inner { "/text_config/num_hidden_layers" } else { "/num_hidden_layers" };
    *value.pointer_mut(at).ok_or_else(unknown)? = layers.into();
    Ok(value.to_string())
}

fn of_case(
    args: &ExactArgs,
    name: &str,
    config: &str,
    cluster: &Cluster,
    load: LoadArg,
) -> Result<String> {
    let mut request = case::request(config, cluster, load);
    request.load = Load { prefilled: args.decode, ..request.load };
    let model = read_model(&ModelRequest { name: name.to_string(), ..request.model.clone() })?;
    let programs = Programs::of(&model)?;
    let evaluator = programs.evaluator(&request, &request.cluster, None);
    match args.points {
        Some(batch) => points(&evaluator, batch),
        None => compared(&evaluator),
    }
}

/// A search's outcome with what it took.
struct Timed {
    found: Option<Found>,
    seconds: f64,
    cpu: f64,
}

/// Both searches on one case.
fn compared(evaluator: &Evaluator<'_>) -> Result<String> {
    let run = |method: Method| -> Result<Timed> {
        let (begun, cpu) = (Instant::now(), cpu_seconds());
        let found = search(evaluator, method, None, &mut |_, _| {})?.ok();
        Ok(Timed { found, seconds: begun.elapsed().as_secs_f64(), cpu: cpu_seconds() - cpu })
    };
    let (degrees, exact) = (run(Method::Degrees)?, run(Method::Exact)?);
    let (Some(a), Some(b)) = (&degrees.found, &exact.found) else {
        return Ok("no plan fits".to_string());
    };
    let worth = |found: &Found| found.best.serving.tokens_per_s_per_device;
    let gap = b.proof.as_ref().map_or(f64::NAN, |proof| proof.gap());
    let mut line = format!(
        "{:>10.1} {:>10.1} {:>6.3}x {:>8.1}% {:>9.2} {:>9.2} {:>9.2}",
        worth(a),
        worth(b),
        worth(b) / worth(a),
        gap * 100.0,
        degrees.seconds,
        exact.seconds,
        exact.cpu
    );
    if let Some(limit) = evaluator.load.tpot_limit {
        let at = |plan: &Evaluated| evaluator.at_tpot(plan, limit);
        if let (Some(a), Some(b)) = (at(&a.best)?, at(&b.best)?) {
            line += &format!("  at the limit {a:.1} and {b:.1}, {:.3}x", b / a);
        }
    }
    Ok(line)
}

/// CPU seconds that the threads of this process took so far, where the system tells; else 0.
fn cpu_seconds() -> f64 {
    let ns = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.filter_map(ns).sum::<f64>() / 1e9
}

/// Times every point at a batch.
fn points(evaluator: &Evaluator<'_>, batch: u64) -> Result<String> {
    let all = match Points::of(evaluator) {
        Ok(points) => points,
        Err(reason) => return Ok(format!("not searched: {reason}")),
    };
    let timed = |cell: usize| {
        let begun = cpu_seconds();
        all.solve(cell, batch).map(|_| cpu_seconds() - begun)
    };
    // Surfaces of the machine are made when first asked for.
    all.solve(0, batch);
    let times: Vec<f64> = (0..all.len()).filter_map(timed).collect();
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    let most = times.iter().copied().fold(0.0, f64::max);
    Ok(format!("{:>6} {mean:>8.3}s {most:>8.3}s", times.len()))
}
