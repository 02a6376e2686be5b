//! A plan on one screen.

use super::document::Document;
use super::layouts;
use super::sources::{self, plus_minus};
use crate::commands::figures::{count, counted, gib, kernels, magnitude, percent, rate};
use shardc::facade::{Exchange, PhasePlan, Plan};
use shardc_cost::serving::{Limit, Objective};
use shardc_cost::time::Ns;
use shardc_frontend::spec::{Scales, Scheme};
use shardc_passes::evaluate::Category;
use shardc_passes::search::{Proof, WITHOUT_POLICY};
use shardc_passes::strategy::megatron::Phase;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

/// The screen of a plan; `written` are the files of its directory.
pub fn show(document: &Document<'_>, directory: Option<&Path>, written: &[String]) -> String {
    let mut out = String::new();
    model(&mut out, document);
    cluster(&mut out, document);
    degrees(&mut out, document);
    service(&mut out, document);
    let (left, right) = (memory(document), time(document));
    side_by_side(&mut out, &left, &right);
    collectives(&mut out, document);
    if let Some(algebra) = &document.plan.best.algebra {
        out.push_str(&super::algebra::screen(algebra, &document.plan.best));
    }
    let _ = writeln!(out, "{}", sources::constants(document.plan));
    files(&mut out, directory, written);
    for note in &document.plan.notes {
        let _ = writeln!(out, "{note}");
    }
    out
}

/// What kept the batch from growing, in words.
pub fn limit(limit: Limit) -> &'static str {
    match limit {
        Limit::Concurrency => "the requests in flight",
        Limit::KvMemory => "memory for the KV cache",
        Limit::MaxBatch => "the largest batch of a replica",
        Limit::Latency => "the limits on latency",
        Limit::Objective => "the objective: a larger batch gains nothing",
        Limit::Streaming => "what the server streams to clients",
    }
}

fn model(out: &mut String, document: &Document<'_>) {
    let (model, spec) = (&document.plan.model, &document.plan.model.spec);
    let parameters = |n: shardc_ir::diag::Result<u64>| n.map_or("?".to_string(), magnitude);
    let _ = writeln!(
        out,
        "model     {} ({}): {} parameters, {} active, {}",
        spec.name,
        spec.family,
        parameters(spec.parameters()),
        parameters(spec.active_parameters()),
        counted(spec.layers.len() as u64, "layer")
    );
    let weights = match &spec.quantisation.scheme {
        None => format!("weights and activations {}", spec.dtype),
        Some(scheme) => format!("weights {}, activations {}", stored(scheme), spec.dtype),
    };
    let kv = spec.kv_bytes_per_token(model.kv_dtype);
    let _ = writeln!(
        out,
        "          {weights}, KV cache {}: {} bytes a token",
        model.kv_dtype,
        count(kv)
    );
}

/// `f8e4m3 (fp8, blocks of 128 × 128)`.
fn stored(scheme: &Scheme) -> String {
    let scales = match scheme.storage.scales {
        Scales::None => String::new(),
        Scales::Tensor { .. } => ", one scale a matrix".to_string(),
        Scales::Row { .. } => ", one scale a row".to_string(),
        Scales::Block { rows, cols, .. } => format!(", blocks of {rows} × {cols}"),
    };
    let experts = if scheme.experts_only { ", experts only" } else { "" };
    format!("{} ({}{scales}{experts})", scheme.storage.dtype, scheme.method)
}

fn cluster(out: &mut String, document: &Document<'_>) {
    let (plan, request) = (document.plan, document.request);
    let load = &request.load;
    let _ = writeln!(out, "cluster   {}; {}", plan.cluster.summary(), kernels(&request.profile));
    let asked = match (load.concurrency, load.objective) {
        (Some(n), _) => format!("{} in flight", counted(n, "request")),
        (None, Objective::Throughput) => "the batch with most throughput".to_string(),
        (None, Objective::Latency) => "one request, as fast as can be".to_string(),
    };
    let limited = [("TTFT", load.ttft_limit), ("TPOT", load.tpot_limit)]
        .iter()
        .filter_map(|(name, limit)| limit.map(|l| format!(", {name} up to {l}")))
        .collect::<String>();
    let _ = writeln!(
        out,
        "load      {} in{}, {} out, memory for {}; {asked}{limited}",
        counted(load.isl, "token"),
        if load.prefilled { " and prefilled" } else { "" },
        count(load.osl),
        count(request.context())
    );
    let reading = plan.reading.map_or(String::new(), |r| format!(", reading {}", r.name()));
    let (search, plans) = (document.search(), counted(plan.evaluations, "plan"));
    let ran = plan.chosen.map_or(String::new(), |c| format!(" ran {}", c.name));
    let _ = writeln!(out, "search    {search}{ran}{reading}: {plans} evaluated");
    if let Some(chosen) = &plan.chosen {
        let _ = writeln!(out, "          {}; {WITHOUT_POLICY}", chosen.why);
    }
}

fn degrees(out: &mut String, document: &Document<'_>) {
    let plan = document.plan;
    let pp = plan.best.degrees.pp;
    let by_operator = plan.best.layouts.is_some();
    let row = |phase: &PhasePlan| {
        let d = layouts::headline(&plan.best, phase.phase);
        [d.tp, pp, d.dp, d.cp, d.kvp, d.ep, d.etp, d.edp].map(|n| n.to_string())
    };
    let names = ["tp", "pp", "dp", "cp", "kvp", "ep", "etp", "edp"].map(str::to_string);
    let digits = plan.phases.iter().flat_map(row).map(|n| n.len()).max().unwrap_or(1);
    let line = |cells: [String; 8]| -> String {
        cells.iter().map(|cell| format!("{cell:>width$}", width = digits.max(3) + 2)).collect()
    };
    let _ = writeln!(out, "\ndegrees  {}   step       of", line(names));
    for phase in &plan.phases {
        let mixed = match (phase.mixed, by_operator) {
            (false, _) => "",
            (true, false) => ", mixed by pins",
            (true, true) => ", mixed by operator",
        };
        let (name, row, time) = (phase.phase.name(), line(row(phase)), Ns::new(phase.time_ns));
        let _ = writeln!(out, "  {name:7}{row}   {time:9}  {}{mixed}", step(document, phase));
    }
    let groups = &plan.best.groups;
    let axes = |(name, size): &(&str, u64)| {
        let shown = groups.axes(name).iter().map(|a| groups.mesh.show(*a).to_string());
        let shown = shown.collect::<Vec<_>>().join("·").replace('"', "");
        (*size > 1 && !shown.is_empty()).then(|| format!("{name} {size} = {shown}"))
    };
    let d = layouts::headline(&plan.best, Phase::Decode);
    let cached = if by_operator { ("kvp", d.kvp) } else { ("cp", plan.best.degrees.cp) };
    let sizes = [("tp", d.tp), cached, ("dp", d.dp), ("ep", d.ep), ("etp", d.etp), ("edp", d.edp)];
    let axes: Vec<String> = sizes.iter().filter_map(axes).collect();
    let parts = [vec![groups.mesh.to_string()], axes].concat();
    let _ = writeln!(out, "  {}", filled(&parts).join("\n    "));
    for remark in remarks(document) {
        let _ = writeln!(out, "  {remark}");
    }
}

/// What the degrees alone do not say.
fn remarks(document: &Document<'_>) -> Vec<String> {
    let plan = document.plan;
    let d = &plan.best.degrees;
    let mut out = Vec::new();
    if d.cp > 1 && plan.best.layouts.is_none() {
        out.push(format!(
            "cp {0} splits new tokens in prefill; the same GPUs split cached tokens in decode: kvp {0}",
            d.cp
        ));
    }
    if d.pp > 1 {
        out.push(format!("stages of {} layers", runs(&plan.stage_layers)));
    }
    let rounds = plan.phases.iter().filter(|p| p.micro_batches > 1);
    out.extend(rounds.map(|phase| {
        format!(
            "a {} step is the longer of one micro-batch through all stages and {} through the slowest, {} each",
            phase.phase.name(),
            phase.micro_batches,
            Ns::new(phase.interval_ns)
        )
    }));
    out.extend(exchange(&plan.phases));
    out.extend(chunk(plan));
    out
}

/// How many tokens of prompts are computed at once.
fn chunk(plan: &Plan) -> Option<String> {
    let most = counted(plan.best.chunk, "token");
    match (plan.load.prefilled, plan.load.mixes()) {
        (true, _) => None,
        (false, true) => Some(format!("a step holds up to {most} of prompts beside decoding")),
        (false, false) => Some(format!("a prefill step holds up to {most}, or one prompt")),
    }
}

/// How tokens reach experts, once where the phases agree.
fn exchange(phases: &[PhasePlan]) -> Option<String> {
    let way = |p: &PhasePlan| p.exchange.map_or("no collective", Exchange::name);
    let first = phases.iter().find(|p| p.exchange.is_some())?;
    let ways: Vec<String> = match phases.iter().all(|p| p.exchange == first.exchange) {
        true => vec![way(first).to_string()],
        false => phases.iter().map(|p| format!("{} in {}", way(p), p.phase.name())).collect(),
    };
    Some(format!("tokens reach experts by {}", ways.join(", by ")))
}

/// What one step of a phase processes.
fn step(document: &Document<'_>, phase: &PhasePlan) -> String {
    let serving = &document.plan.best.serving;
    match phase.phase {
        Phase::Prefill => {
            format!("{} × {} a replica", count(phase.requests), counted(phase.tokens, "token"))
        }
        Phase::Decode if phase.requests < serving.replica_batch => format!(
            "{} a replica, {} in a micro-batch",
            counted(serving.replica_batch, "request"),
            count(phase.requests)
        ),
        Phase::Decode => format!("{} a replica", counted(serving.replica_batch, "request")),
    }
}

/// `5 × 8, 3 × 7`: how many stages have how many layers.
fn runs(layers: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &n in layers {
        match runs.last_mut() {
            Some((count, of)) if *of == n => *count += 1,
            _ => runs.push((1, n)),
        }
    }
    let shown: Vec<String> = runs.iter().map(|(count, of)| format!("{count} × {of}")).collect();
    shown.join(", ")
}

fn service(out: &mut String, document: &Document<'_>) {
    let (plan, s) = (document.plan, &document.plan.best.serving);
    let (per_gpu, errors) = (s.tokens_per_s_per_device, plan.service_errors());
    let _ = writeln!(
        out,
        "\nservice   {} tokens/s per GPU {}, {} in all; TTFT {} {}, TPOT {} {}",
        rate(per_gpu),
        plus_minus(errors.throughput),
        rate(per_gpu * plan.cluster.devices() as f64),
        s.ttft,
        plus_minus(errors.ttft),
        s.tpot,
        plus_minus(errors.tpot)
    );
    let _ = writeln!(
        out,
        "          {} running ({} in the fullest replica), limited by {}",
        counted(s.batch, "request"),
        count(s.replica_batch),
        limit(s.limited_by)
    );
    if let Some(proof) = &plan.proof {
        let _ = writeln!(out, "          {}", quality(proof));
    }
}

/// Beyond this a bound says little of a plan.
const LOOSE: f64 = 0.2;

/// How good a plan is, in a sentence.
fn quality(proof: &Proof) -> String {
    let stop = proof.stop;
    match &proof.unsearched {
        Some(reason) => format!("the best degrees; layouts were not searched: {reason}"),
        None if proof.gap() > LOOSE => format!(
            "at most {:.0} % better is possible in this space under this cost model, a loose bound; {stop}",
            proof.gap() * 100.0
        ),
        None => format!(
            "within {:.1} % of the best possible in this space under this cost model; {stop}",
            proof.gap() * 100.0
        ),
    }
}

fn memory(document: &Document<'_>) -> Vec<String> {
    let m = &document.plan.best.memory;
    let mut rows = vec!["memory of the fullest GPU".to_string()];
    let sources = document.plan.memory_sources();
    let row = |(name, bytes): &(&str, u64)| {
        let source = sources.iter().find(|(item, _)| item == name).map_or("", |(_, word)| word);
        format!("  {:14}{:>8} GiB  {source}", name.replace('_', " "), gib(*bytes))
    };
    rows.extend(m.items().iter().map(row));
    rows.push(format!("  {:14}{:>8} GiB", "total", gib(m.total())));
    rows.push(format!("  {:14}{:>8} GiB", "of", gib(m.usable)));
    rows
}

fn time(document: &Document<'_>) -> Vec<String> {
    let plan = document.plan;
    let what = if plan.best.degrees.pp > 1 { "a micro-batch, all stages" } else { "a step" };
    let phases: Vec<&PhasePlan> = plan.phases.iter().collect();
    let heads: String = phases.iter().map(|p| format!("{:>20}", p.phase.name())).collect();
    let heads = format!("{heads}   rests on");
    let mut rows = vec![format!("{:16}{heads}", format!("time of {what}"))];
    if what.len() > 10 {
        rows = vec![format!("time of {what}"), format!("{:16}{heads}", "")];
    }
    let categories: BTreeSet<Category> =
        phases.iter().flat_map(|p| p.breakdown.times.iter().map(|(c, _)| *c)).collect();
    let of = |p: &PhasePlan, c: Category| {
        p.breakdown.times.iter().find(|(other, _)| *other == c).map_or(Ns::ZERO, |(_, ns)| *ns)
    };
    let total = |p: &PhasePlan| p.breakdown.times.iter().map(|(_, ns)| *ns).sum::<Ns>();
    for category in categories {
        let cell = |p: &&PhasePlan| {
            let ns = of(p, category);
            format!("{ns:>12}{:>8}", percent(ns, total(p)))
        };
        rows.push(format!(
            "  {:14}{}   {}",
            category.name(),
            phases.iter().map(cell).collect::<String>(),
            sources::of_category(plan, category)
        ));
    }
    let totals: String = phases.iter().map(|p| format!("{:>12}{:8}", total(p), "")).collect();
    rows.push(format!("  {:14}{}", "total", totals.trim_end()));
    rows
}

fn side_by_side(out: &mut String, left: &[String], right: &[String]) {
    out.push('\n');
    for i in 0..left.len().max(right.len()) {
        let cell = |rows: &[String]| rows.get(i).cloned().unwrap_or_default();
        let line = format!("{:41}{}", cell(left), cell(right));
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

fn collectives(out: &mut String, document: &Document<'_>) {
    let phases = &document.plan.phases;
    out.push('\n');
    for phase in phases {
        let list: Vec<String> =
            phase.collectives.iter().map(|(name, n)| format!("{} {name}", count(*n))).collect();
        let list = if list.is_empty() { "none".to_string() } else { list.join(", ") };
        let what = if document.plan.best.degrees.pp > 1 { "micro-batch" } else { "step" };
        let _ = writeln!(out, "collectives of one GPU in a {} {what}: {list}", phase.phase.name());
    }
}

fn files(out: &mut String, directory: Option<&Path>, written: &[String]) {
    let Some(dir) = directory else { return };
    let of = |phase: &str| written.iter().filter(|f| f.contains(&format!("ir/{phase}/"))).count();
    let _ = writeln!(
        out,
        "files     {}: plan.json, schedule.toml, weights.json, ir/prefill ({} programs), ir/decode ({} programs), launch, certificate",
        dir.display(),
        of("prefill"),
        of("decode")
    );
}

/// Parts between semicolons, in lines that fit the screen.
fn filled(parts: &[String]) -> Vec<String> {
    const WIDTH: usize = 112;
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.chars().count() + part.chars().count() < WIDTH => {
                line.push_str("; ");
                line.push_str(part);
            }
            Some(line) => {
                line.push(';');
                lines.push(part.clone());
            }
            None => lines.push(part.clone()),
        }
    }
    lines
}
