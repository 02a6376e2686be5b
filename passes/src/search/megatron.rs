//! Megatron's rules for choosing degrees, in their three readings.
//!
//! Rules (SC'21; Megatron-Core's MoE guide; arXiv 2504.14960): tensor parallelism up to a node,
//! then pipeline stages; as little of both as fits, data parallelism takes the rest; experts stay
//! inside the node, split like everything else (2021) or over the node's devices (folded).

use super::exact::reached;
use super::{Evaluated, Evaluator, Found, NothingFits, Outcome, State, degrees};
use crate::strategy::Degrees;
use crate::strategy::parts::whole_heads;
use shardc_ir::diag::Result;
use std::cmp::Ordering;

/// How "as small as fits" is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reading {
    /// Weights and a few requests fit.
    Min,
    /// Weights take at most half of memory, the rest is for the KV cache.
    Half,
    /// Tensor parallelism of a node first, then stages until it fits.
    Tp8,
}

/// Requests a replica that the first reading wants to hold.
const FEW_REQUESTS: u64 = 4;

impl Reading {
    /// All readings.
    pub const ALL: [Reading; 3] = [Reading::Min, Reading::Half, Reading::Tp8];

    /// Suffix of the search's name.
    pub fn name(self) -> &'static str {
        match self {
            Reading::Min => "min",
            Reading::Half => "half",
            Reading::Tp8 => "tp8",
        }
    }

    fn accepts(self, plan: &Evaluated, kv_budget: u64) -> bool {
        let memory = &plan.memory;
        let per_request = memory.kv_cache / plan.serving.replica_batch.max(1);
        match self {
            Reading::Min => per_request.saturating_mul(FEW_REQUESTS) <= kv_budget,
            Reading::Half => memory.weights <= memory.capacity / 2,
            Reading::Tp8 => true,
        }
    }
}

/// Runs a rule in one reading, or in all and takes the best.
///
/// # Errors
/// A pass refuses the program.
pub(super) fn run(
    evaluator: &Evaluator<'_>,
    folded: bool,
    reading: Option<Reading>,
    progress: &mut dyn FnMut(&State),
) -> Result<Outcome> {
    let readings = reading.map_or(Reading::ALL.to_vec(), |r| vec![r]);
    let mut best: Option<Found> = None;
    let mut evaluations = 0;
    let total = readings.len() as u64;
    for (i, &reading) in readings.iter().enumerate() {
        let (plan, spent) = first_accepted(evaluator, folded, reading)?;
        evaluations += spent;
        if let Some(plan) = plan {
            let better = best
                .as_ref()
                .is_none_or(|b| evaluator.compare(&plan, &b.best) == Ordering::Greater);
            if better {
                best = Some(Found { best: plan, reading: Some(reading), evaluations, proof: None });
            }
        }
        let worth = best.as_ref().map_or(0.0, |found| reached(evaluator, &found.best));
        progress(&State { done: i as u64 + 1, budget: total, best: worth, bound: None });
    }
    match best {
        Some(found) => Ok(Ok(Found { evaluations, ..found })),
        None => {
            // Say how far the rule's own tuples are from fitting.
            let tuples = ladder(evaluator, folded, Reading::Min);
            degrees::best_of(evaluator, &tuples, &mut |_| {}).map(|r| match r {
                Ok(_) => Err(Box::new(NothingFits { closest: None, evaluations })),
                Err(nothing) => Err(nothing),
            })
        }
    }
}

/// The first tuple of the rule's ladder that the reading accepts; failing that, the last that can
/// be served at all.
fn first_accepted(
    evaluator: &Evaluator<'_>,
    folded: bool,
    reading: Reading,
) -> Result<(Option<Evaluated>, u64)> {
    let mut last = None;
    let mut evaluations = 0;
    for degrees in ladder(evaluator, folded, reading) {
        evaluations += 1;
        if let Ok(plan) = evaluator.evaluate(&degrees)? {
            let budget = plan.memory.kv_budget();
            if reading.accepts(&plan, budget) {
                return Ok((Some(plan), evaluations));
            }
            last = Some(plan);
        }
    }
    Ok((last, evaluations))
}

/// The tuples of a rule, least tp·pp first; within a product, tensor parallelism before stages.
fn ladder(evaluator: &Evaluator<'_>, folded: bool, reading: Reading) -> Vec<Degrees> {
    let (devices, node) = (evaluator.devices(), evaluator.cluster.node.devices);
    let facts = evaluator.facts();
    let node = node.min(devices);
    let legal_tp = |tp: &u64| facts.heads.iter().all(|&(kv, g)| whole_heads(kv, g, *tp).is_ok());
    let divisors = |n: u64| (1..=n).filter(move |d| n.is_multiple_of(*d));
    let widest = divisors(node).filter(legal_tp).max().unwrap_or(1);
    let mut out = Vec::new();
    for tp in divisors(node) {
        for pp in divisors(devices / tp) {
            let tp_first = pp == 1 || tp == widest;
            let wanted = match reading {
                Reading::Tp8 => tp == widest,
                Reading::Min | Reading::Half => tp_first,
            };
            let dp = devices / tp / pp;
            let base = Degrees { tp, pp, dp, ..Degrees::default() };
            if wanted {
                out.extend(experts(evaluator, folded, base));
            }
        }
    }
    out.retain(|d| d.is_legal(facts, devices));
    out.sort_by_key(|d| (d.tp * d.pp, d.pp));
    out
}

/// Adds the expert degrees of the rule: as many as the node allows.
fn experts(evaluator: &Evaluator<'_>, folded: bool, base: Degrees) -> Option<Degrees> {
    let facts = evaluator.facts();
    if !facts.is_moe() {
        return Some(Degrees { etp: base.tp, ..base });
    }
    let node = evaluator.cluster.node.devices;
    let stage = base.stage_devices();
    let etp = if folded { 1 } else { base.tp };
    let fits = |ep: &u64| {
        let degrees = Degrees { ep: *ep, etp, ..base };
        let equal = facts.experts.iter().all(|e| e.is_multiple_of(*ep));
        let legal = || degrees.is_legal(facts, evaluator.devices());
        equal && ep * etp <= node.max(etp) && legal()
    };
    (1..=stage).filter(fits).max().map(|ep| Degrees { ep, etp, ..base })
}
