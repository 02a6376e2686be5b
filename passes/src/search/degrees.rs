//! `degrees`: every legal tuple of parallel degrees.

use super::{Evaluated, Evaluator, Found, NothingFits, Outcome, Refusal};
use crate::strategy::{Degrees, Facts};
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
    out.retain(|d| d.refusal(facts, devices).is_none());
    out
}

/// The best of some tuples.
///
/// # Errors
/// A pass refuses the program.
pub(super) fn best_of(
    evaluator: &Evaluator<'_>,
    tuples: &[Degrees],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Outcome> {
    let total = tuples.len() as u64;
    let mut best: Option<Evaluated> = None;
    let mut closest: Option<(Degrees, Refusal)> = None;
    for (i, degrees) in tuples.iter().enumerate() {
        match evaluator.evaluate(degrees)? {
            Ok(plan) => {
                let better =
                    best.as_ref().is_none_or(|b| evaluator.compare(&plan, b) == Ordering::Greater);
                if better {
                    best = Some(plan);
                }
            }
            Err(refusal) => {
                let nearer = closest.as_ref().is_none_or(|(_, r)| distance(&refusal) < distance(r));
                if nearer {
                    closest = Some((*degrees, refusal));
                }
            }
        }
        progress(i as u64 + 1, total);
    }
    Ok(match best {
        Some(best) => Ok(Found { best, reading: None, evaluations: total }),
        None => Err(Box::new(NothingFits { closest, evaluations: total })),
    })
}

/// How far a refused plan is from being possible: first memory, then the KV cache, then limits.
fn distance(refusal: &Refusal) -> (u8, u64) {
    use shardc_cost::serving::Unservable;
    match refusal {
        Refusal::Weights { memory } => (2, memory.shortfall()),
        Refusal::Service { cause: Unservable::KvMemory { needed, budget }, .. } => {
            (1, needed.saturating_sub(*budget))
        }
        Refusal::Service { cause: Unservable::Tpot { best, limit }, .. }
        | Refusal::Service { cause: Unservable::Ttft { best, limit }, .. } => {
            (0, best.get().saturating_sub(limit.get()))
        }
        Refusal::Service { .. } => (0, u64::MAX),
    }
}
