//! Searches over whole plans, each judged by one call of the evaluator: baselines from nothing and from
//! the best degrees, and what they share.
//!
//! `space` says what is searched: genes, blocks of genes, and a plan's worth; `layouts` is the space of a
//! model's layouts. `trial` counts evaluations and remembers them, `methods` propose what to evaluate
//! next; where evaluations are dear and a space can guess, `guide` says which proposals are worth one.
//! A proposal is made legal before it is evaluated, so a bad search costs time, never correctness.

mod dice;
mod guide;
mod layouts;
mod memory;
mod methods;
#[cfg(feature = "rl")]
mod rl;
mod space;
mod trial;

pub use dice::Dice;
pub use layouts::LayoutSpace;
pub use memory::{Lesson, Memory, Parameter};
pub use methods::{HAS_RL, Moves, Settings, Variant, Way, run as run_way};
pub use space::{
    CHOICES, GENES, Gene, Genome, Mark, REFUSED, Space, choice, drawn, fitness, gene, mutate, step,
};
pub use trial::{Entry, Trial};

use super::{Evaluator, Found, NothingFits, Outcome, State, degrees};
use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};

/// Where a search starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Start {
    /// From the best plan of `degrees`.
    #[default]
    Degrees,
    /// From plans drawn at random.
    Nothing,
}

/// How much a search may do, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Effort {
    /// Plans that may be evaluated; those of `degrees` are not counted.
    pub evaluations: u64,
    /// Seed of every random number.
    pub seed: u64,
    /// Where it starts.
    pub start: Start,
    /// Which steps it takes.
    pub moves: Moves,
}

impl Default for Effort {
    fn default() -> Self {
        Effort { evaluations: 400, seed: 0, start: Start::Degrees, moves: Moves::Block }
    }
}

/// What a search is told beside its effort.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recall<'a> {
    /// What an earlier search left.
    pub memory: Option<&'a Memory>,
    /// What is searched, in words; an earlier search of the same is resumed.
    pub about: &'a str,
}

/// Searches the layouts of a model; what came of it, and what it leaves to later searches.
///
/// # Errors
/// `S203` where layouts or stages are given, which these searches do not keep; `S205` where the build
/// has no policy; or a pass refuses the program.
pub(super) fn run(
    evaluator: &Evaluator<'_>,
    (way, effort): (Way, &Effort),
    recall: Recall<'_>,
    progress: &mut dyn FnMut(&State),
) -> Result<(Outcome, Memory)> {
    check(evaluator)?;
    let space = LayoutSpace::new(evaluator);
    let tuples = degrees::tuples(evaluator.facts(), evaluator.devices());
    let known = match effort.start {
        Start::Degrees => Some(degrees::best_of(evaluator, &tuples, progress)?),
        Start::Nothing => None,
    };
    let known_best = known.as_ref().and_then(|k| k.as_ref().ok()).map(|f| f.best.clone());
    let start = known_best.as_ref().map_or(Vec::new(), |b| space.of_degrees(&b.degrees));
    let settings =
        Settings { moves: effort.moves, seed: effort.seed, start, ..Settings::default() };
    let settings = settings.recalling(recall.memory, &space);
    let floor = known_best.as_ref().map_or(f64::NEG_INFINITY, |b| space.value(b));
    let mut told = |state: &State| progress(&State { best: state.best.max(floor), ..*state });
    let mut trial = Trial::new(&space, effort.evaluations, &mut told);
    if let Some(memory) = recall.memory.filter(|m| m.about == recall.about) {
        trial.recall(&memory.entries);
    }
    let parameters = run_way(way, &mut trial, &settings)?;
    let memory = Memory::new(recall.about, space.genes(), trial.history(), parameters);
    let spent = trial.spent();
    let best = trial.best().filter(|b| b.worth > 0.0).map(|b| b.genome.clone());
    let best = match best {
        Some(genome) => space.plan(&genome)?.ok(),
        None => None,
    };
    let evaluations = spent + known.as_ref().map_or(0, |_| tuples.len() as u64);
    let best = match (best, known_best) {
        (Some(found), Some(known)) if space.value(&found) <= space.value(&known) => Some(known),
        (found, known) => found.or(known),
    };
    let outcome = match (best, known) {
        (Some(best), _) => Ok(Found { best, reading: None, evaluations, proof: None }),
        (None, Some(Err(nothing))) => Err(nothing),
        (None, _) => match degrees::best_of(evaluator, &tuples, progress)? {
            // A search that meets nothing possible does not show that nothing is.
            Ok(found) => Ok(Found { evaluations: spent + found.evaluations, ..found }),
            Err(nothing) => {
                Err(Box::new(NothingFits { evaluations: spent + nothing.evaluations, ..*nothing }))
            }
        },
    };
    Ok((outcome, memory))
}

fn check(evaluator: &Evaluator<'_>) -> Result<()> {
    let given = match (evaluator.pins, evaluator.stage_layers) {
        (Some(_), _) => "layouts are pinned",
        (None, Some(_)) => "the layers of stages are given",
        (None, None) => return Ok(()),
    };
    let message = format!("{given}, which this search does not keep");
    let help = "search with `degrees`, which does";
    Err(Box::new(Diagnostic::error(codes::NOT_KEPT, message).help(help)))
}
