//! Searches over whole plans, each judged by one call of the evaluator: baselines from nothing and from
//! the best degrees, and what they share.
//!
//! `space` says what is searched: genes, blocks of genes, and a plan's worth; `layouts` is the space of a
//! model's layouts. `trial` counts evaluations and remembers them, `methods` propose what to evaluate
//! next. A proposal is made legal before it is evaluated, so a bad search costs time, never correctness.

mod dice;
mod layouts;
mod methods;
mod space;
mod trial;

pub use dice::Dice;
pub use layouts::{LayoutSpace, REFUSED};
pub use methods::{Moves, Settings, Way, run as run_way};
pub use space::{
    CHOICES, GENES, Gene, Genome, Mark, Space, choice, drawn, fitness, gene, mutate, step,
};
pub use trial::{Entry, State, Trial};

use super::{Evaluator, Found, NothingFits, Outcome, degrees};
use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};
use std::cmp::Ordering;

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

/// Searches the layouts of a model.
///
/// # Errors
/// `S203` where layouts or stages are given, which these searches do not keep; or a pass refuses the
/// program.
pub(super) fn run(
    evaluator: &Evaluator<'_>,
    way: Way,
    effort: &Effort,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Outcome> {
    check(evaluator)?;
    let space = LayoutSpace::new(evaluator);
    let tuples = degrees::tuples(evaluator.facts(), evaluator.devices());
    let known = match effort.start {
        Start::Degrees => Some(degrees::best_of(evaluator, &tuples, progress)?),
        Start::Nothing => None,
    };
    let known_best = known.as_ref().and_then(|k| k.as_ref().ok()).map(|f| f.best.clone());
    let start = known_best.as_ref().map_or(Vec::new(), |b| space.of_degrees(&b.degrees));
    let settings = Settings { moves: effort.moves, seed: effort.seed, start };
    let mut told = |state: &State| progress(state.done, state.budget);
    let mut trial = Trial::new(&space, effort.evaluations, &mut told);
    run_way(way, &mut trial, &settings);
    let spent = trial.spent();
    let best = trial.best().filter(|b| b.worth > 0.0).map(|b| b.genome.clone());
    let best = match best {
        Some(genome) => space.plan(&genome)?.ok(),
        None => None,
    };
    let before = known.as_ref().map_or(0, |_| tuples.len() as u64);
    let evaluations = spent + before;
    let better = |a: &super::Evaluated, b: &super::Evaluated| {
        space.value(a).total_cmp(&space.value(b)) == Ordering::Greater
    };
    let best = match (best, known_best) {
        (Some(found), Some(known)) => Some(if better(&found, &known) { found } else { known }),
        (found, known) => found.or(known),
    };
    Ok(match (best, known) {
        (Some(best), _) => Ok(Found { best, reading: None, evaluations, proof: None }),
        (None, Some(Err(nothing))) => Err(nothing),
        (None, _) => match degrees::best_of(evaluator, &tuples, progress)? {
            // A search that meets nothing possible does not show that nothing is.
            Ok(found) => Ok(Found { evaluations: spent + found.evaluations, ..found }),
            Err(nothing) => {
                Err(Box::new(NothingFits { evaluations: spent + nothing.evaluations, ..*nothing }))
            }
        },
    })
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
