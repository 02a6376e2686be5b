//! Ways to search: what to evaluate next, given what was evaluated.

mod annealing;
mod bottleneck;
mod climb;
mod genetic;
mod random;
mod steepest;
mod swarm;

use super::dice::Dice;
use super::memory::{Lesson, Memory, Parameter};
use super::space::{Genome, Space, drawn, step};
use super::trial::Trial;
use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};

/// A way to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// Draws, or steps from where it starts.
    Random,
    /// Chains of steps, worse ones taken with falling probability.
    Annealing,
    /// A population that is crossed and mutated.
    Genetic,
    /// The same, which guesses first and evaluates what promises most.
    Guided,
    /// Particles drawn to their own best and that of all.
    Swarm,
    /// All changes of one gene, the best of which is taken; restarts.
    Steepest,
    /// Changes to what is dearest.
    Bottleneck,
    /// A policy over an elite history.
    Rl(Variant),
}

/// What the policy goes without, to see what it is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// Nothing.
    #[default]
    Full,
    /// Without learning: the network stays as it was drawn.
    Untrained,
    /// Without history: neither elites to attend to nor parents.
    NoHistory,
    /// Without guesses, where the space has some.
    Unguided,
}

/// Which steps a search takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Moves {
    /// One gene at a time.
    #[default]
    Single,
    /// Also whole blocks, redrawn from a tuple of degrees.
    Block,
}

/// How to search.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The steps.
    pub moves: Moves,
    /// Seed of every random number.
    pub seed: u64,
    /// Where to start; from nothing where empty.
    pub start: Vec<Genome>,
    /// Parameters that a policy begins with; drawn where empty.
    pub parameters: Vec<Parameter>,
    /// What earlier searches learned of guesses.
    pub lessons: Vec<Lesson>,
}

impl Settings {
    /// The same with what an earlier search left.
    #[must_use]
    pub fn recalling(mut self, memory: Option<&Memory>, space: &dyn Space) -> Self {
        if let Some(memory) = memory {
            self.start.extend(memory.starts(space));
            self.parameters.clone_from(&memory.parameters);
            self.lessons = memory.lessons(space);
        }
        self
    }

    pub(super) fn blocks(&self) -> bool {
        self.moves == Moves::Block
    }

    /// `count` genomes to begin with: the start and steps from it, or draws.
    pub(super) fn first(&self, trial: &Trial<'_>, dice: &mut Dice, count: usize) -> Vec<Genome> {
        let mut out: Vec<Genome> = self.start.iter().take(count).cloned().collect();
        let given = out.len();
        while out.len() < count {
            out.push(match given {
                0 => drawn(trial.space, dice, self.blocks()),
                n => step(trial.space, &out[dice.below(n)], dice, self.blocks()),
            });
        }
        out
    }
}

/// Whether this build has the search `rl`.
pub const HAS_RL: bool = cfg!(feature = "rl");

/// Searches until the trial is done; the parameters of the policy at the end, if there is one.
///
/// # Errors
/// `S205` where the build has no policy, `S206` where its library fails.
pub fn run(way: Way, trial: &mut Trial<'_>, settings: &Settings) -> Result<Vec<Parameter>> {
    let mut dice = Dice::new(settings.seed);
    match way {
        Way::Random => random::run(trial, settings, &mut dice),
        Way::Annealing => annealing::run(trial, settings, &mut dice),
        Way::Genetic => genetic::run(trial, settings, &mut dice),
        Way::Guided => genetic::run_guided(trial, settings, &mut dice),
        Way::Swarm => swarm::run(trial, settings, &mut dice),
        Way::Steepest => climb::run(trial, settings, &mut dice, steepest::best_neighbour),
        Way::Bottleneck => climb::run(trial, settings, &mut dice, bottleneck::improved),
        Way::Rl(variant) => return policy(trial, settings, variant, &mut dice),
    }
    Ok(Vec::new())
}

#[cfg(feature = "rl")]
fn policy(
    trial: &mut Trial<'_>,
    settings: &Settings,
    variant: Variant,
    dice: &mut Dice,
) -> Result<Vec<Parameter>> {
    super::rl::run(trial, settings, variant, dice).map_err(|error| {
        let message = format!("the policy network fails: {error}");
        Box::new(Diagnostic::error(codes::NETWORK, message))
    })
}

#[cfg(not(feature = "rl"))]
fn policy(_: &mut Trial<'_>, _: &Settings, _: Variant, _: &mut Dice) -> Result<Vec<Parameter>> {
    let message = "this build has no search `rl`";
    let help = "build it with `--features rl`, or search with `genetic`";
    Err(Box::new(Diagnostic::error(codes::NO_POLICY, message).help(help)))
}
