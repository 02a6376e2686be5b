//! `exact`: every operator assigns axes to its own factors, and dynamic programming finds the best.
//!
//! Outside, pipeline stages, replicas and batches are cut into spans with a bound each, the most
//! promising one first ([`cell`]); inside, a phase is a sum over groups of operators and the ways of
//! values between them ([`phase`], [`solve`]), and both phases share what they store ([`joint`]).
//! What is found is named, lowered and priced by the evaluator like every other plan; the best plan
//! of `degrees` is where the search begins, so that it never ends below it.

mod aim;
mod axes;
mod block;
#[cfg(test)]
mod brute;
mod cell;
mod cover;
pub(super) mod dims;
mod fares;
pub(super) mod flow;
pub(super) mod group;
mod joint;
mod link;
mod look;
mod moves;
mod name;
mod net;
mod phase;
mod pick;
mod points;
mod solve;
mod span;
mod table;
pub(super) mod unit;

use super::candidate::worth;
use super::{Evaluated, Evaluator, Found, Outcome, State, degrees};
use cell::Scene;
use phase::Phase;
pub use points::{Point, Points};
use shardc_cost::profile::Overlap;
use shardc_cost::serving::Load;
use shardc_ir::diag::Result;
use span::Spans;

/// What the space leaves out, for reports.
pub const BANS: &[&str] = &[
    "the stream between blocks is split by requests and tokens only",
    "heads are never cut, nor what attention sums over within a head",
    "the requests of attention are split exactly over the replicas",
    "axes across nodes are at most two, of which one splits requests as far as nodes do",
    "operators that only pass values on are laid out as what they follow",
    "of the axes that split one dimension, those across nodes come first",
    "values move in the order slice, reduce_scatter, all_reduce, all_to_all, all_gather",
    "equal layers are laid out equally, and stages hold balanced numbers of layers",
    "prefill steps have as many tokens as those of the best plan of degrees",
    "communication does not overlap with computation",
];

/// How good the best plan is.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    /// The most that any plan of the space can reach: output tokens a second and device; for the
    /// objective latency, requests a second of one that is alone.
    pub bound: f64,
    /// What the best plan reaches.
    pub reached: f64,
    /// Batches of cells that were looked at; a cell is a number of stages and of replicas.
    pub looks: u64,
    /// Cells.
    pub cells: u64,
    /// Why the search ended.
    pub stop: Stop,
    /// Why layouts were not searched, where they were not; then the bound is that of degrees.
    pub unsearched: Option<String>,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nothing that is left may be better by a thousandth.
    Proven,
    /// What may be better was looked at already, so further looks would not lower the bound.
    Settled,
    /// So many looks were taken, the first at each cell aside.
    Looks(u64),
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stop::Proven => f.write_str("nothing left may be better by 0.1 %"),
            Stop::Settled => f.write_str("more looks would not lower the bound"),
            Stop::Looks(looks) => write!(f, "stopped after {looks} looks"),
        }
    }
}

impl Proof {
    /// The part by which a plan of the space may be better.
    pub fn gap(&self) -> f64 {
        (self.bound / self.reached - 1.0).max(0.0)
    }

    /// The bound as a time: ns of a device for an output token; for the objective latency, ns of a
    /// request.
    pub fn least_ns(&self) -> f64 {
        1e9 / self.bound
    }
}

/// What a plan reaches in the unit of [`Proof::bound`].
pub(super) fn reached(evaluator: &Evaluator<'_>, plan: &Evaluated) -> f64 {
    worth(&evaluator.load, plan)
}

/// Runs `degrees`, then searches layouts from there.
///
/// # Errors
/// A pass refuses the program.
pub(super) fn run(evaluator: &Evaluator<'_>, progress: &mut dyn FnMut(&State)) -> Result<Outcome> {
    let tuples = degrees::tuples(evaluator.facts(), evaluator.devices());
    let first = degrees::best_of(evaluator, &tuples, progress)?;
    let fixed = fixed_chunk(evaluator, first.as_ref().ok());
    let scene = match scene(&fixed) {
        Ok(scene) => scene,
        Err(reason) => {
            return Ok(first.map(|found| {
                let reached = reached(evaluator, &found.best);
                let unsearched = Some(reason);
                let (bound, stop) = (reached, Stop::Settled);
                let proof = Proof { bound, reached, looks: 0, cells: 0, stop, unsearched };
                Found { proof: Some(proof), ..found }
            }));
        }
    };
    let (best, nothing) = match first {
        Ok(found) => (Some(found.best), None),
        Err(nothing) => (None, Some(nothing)),
    };
    let mut spans = Spans::new(&scene, best);
    spans.run(progress);
    let evaluations = tuples.len() as u64 + spans.evaluations;
    let proof = spans.proof();
    Ok(match (spans.best, nothing) {
        (Some(best), _) => Ok(Found { best, reading: None, evaluations, proof }),
        (None, Some(nothing)) => Err(nothing),
        (None, None) => Err(Box::new(super::NothingFits { closest: None, evaluations })),
    })
}

/// The evaluator with the prefill step of the best plan of degrees, or with the smallest where none is
/// possible.
fn fixed_chunk<'a>(evaluator: &Evaluator<'a>, first: Option<&Found>) -> Evaluator<'a> {
    let smallest = evaluator.load.prefill_steps().last().unwrap_or(evaluator.load);
    let prefill_tokens = first.map_or(smallest.prefill_tokens, |found| found.best.chunk);
    let load = Load { prefill_tokens, least_prefill_tokens: None, ..evaluator.load };
    Evaluator { load, ..evaluator.clone() }
}

/// Reads both phases, or says why they cannot be searched.
fn scene<'a>(evaluator: &'a Evaluator<'a>) -> std::result::Result<Scene<'a>, String> {
    if evaluator.pins.is_some() {
        return Err("layouts are pinned".to_string());
    }
    if evaluator.profile.overlap != Overlap::None {
        return Err("collectives run beside kernels, and what is searched are sums".to_string());
    }
    Ok(Scene {
        evaluator,
        prefill: Phase::of(evaluator.prefill, evaluator.pricing())?,
        decode: Phase::of(evaluator.decode, evaluator.pricing())?,
    })
}
