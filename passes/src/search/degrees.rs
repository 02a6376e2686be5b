//! `degrees`: every legal tuple of parallel degrees.

use super::exact::reached;
use super::{Evaluated, Evaluator, Found, NothingFits, Outcome, Refusal, State};
use crate::strategy::{Degrees, Facts};
use rayon::prelude::*;
use shardc_ir::diag::Result;
use std::cmp::Ordering;

/// Every legal tuple on `devices` devices, in ascending order of (pp, tp, cp, ep, etp).
///
/// Context parallelism is searched only where it is forced: one layout serves both phases, and a
/// decode step gains nothing that data parallelism does not give.
pub(super) fn tuples(facts: &Facts, devices: u64) -> Vec<Degrees> {
    let divisors = |n: u64| (1..=n).filter(move |d| n.is_multiple_of(*d));
    let mut out = Vec::new();
    for pp in divisors(devices) {
        let stage = devices / pp;
        for tp in divisors(stage) {
            let base = Degrees { tp, pp, dp: stage / tp, ..Degrees::default() };
            if !facts.is_moe() {
                out.push(Degrees { etp: tp, ..base });
                continue;
            }
            for ep in divisors(stage) {
                for etp in divisors(stage / ep) {
                    out.push(Degrees { ep, etp, ..base });
                }
            }
        }
    }
    out.retain(|d| d.is_legal(facts, devices));
    out
}

/// Tuples that are evaluated at once; progress is told after each lot.
const LOT: usize = 32;

/// The best of some tuples. They are evaluated in parallel and compared in order.
///
/// # Errors
/// A pass refuses the program.
pub(super) fn best_of(
    evaluator: &Evaluator<'_>,
    tuples: &[Degrees],
    progress: &mut dyn FnMut(&State),
) -> Result<Outcome> {
    let total = tuples.len() as u64;
    let mut best: Option<Evaluated> = None;
    let mut refused: Vec<(Degrees, Refusal)> = Vec::new();
    let mut done = 0;
    for lot in tuples.chunks(LOT) {
        let known = best.as_ref();
        let outcomes: Vec<_> =
            lot.par_iter().map(|d| evaluator.evaluate_against(d, known)).collect();
        for (degrees, outcome) in lot.iter().zip(outcomes) {
            match outcome? {
                Err(refusal) => refused.push((*degrees, refusal)),
                Ok(plan) => {
                    let better = best
                        .as_ref()
                        .is_none_or(|b| evaluator.compare(&plan, b) == Ordering::Greater);
                    if better {
                        best = Some(plan);
                    }
                }
            }
        }
        done += lot.len() as u64;
        let worth = best.as_ref().map_or(0.0, |plan| reached(evaluator, plan));
        progress(&State { done, budget: total, best: worth, bound: None });
    }
    match best {
        Some(best) => Ok(Ok(Found { best, reading: None, evaluations: total, proof: None })),
        None => {
            let closest = closest(evaluator, refused)?;
            Ok(Err(Box::new(NothingFits { closest, evaluations: total })))
        }
    }
}

/// The first of some tuples that can be served.
///
/// # Errors
/// A pass refuses the program.
pub(super) fn any_of(evaluator: &Evaluator<'_>, tuples: &[Degrees]) -> Result<Outcome> {
    let mut refused: Vec<(Degrees, Refusal)> = Vec::new();
    if let Some(found) = first(evaluator, tuples, &mut { usize::MAX }, &mut refused)? {
        return Ok(Ok(found));
    }
    let closest = closest(evaluator, refused)?;
    Ok(Err(Box::new(NothingFits { closest, evaluations: tuples.len() as u64 })))
}

/// The first of some tuples that can be served, as long as `budget` allows to lower another lot.
///
/// # Errors
/// A pass refuses the program.
pub(super) fn some_of(
    evaluator: &Evaluator<'_>,
    tuples: &[Degrees],
    budget: &mut usize,
) -> Result<Option<Found>> {
    first(evaluator, tuples, budget, &mut Vec::new())
}

fn first(
    evaluator: &Evaluator<'_>,
    tuples: &[Degrees],
    budget: &mut usize,
    refused: &mut Vec<(Degrees, Refusal)>,
) -> Result<Option<Found>> {
    for lot in tuples.chunks(LOT) {
        if *budget == 0 {
            break;
        }
        let outcomes: Vec<_> = lot.par_iter().map(|d| evaluator.evaluate(d)).collect();
        for (degrees, outcome) in lot.iter().zip(outcomes) {
            match outcome? {
                Ok(best) => {
                    return Ok(Some(Found { best, reading: None, evaluations: 0, proof: None }));
                }
                Err(refusal) => {
                    let lowered = !matches!(refusal, Refusal::Weights { exact: false, .. });
                    *budget = budget.saturating_sub(usize::from(lowered));
                    refused.push((*degrees, refusal));
                }
            }
        }
    }
    Ok(None)
}

/// Plans that are lowered to find the nearest.
const CLOSEST_TRIES: usize = 24;

/// The refused plan that is nearest to being possible, the first of equals. Refusals without
/// lowering are lower bounds: they are lowered, nearest first, until no other can be nearer or
/// [`CLOSEST_TRIES`] were.
fn closest(
    evaluator: &Evaluator<'_>,
    refused: Vec<(Degrees, Refusal)>,
) -> Result<Option<(Degrees, Refusal)>> {
    let mut order: Vec<usize> = (0..refused.len()).collect();
    order.sort_by_key(|&i| (distance(&refused[i].1), i));
    let mut best: Option<(Degrees, Refusal)> = None;
    let mut tries = CLOSEST_TRIES;
    for i in order {
        let (degrees, refusal) = &refused[i];
        let nearer = |r: &Refusal| best.as_ref().is_none_or(|(_, b)| distance(r) < distance(b));
        if !nearer(refusal) {
            break;
        }
        let exact = match refusal {
            Refusal::Weights { exact: false, .. } if tries == 0 => break,
            Refusal::Weights { exact: false, .. } => {
                tries -= 1;
                evaluator.evaluate_exactly(degrees)?.err()
            }
            other => Some(other.clone()),
        };
        if let Some(exact) = exact.filter(nearer) {
            best = Some((*degrees, exact));
        }
    }
    Ok(best)
}

/// How far a refused plan is from being possible: first memory, then the KV cache, then limits.
fn distance(refusal: &Refusal) -> (u8, u64) {
    use shardc_cost::serving::Unservable;
    match refusal {
        Refusal::Weights { memory, .. } => (2, memory.shortfall()),
        Refusal::Service { cause: Unservable::KvMemory { needed, budget }, .. } => {
            (1, needed.saturating_sub(*budget))
        }
        Refusal::Service { cause: Unservable::Tpot { best, limit }, .. }
        | Refusal::Service { cause: Unservable::Ttft { best, limit }, .. } => {
            (0, best.get().saturating_sub(limit.get()))
        }
        Refusal::Service { .. } => (0, u64::MAX),
        Refusal::Outdone => (u8::MAX, 0),
    }
}
