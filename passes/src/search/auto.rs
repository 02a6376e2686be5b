//! `auto`: which search runs, and why.

use super::outer::Way;
use super::{Evaluator, Method};

/// A choice of search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen<T> {
    /// Its name on the command line.
    pub name: &'static str,
    /// The search.
    pub method: T,
    /// Why, in a clause.
    pub why: &'static str,
}

/// Most devices on which `exact` ends within seconds on every model that was tried.
const EXACT_DEVICES: u64 = 16;

/// What `auto` says of the policy wherever it leaves it out.
pub const WITHOUT_POLICY: &str =
    "`rl` is left out: it was not measured to win (docs/results/search.md)";

/// The search for a plan under a steady load. Costs of operators add up there, so nothing has to be
/// learned of them.
pub fn choose(evaluator: &Evaluator<'_>) -> Chosen<Method> {
    let degrees = |why| Chosen { name: "degrees", method: Method::Degrees, why };
    match () {
        () if evaluator.pins.is_some() => degrees("layouts are pinned, and `exact` keeps no pins"),
        () if evaluator.stage_layers.is_some() => {
            degrees("the layers of stages are given, and `exact` balances them")
        }
        () if evaluator.devices() > EXACT_DEVICES => {
            degrees("costs of a steady load add up; beyond 16 GPUs `exact` may take minutes")
        }
        () => Chosen {
            name: "exact",
            method: Method::Exact,
            why: "costs of a steady load add up, which `exact` uses and no other search does",
        },
    }
}

/// The search for a fleet that is judged by simulation, where nothing adds up.
pub fn choose_for_fleets() -> Chosen<Way> {
    Chosen {
        name: "genetic:guided",
        method: Way::Guided,
        why: "nothing adds up in a simulation; the steady state guesses what to simulate",
    }
}
