//! `shardc bench algebra`: what other ways to compute the same are worth, model by model.

use super::search::case::{LoadArg, request};
use crate::failure::{InSource, Outcome};
use crate::{input, output};
use shardc::facade::{self, ModelRequest, Programs, Request, read_model};
use shardc_cost::machine::Cluster;
use shardc_cost::serving::Load;
use shardc_cost::time::Ns;
use shardc_ir::diag::Result;
use shardc_passes::egraph::module::Change;
use shardc_passes::evaluate::{Pricing, StepModel};
use shardc_passes::search::{Evaluated, Evaluator, Method, legal_degrees, step_bindings};
use shardc_passes::strategy::Degrees;
use shardc_passes::strategy::megatron::Phase;
use std::fmt::Write;
use std::path::PathBuf;

/// Price what other ways to compute the same are worth: rewrites of the e-graph, absorbed latent
/// attention, products in one kernel, the vocabulary and the keys in parts.
///
/// Prints Markdown: a row for each model, load and alternative. Everything is the evaluator's
/// prediction; nothing is run.
#[derive(Clone, Debug, clap::Args)]
pub struct AlgebraArgs {
    /// Model configurations: config.json files, or directories that hold one
    #[arg(value_name = "MODEL", required = true)]
    models: Vec<PathBuf>,
    /// A preset such as h100x8, or a cluster file
    #[arg(long, value_name = "PRESET|FILE", default_value = "h100x8")]
    cluster: String,
    /// Loads: tokens in / tokens out, with a limit on TPOT in ms after @
    #[arg(long, value_name = "ISL/OSL[@MS],…", value_delimiter = ',', default_value = "2048/512")]
    loads: Vec<LoadArg>,
    /// Requests in flight [default: as many as yield most tokens]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    concurrency: Option<u64>,
    /// The search whose plan is rewritten
    #[arg(long, value_name = "NAME", default_value = "degrees")]
    search: String,
}

/// Runs the command.
///
/// Errors: input that cannot be read, or a model that does not fit the cluster.
pub fn run(args: &AlgebraArgs) -> Outcome {
    let cluster = input::cluster(&args.cluster)?;
    let method = Method::parse(&args.search)?;
    output::print(&format!(
        "{} ({} devices), plans of `{}`, {}\n\n| model | load | alternative | phase | plain | with it | gain |\n|---|---|---|---|---|---|---|\n",
        cluster.name,
        cluster.devices(),
        args.search,
        args.concurrency.map_or("as many requests as yield most".to_string(), |n| {
            format!("{n} requests in flight")
        })
    ))?;
    for path in &args.models {
        let files = input::model(path)?;
        for asked in &args.loads {
            let request = request(&files.config.text, &cluster, *asked);
            let load = Load { concurrency: args.concurrency, ..request.load };
            let request = Request { method, load, ..request };
            let named = ModelRequest { name: files.name.clone(), ..request.model.clone() };
            let model = read_model(&named).in_source(&files.config)?;
            let programs = Programs::of(&model)?;
            let plan = facade::plan(&request, &model, &mut |_| {}).in_source(&files.config)?.best;
            let case = Case { request: &request, programs: &programs, plan: &plan };
            let name = files.name.split("__").last().unwrap_or(&files.name);
            let mut table = Table { lead: format!("{name} | {asked}"), text: String::new() };
            case.rows(&mut table).in_source(&files.config)?;
            output::print(&table.text)?;
        }
    }
    Ok(())
}

/// Rows of one model under one load.
struct Table {
    lead: String,
    text: String,
}

impl Table {
    /// Times: less is better.
    fn times(&mut self, what: &str, phase: &str, [before, after]: [f64; 2]) {
        let show = |ns: f64| Ns::from_ns(ns).to_string();
        self.row(what, phase, [show(before), show(after)], 1.0 - after / before.max(1.0));
    }

    /// Rates: more is better.
    fn rates(&mut self, what: &str, [before, after]: [f64; 2]) {
        let show = |rate: f64| format!("{rate:.1} tokens/s per GPU");
        self.row(
            what,
            "both",
            [show(before), show(after)],
            after / before.max(f64::MIN_POSITIVE) - 1.0,
        );
    }

    fn row(&mut self, what: &str, phase: &str, [before, after]: [String; 2], gain: f64) {
        let gain = gain * 100.0;
        let _ = writeln!(
            self.text,
            "| {} | {what} | {phase} | {before} | {after} | {gain:+.2} % |",
            self.lead
        );
    }
}

/// A model under a load.
struct Case<'a> {
    request: &'a Request,
    programs: &'a Programs,
    plan: &'a Evaluated,
}

impl Case<'_> {
    fn cluster(&self) -> &Cluster {
        &self.request.cluster
    }

    fn rows(&self, table: &mut Table) -> Result<()> {
        let evaluator = self.programs.evaluator(self.request, self.cluster(), None);
        self.graph(table, &evaluator)?;
        self.latents(table)?;
        self.kernels(table, &evaluator)?;
        self.vocabulary(table)?;
        self.keys(table, &evaluator)
    }

    /// What the e-graph makes of the plan: in all, and of each function that it changes.
    fn graph(&self, table: &mut Table, evaluator: &Evaluator<'_>) -> Result<()> {
        let rewritten = evaluator.with_algebra(self.plan)?;
        let Some(algebra) = &rewritten.algebra else { return Ok(()) };
        let rates = [algebra.rate_before, rewritten.serving.tokens_per_s_per_device];
        table.rates("e-graph, the plan", rates);
        for phase in algebra.phases.iter() {
            let taken = if phase.program.is_some() { "" } else { ", not taken" };
            for change in phase.changes.iter().filter(|c| c.times > 0 && c.after < c.before) {
                let what = format!("e-graph, @{} by {}{taken}", change.func, rules(change));
                let times = [change.before as f64, change.after as f64];
                table.times(&what, phase.phase.name(), times);
            }
        }
        Ok(())
    }

    /// Latent attention over the latents themselves, or over keys and values per head.
    fn latents(&self, table: &mut Table) -> Result<()> {
        let Programs { prefill, decode } = self.programs;
        if prefill == decode {
            return Ok(());
        }
        let form = |program: &shardc_ir::graph::Module| {
            let programs = Programs { prefill: program.clone(), decode: program.clone() };
            self.steps(&programs, None)
        };
        let (expanded, absorbed) = (form(prefill)?, form(decode)?);
        if let (Some(expanded), Some(absorbed)) = (expanded, absorbed) {
            for (at, phase) in [Phase::Prefill, Phase::Decode].into_iter().enumerate() {
                table.times(
                    "latent attention absorbed",
                    phase.name(),
                    [expanded[at], absorbed[at]],
                );
            }
        }
        Ok(())
    }

    /// Products of one operand as one kernel, which is how the evaluator prices them, or one by one.
    fn kernels(&self, table: &mut Table, evaluator: &Evaluator<'_>) -> Result<()> {
        let plan = self.plan;
        let lowered = evaluator.lower_plan(plan, &mut |_, _, _| {})?;
        let pricing = Pricing { cluster: self.cluster(), profile: &self.request.profile };
        for (phase, module) in
            [(Phase::Prefill, &lowered.prefill.0), (Phase::Decode, &lowered.decode.0)]
        {
            let at = (plan.degrees.dp, &plan.serving);
            let bind = step_bindings(module, phase, at, &evaluator.load);
            let merged = StepModel::of(module, self.cluster())?;
            let time = |model: &StepModel| model.time(pricing, &bind).latency.as_f64();
            let times = [time(&merged.with_products_apart()), time(&merged)];
            table.times("products of one operand merged", phase.name(), times);
        }
        Ok(())
    }

    /// The largest logit of each part of the vocabulary, or all logits gathered first.
    fn vocabulary(&self, table: &mut Table) -> Result<()> {
        if self.plan.degrees.tp == 1 || self.plan.layouts.is_some() {
            return Ok(());
        }
        let pin = "logits: [{dp}, {}, {}]\n";
        let (gathered, parts) =
            (self.steps(self.programs, Some(pin))?, self.steps(self.programs, None)?);
        if let (Some(gathered), Some(parts)) = (gathered, parts) {
            for (at, phase) in [Phase::Prefill, Phase::Decode].into_iter().enumerate() {
                table.times("vocabulary in parts", phase.name(), [gathered[at], parts[at]]);
            }
        }
        Ok(())
    }

    /// Step times of both phases, ns, at the batch of the plan, with other programs or pins; `None` where
    /// they do not fit.
    fn steps(&self, programs: &Programs, pins: Option<&str>) -> Result<Option<[f64; 2]>> {
        let plan = self.plan;
        let evaluator = programs.evaluator(self.request, self.cluster(), pins);
        let pricing = Pricing { cluster: self.cluster(), profile: &self.request.profile };
        let lowered = evaluator.lower(&plan.degrees, plan.exchange, &mut |_, _, _| {})?;
        let mut out = [0.0; 2];
        let each = [(Phase::Prefill, &lowered.prefill.0), (Phase::Decode, &lowered.decode.0)];
        for (slot, (phase, module)) in out.iter_mut().zip(each) {
            let at = (plan.degrees.dp, &plan.serving);
            let bind = step_bindings(module, phase, at, &evaluator.load);
            let time = StepModel::of(module, self.cluster())?.time(pricing, &bind).latency;
            if time.is_infinite() {
                return Ok(None);
            }
            *slot = time.as_f64();
        }
        Ok(Some(out))
    }

    /// The best plan that may split the keys of a request, against the best that may not.
    fn keys(&self, table: &mut Table, evaluator: &Evaluator<'_>) -> Result<()> {
        let whole = legal_degrees(evaluator.facts(), evaluator.devices());
        let split = split_keys(&whole, evaluator);
        let best = |tuples: &[Degrees]| -> Result<Option<Evaluated>> {
            let mut best: Option<Evaluated> = None;
            for degrees in tuples {
                let Ok(plan) = evaluator.evaluate_against(degrees, best.as_ref())? else {
                    continue;
                };
                let better = |b: &Evaluated| evaluator.compare(&plan, b).is_gt();
                if best.as_ref().is_none_or(better) {
                    best = Some(plan);
                }
            }
            Ok(best)
        };
        let (whole, split) = (best(&whole)?, best(&split)?);
        if let (Some(whole), Some(split)) = (whole, split) {
            let rate = |p: &Evaluated| p.serving.tokens_per_s_per_device;
            table.rates("keys split over devices (cp)", [rate(&whole), rate(&split)]);
        }
        Ok(())
    }
}

/// Tuples of degrees in which several devices share the keys of a request.
fn split_keys(whole: &[Degrees], evaluator: &Evaluator<'_>) -> Vec<Degrees> {
    let split = whole.iter().flat_map(|d| d.with_context());
    split.filter(|d| d.is_legal(evaluator.facts(), evaluator.devices())).collect()
}

/// The rules that made what is new in a function, in the order of what they gain.
fn rules(change: &Change) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in change.gains.iter().flat_map(|g| &g.rules) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    match names.is_empty() {
        true => "what layers carry".to_string(),
        false => names.join(", "),
    }
}
