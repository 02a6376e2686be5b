//! Golden models on CPU ranks: launch plans of sampled degrees on up to eight ranks, with the weights
//! of the checkpoint in its own number format, give what `transformers` gives.

use super::sharded::tuples;
use shardc::facade;
use shardc_frontend::graph::{GraphOptions, build};
use shardc_interp::Tensor;
use shardc_ir::graph::Module;
use shardc_passes::absorb_latent_attention::absorb_latent_attention;
use shardc_passes::launch::{PhaseProgram, lower as launch};
use shardc_passes::pipeline::{Lowering, balanced_stages, lower};
use shardc_passes::registry;
use shardc_passes::search::bindings;
use shardc_passes::strategy::megatron::{self, ExpertExchange, pins};
use shardc_passes::strategy::{Degrees, Facts, Groups};
use shardc_runtime::comm::threads;
use shardc_runtime::plan::{Phase, Plan};
use shardc_runtime::session::{self, Generated, Job, Logits};
use shardc_runtime::weights::{Checkpoint, Source};
use shardc_tests::Outcome;
use shardc_tests::golden::Golden;
use shardc_tests::random::Random;
use std::path::Path;

/// Ranks to run on, and how many tuples of degrees of each.
const RANKS: [(u64, usize); 6] = [(1, 1), (2, 3), (3, 3), (4, 4), (6, 4), (8, 5)];

/// Most new tokens of a step: fewer than a prompt has, so that prompts run in pieces.
const STEP: u64 = 5;

/// A golden model.
struct Model {
    golden: Golden,
    prefill: Module,
    decode: Module,
    facts: Facts,
    sources: Vec<Source>,
    checkpoint: Checkpoint,
}

impl Model {
    fn read(config: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let golden = Golden::read(config)?;
        let spec = &golden.spec;
        let prefill = build(spec, &GraphOptions::default()).map_err(|d| d.to_string())?;
        let mut decode = prefill.clone();
        absorb_latent_attention(&mut decode, &registry::Options::default())
            .map_err(|d| d.to_string())?;
        let folder = config.parent().ok_or("a configuration without a folder")?;
        Ok(Model {
            facts: Facts::of(&prefill),
            sources: facade::sources(spec),
            checkpoint: Checkpoint::open(folder).map_err(|d| d.to_string())?,
            golden,
            prefill,
            decode,
        })
    }

    /// The launch plans of a tuple of degrees, with room for the golden requests.
    fn plan(&self, degrees: &Degrees, exchange: ExpertExchange) -> Result<Plan, String> {
        let ids = self.golden.expects("input_ids").map_err(|e| e.to_string())?;
        let fed = self.golden.expects("decode_ids").map_err(|e| e.to_string())?;
        let (requests, context) = (ids.shape()[0] as u64, (ids.shape()[1] + fed.shape()[1]) as u64);
        let groups = Groups::new(degrees, &self.facts, 8);
        let stages = balanced_stages(self.facts.layers, degrees.pp);
        let local = |logical: &Module, phase, tokens: u64| {
            let pins = pins(&groups, phase, exchange);
            let sizes = [("B", requests), ("S", tokens), ("C", context)];
            let lowering =
                Lowering { groups: &groups, pins: &pins, sizes: &sizes, stage_layers: &stages };
            let lowered = lower(logical, &lowering, &mut |_, _| {});
            lowered.map(|l| l.0).map_err(|d| d.to_string())
        };
        let modules = [
            ("prefill", local(&self.prefill, megatron::Phase::Prefill, STEP)?, STEP),
            ("decode", local(&self.decode, megatron::Phase::Decode, 1)?, 1),
        ];
        let phases = modules.each_ref().map(|(name, module, tokens)| PhaseProgram {
            name,
            module,
            file: "local.sir",
            max: bindings(module, requests, *tokens, context),
            held: bindings(module, requests, 1, context),
        });
        let plans = launch(&phases).map_err(|d| d.to_string())?;
        let mut plans =
            plans.into_iter().zip(modules).map(|(launch, (_, module, _))| Phase { launch, module });
        match (plans.next(), plans.next()) {
            (Some(prefill), Some(decode)) => {
                Ok(Plan { prefill, decode, sources: self.sources.clone() })
            }
            _ => Err("not two plans".to_string()),
        }
    }

    fn job(&self, logits: bool) -> Result<Job, String> {
        let ids = self.golden.expects("input_ids").map_err(|e| e.to_string())?;
        let fed = self.golden.expects("decode_ids").map_err(|e| e.to_string())?;
        let decode = fed.shape()[1];
        Ok(Job { prompts: rows(ids), fed: Some(rows(fed)), decode, logits, ..Job::default() })
    }

    /// What is wrong with what a plan gives.
    fn check(&self, plan: &Plan) -> Result<(), String> {
        let run = |logits: bool| -> Result<Generated, String> {
            let job = self.job(logits)?;
            let results =
                threads::run(plan.ranks(), |comm| session::run(plan, &self.checkpoint, &job, comm));
            session::first(results).map_err(|d| format!("{} {:?}", d, d.notes))
        };
        let stored = self.golden.expected.contains_key("logits_prefill_f32");
        let precision = if stored { "bfloat16" } else { "float32" };
        let tolerance = |name| self.golden.tolerance(precision, name).map_err(|e| e.to_string());
        let atol = tolerance("logits_atol")?;
        let of = |name| self.golden.expects(name).map_err(|e| e.to_string());
        let (prefill, decode) = (of("logits_prefill")?, of("logits_decode")?);
        let with = run(true)?;
        near("the prompt", &with.prompt_logits, prefill, atol)?;
        near("decode steps", &with.decode_logits, decode, atol)?;
        // Without logits a prompt runs in pieces, and only tokens come out.
        let without = run(false)?;
        let last = prefill.shape()[1] - 1;
        for (b, chosen) in without.chosen.iter().enumerate() {
            for (t, &token) in chosen.iter().enumerate() {
                let row = match t {
                    0 => prefill.row(&[b, last]),
                    t => decode.row(&[b, t - 1]),
                };
                let best = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                if row.get(token as usize).is_none_or(|x| best - x > 2.0 * atol) {
                    return Err(format!("request {b} gets token {token} at {t}"));
                }
            }
        }
        Ok(())
    }
}

fn rows(ids: &Tensor) -> Vec<Vec<i64>> {
    let width = ids.shape()[1].max(1);
    ids.data().chunks(width).map(|row| row.iter().map(|&x| x as i64).collect()).collect()
}

/// What of some logits is farther than a tolerance from those wanted.
fn near(what: &str, got: &[Vec<Logits>], wanted: &Tensor, atol: f64) -> Result<(), String> {
    let all: Vec<f64> = got.iter().flatten().flatten().map(|&x| f64::from(x)).collect();
    if all.len() != wanted.data().len() {
        return Err(format!("{what}: {} logits for {}", all.len(), wanted.data().len()));
    }
    let excess = |(a, b): (&f64, &f64)| (a - b).abs() - (atol + 1e-5 * b.abs());
    let worst = all.iter().zip(wanted.data()).map(excess).fold(f64::NEG_INFINITY, f64::max);
    match worst <= 0.0 {
        true => Ok(()),
        false => Err(format!("{what}: logits are off by {worst} beyond {atol}")),
    }
}

/// Sampled tuples of a model.
pub fn launched(config: &Path, _text: String) -> Outcome {
    let model = Model::read(config)?;
    let mut random = Random::new(7);
    let mut found = Vec::new();
    for (ranks, count) in RANKS {
        let mut all = tuples(&model.facts, ranks);
        for _ in 0..count.min(all.len()) {
            let degrees = all.remove(random.below(all.len()));
            let exchange = *random.pick(&[ExpertExchange::AllToAll, ExpertExchange::AllGather]);
            let checked = model.plan(&degrees, exchange).and_then(|plan| model.check(&plan));
            found.extend(checked.err().map(|cause| format!("{degrees} {exchange:?}: {cause}")));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}
