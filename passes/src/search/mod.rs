//! Searches for a plan: one evaluator, several ways to choose what it evaluates.

mod algebra;
mod auto;
mod candidate;
mod decided;
mod degrees;
mod exact;
mod frontier;
mod headline;
mod infeasible;
mod layouts;
mod megatron;
pub mod outer;
mod prune;
mod ready;
mod state;

pub use algebra::{Algebra, PhaseAlgebra};
pub use auto::{Chosen, WITHOUT_POLICY, choose, choose_for_fleets};
pub use candidate::{
    Evaluated, Evaluator, Lowered, Refusal, WORKSPACE_BYTES, Ways, best, bindings, step_bindings,
    step_of, step_sizes,
};
pub use exact::{BANS, Point, Points, Proof, Stop};
pub use headline::Headline;
pub use infeasible::{Asked, Requests, explain as explain_infeasible};
pub use layouts::Layouts;
pub use megatron::Reading;
pub use ready::{Ready, Terms};
pub use state::State;

use crate::codes;
use crate::strategy::{Degrees, Facts};
use outer::{Effort, Memory, Moves, Recall, Start, Variant, Way};
use shardc_ir::diag::{Diagnostic, Result};

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// What suits the request ([`choose`]).
    Auto,
    /// Layouts operator by operator, with a bound on what is possible.
    Exact,
    /// Every legal tuple of degrees with Megatron's layouts.
    Degrees,
    /// Megatron's 2021 rule: experts are split like everything else.
    Megatron2021(Option<Reading>),
    /// Megatron's folded rule: experts have degrees of their own.
    MegatronFolded(Option<Reading>),
    /// Whole plans, judged one by one.
    Outer(Way, Effort),
}

/// A row of the search table.
#[derive(Clone, Copy, Debug)]
pub struct MethodInfo {
    /// Name on the command line.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// The method.
    pub method: Method,
}

/// Every search, in the order of the documentation.
pub const METHODS: &[MethodInfo] = &[
    row("auto", "`exact` or `degrees`, whichever suits the request, and why", Method::Auto),
    row("exact", "layouts operator by operator, with a bound on what is possible", Method::Exact),
    row("degrees", "every legal tuple of degrees, Megatron's layouts", Method::Degrees),
    row("megatron-2021", "best of the three readings below", Method::Megatron2021(None)),
    row(
        "megatron-2021:min",
        "smallest tp·pp that holds the weights and 4 requests a replica",
        Method::Megatron2021(Some(Reading::Min)),
    ),
    row(
        "megatron-2021:half",
        "smallest tp·pp that keeps weights in half of memory",
        Method::Megatron2021(Some(Reading::Half)),
    ),
    row(
        "megatron-2021:tp8",
        "tp over a node first, then pp until it fits",
        Method::Megatron2021(Some(Reading::Tp8)),
    ),
    row("megatron-folded", "best of the three readings below", Method::MegatronFolded(None)),
    row(
        "megatron-folded:min",
        "as megatron-2021:min, experts over the node",
        Method::MegatronFolded(Some(Reading::Min)),
    ),
    row(
        "megatron-folded:half",
        "as megatron-2021:half, experts over the node",
        Method::MegatronFolded(Some(Reading::Half)),
    ),
    row(
        "megatron-folded:tp8",
        "as megatron-2021:tp8, experts over the node",
        Method::MegatronFolded(Some(Reading::Tp8)),
    ),
    outer("random", "draws of whole plans", Way::Random),
    outer("annealing", "chains of steps that get colder", Way::Annealing),
    outer("genetic", "a population of plans, crossed and mutated", Way::Genetic),
    outer("genetic:guided", "the same on guesses first, where plans can be guessed", Way::Guided),
    outer("swarm", "particles drawn to their best and that of all", Way::Swarm),
    outer("steepest", "the best of all changes of one gene, with restarts", Way::Steepest),
    outer("bottleneck-moves", "changes to what is dearest, with restarts", Way::Bottleneck),
    outer("rl", "a policy over an elite history", Way::Rl(Variant::Full)),
    outer("rl:untrained", "the same without learning", Way::Rl(Variant::Untrained)),
    outer("rl:no-history", "the same without history", Way::Rl(Variant::NoHistory)),
    outer("rl:unguided", "the same without guesses", Way::Rl(Variant::Unguided)),
];

const fn outer(name: &'static str, summary: &'static str, way: Way) -> MethodInfo {
    let effort = Effort { evaluations: 400, seed: 0, start: Start::Degrees, moves: Moves::Block };
    row(name, summary, Method::Outer(way, effort))
}

const fn row(name: &'static str, summary: &'static str, method: Method) -> MethodInfo {
    MethodInfo { name, summary, method }
}

impl Method {
    /// The search of that name.
    ///
    /// # Errors
    /// `S202` listing the names.
    pub fn parse(name: &str) -> Result<Self> {
        METHODS.iter().find(|m| m.name == name).map(|m| m.method).ok_or_else(|| {
            let names: Vec<&str> = METHODS.iter().map(|m| m.name).collect();
            let message = format!("there is no search `{name}`");
            let help = format!("choose one of {}", names.join(", "));
            Box::new(Diagnostic::error(codes::UNKNOWN_SEARCH, message).help(help))
        })
    }
}

impl Method {
    /// The same search with another effort, where it takes one.
    #[must_use]
    pub fn with_effort(self, effort: Effort) -> Self {
        match self {
            Method::Outer(way, _) => Method::Outer(way, effort),
            other => other,
        }
    }
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The best plan.
    pub best: Evaluated,
    /// The reading that a rule without suffix took.
    pub reading: Option<Reading>,
    /// Plans evaluated.
    pub evaluations: u64,
    /// How good it is, where the search knows.
    pub proof: Option<Proof>,
}

/// Why a search found nothing.
#[derive(Clone, Debug)]
pub struct NothingFits {
    /// The plan that came closest, with what it lacks.
    pub closest: Option<(Degrees, Refusal)>,
    /// Plans evaluated.
    pub evaluations: u64,
}

/// A plan, or why there is none.
pub type Outcome = std::result::Result<Found, Box<NothingFits>>;

/// Every legal tuple of degrees on so many devices.
pub fn legal_degrees(facts: &Facts, devices: u64) -> Vec<Degrees> {
    degrees::tuples(facts, devices)
}

/// Some plan that a search might find, the first it meets, or why there is none.
///
/// # Errors
/// As [`search`].
pub fn search_any(
    evaluator: &Evaluator<'_>,
    method: Method,
    forced: Option<Degrees>,
) -> Result<Outcome> {
    match candidates(evaluator, method, forced) {
        Some(tuples) => degrees::any_of(evaluator, &tuples),
        None => search(evaluator, method, forced, &mut |_, _| {}),
    }
}

/// Some plan that a search might find, the first it meets; none where `budget` plans were lowered and
/// refused before. What is left of the budget stays in it.
///
/// # Errors
/// As [`search`].
pub fn search_some(
    evaluator: &Evaluator<'_>,
    method: Method,
    forced: Option<Degrees>,
    budget: &mut usize,
) -> Result<Option<Found>> {
    match candidates(evaluator, method, forced) {
        Some(tuples) => degrees::some_of(evaluator, &tuples, budget),
        None => Ok(search(evaluator, method, forced, &mut |_, _| {})?.ok()),
    }
}

/// The tuples that some plan is looked for among, likely ones first; none where the search has to say.
fn candidates(
    evaluator: &Evaluator<'_>,
    method: Method,
    forced: Option<Degrees>,
) -> Option<Vec<Degrees>> {
    match (forced, method) {
        (Some(degrees), _) => Some(vec![degrees]),
        (None, Method::Auto | Method::Degrees | Method::Exact | Method::Outer(..)) => {
            let mut tuples = legal_degrees(evaluator.facts(), evaluator.devices());
            // Wide model parallelism fits where nothing else does.
            tuples.sort_by_key(|d| (d.dp, d.edp(), d.pp));
            Some(tuples)
        }
        _ => None,
    }
}

/// Runs a search, or evaluates the one layout that the user forces.
///
/// `progress` is told the number of evaluations done and to do.
///
/// # Errors
/// Illegal forced degrees, or a pass refuses the program; `Ok(Err(_))` where no plan fits.
pub fn search(
    evaluator: &Evaluator<'_>,
    method: Method,
    forced: Option<Degrees>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Outcome> {
    let mut told = |state: &State| progress(state.done, state.budget);
    Ok(search_recalling(evaluator, method, forced, Recall::default(), &mut told)?.0)
}

/// As [`search`], from what an earlier search left; with what this one leaves, if it is one plan by
/// plan.
///
/// # Errors
/// As [`search`].
pub fn search_recalling(
    evaluator: &Evaluator<'_>,
    method: Method,
    forced: Option<Degrees>,
    recall: Recall<'_>,
    progress: &mut dyn FnMut(&State),
) -> Result<(Outcome, Option<Memory>)> {
    let method = if method == Method::Auto { choose(evaluator).method } else { method };
    if let (None, Method::Outer(way, effort)) = (forced, method) {
        let (outcome, memory) = outer::run(evaluator, (way, &effort), recall, progress)?;
        return Ok((outcome, Some(memory)));
    }
    let outcome = match (forced, method) {
        (Some(degrees), _) => {
            let node = evaluator.cluster.node.devices;
            degrees.check(evaluator.facts(), evaluator.devices(), node)?;
            degrees::best_of(evaluator, &[degrees], progress)?
        }
        (None, Method::Exact) => exact::run(evaluator, progress)?,
        (None, Method::Megatron2021(reading)) => {
            megatron::run(evaluator, false, reading, progress)?
        }
        (None, Method::MegatronFolded(reading)) => {
            megatron::run(evaluator, true, reading, progress)?
        }
        (None, Method::Auto | Method::Degrees | Method::Outer(..)) => {
            let tuples = degrees::tuples(evaluator.facts(), evaluator.devices());
            degrees::best_of(evaluator, &tuples, progress)?
        }
    };
    Ok((outcome, None))
}
