//! Golden models on CPU ranks: launch plans of sampled degrees on up to eight ranks, with the weights
//! of the checkpoint in its own number format, give what `transformers` gives.

use super::sharded::tuples;
use shardc_interp::Tensor;
use shardc_passes::strategy::Degrees;
use shardc_passes::strategy::megatron::ExpertExchange;
use shardc_runtime::comm::threads;
use shardc_runtime::plan::Plan;
use shardc_runtime::session::{self, Generated, Logits};
use shardc_tests::Outcome;
use shardc_tests::random::Random;
use shardc_tests::ranks::Ranks;
use std::path::Path;

/// Ranks to run on, and how many tuples of degrees of each.
const RANKS: [(u64, usize); 6] = [(1, 1), (2, 3), (3, 3), (4, 4), (6, 4), (8, 5)];

/// The smallest model, of which every tuple runs.
const SMALLEST: &str = "qwen2-tiny";

/// Set to run every tuple of every model.
const EVERY: &str = "SHARDC_EVERY";

/// What is wrong with what a plan gives.
pub(super) fn check(model: &Ranks, plan: &Plan) -> Result<(), String> {
    let run = |logits: bool| -> Result<Generated, String> {
        let job = model.job(logits).map_err(|e| e.to_string())?;
        let results =
            threads::run(plan.ranks(), |comm| session::run(plan, &model.checkpoint, &job, comm));
        session::first(results).map_err(|d| format!("{} {:?}", d, d.notes))
    };
    let stored = model.golden.expected.contains_key("logits_prefill_f32");
    let precision = if stored { "bfloat16" } else { "float32" };
    let tolerance = model.golden.tolerance(precision, "logits_atol");
    let atol = tolerance.map_err(|e| e.to_string())?;
    let of = |name| model.golden.expects(name).map_err(|e| e.to_string());
    let (prefill, decode) = (of("logits_prefill")?, of("logits_decode")?);
    let with = run(true)?;
    near("the prompt", &with.prompt_logits, prefill, atol)?;
    near("decode steps", &with.decode_logits, decode, atol)?;
    within(plan, &with)?;
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

/// No rank holds more than the arenas of the plan.
pub(super) fn within(plan: &Plan, generated: &Generated) -> Result<(), String> {
    for (rank, usage) in generated.usage.iter().enumerate() {
        let arenas = [&plan.prefill, &plan.decode].map(|phase| {
            phase.launch.program_of(rank as u64).map(|p| p.arenas).unwrap_or_default()
        });
        let scratch = arenas[0].scratch.max(arenas[1].scratch);
        let fits = usage.weights as u64 <= arenas[1].weights
            && usage.caches as u64 <= arenas[1].caches
            && usage.scratch as u64 <= scratch;
        if !fits || usage.weights == 0 {
            return Err(format!("rank {rank} holds {usage:?} in {arenas:?}"));
        }
    }
    Ok(())
}

/// What of some logits is farther than a tolerance from those wanted.
pub(super) fn near(
    what: &str,
    got: &[Vec<Logits>],
    wanted: &Tensor,
    atol: f64,
) -> Result<(), String> {
    let all: Vec<f64> = got.iter().flatten().flatten().map(|&x| f64::from(x)).collect();
    if all.len() != wanted.data().len() {
        return Err(format!("{what}: {} logits for {}", all.len(), wanted.data().len()));
    }
    let excess = |(a, b): (&f64, &f64)| match (a - b).abs() - (atol + 1e-5 * b.abs()) {
        excess if excess.is_nan() => f64::INFINITY,
        excess => excess,
    };
    let worst = all.iter().zip(wanted.data()).map(excess).fold(f64::NEG_INFINITY, f64::max);
    match worst <= 0.0 {
        true => Ok(()),
        false => Err(format!("{what}: logits are off by {worst} beyond {atol}")),
    }
}

/// What is wrong with any of the plans of some tuples.
fn every(model: &Ranks, tuples: &[Degrees], context: u64) -> Vec<String> {
    let mut found = Vec::new();
    for degrees in tuples {
        for exchange in [ExpertExchange::AllToAll, ExpertExchange::AllGather] {
            if exchange == ExpertExchange::AllGather && degrees.ep == 1 {
                continue;
            }
            let plan = model.plan(degrees, exchange, context);
            let checked = plan.and_then(|plan| check(model, &plan));
            found.extend(checked.err().map(|cause| format!("{degrees} {exchange:?}: {cause}")));
        }
    }
    found
}

/// Sampled tuples of a model; of the smallest one every tuple, under both exchanges of experts.
pub fn launched(config: &Path, _text: String) -> Outcome {
    let model = Ranks::read(config)?;
    let context = model.context()?;
    let mut random = Random::new(7);
    let mut found = Vec::new();
    let name = config.parent().and_then(Path::file_name).unwrap_or_default();
    for (ranks, count) in RANKS {
        let mut all = tuples(&model.facts, ranks);
        if name == SMALLEST || std::env::var_os(EVERY).is_some() {
            found.extend(every(&model, &all, context));
            continue;
        }
        for _ in 0..count.min(all.len()) {
            let degrees = all.remove(random.below(all.len()));
            let exchange = *random.pick(&[ExpertExchange::AllToAll, ExpertExchange::AllGather]);
            let plan = model.plan(&degrees, exchange, context);
            let checked = plan.and_then(|plan| check(&model, &plan));
            found.extend(checked.err().map(|cause| format!("{degrees} {exchange:?}: {cause}")));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}
