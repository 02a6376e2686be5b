//! Ways to search: what to evaluate next, given what was evaluated.

mod annealing;
mod bottleneck;
mod genetic;
mod random;
mod steepest;
mod swarm;

use super::dice::Dice;
use super::space::{Genome, drawn, step};
use super::trial::Trial;

/// A way to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// Draws, or steps from where it starts.
    Random,
    /// Chains of steps, worse ones taken with falling probability.
    Annealing,
    /// A population that is crossed and mutated.
    Genetic,
    /// Particles drawn to their own best and that of all.
    Swarm,
    /// All changes of one gene, the best of which is taken; restarts.
    Steepest,
    /// Changes to what is dearest.
    Bottleneck,
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
#[derive(Clone, Debug)]
pub struct Settings {
    /// The steps.
    pub moves: Moves,
    /// Seed of every random number.
    pub seed: u64,
    /// Where to start; from nothing where empty.
    pub start: Vec<Genome>,
}

impl Settings {
    fn blocks(&self) -> bool {
        self.moves == Moves::Block
    }

    /// `count` genomes to begin with: the start and steps from it, or draws.
    fn first(&self, trial: &Trial<'_>, dice: &mut Dice, count: usize) -> Vec<Genome> {
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

/// Searches until the trial is done.
pub fn run(way: Way, trial: &mut Trial<'_>, settings: &Settings) {
    let mut dice = Dice::new(settings.seed);
    match way {
        Way::Random => random::run(trial, settings, &mut dice),
        Way::Annealing => annealing::run(trial, settings, &mut dice),
        Way::Genetic => genetic::run(trial, settings, &mut dice),
        Way::Swarm => swarm::run(trial, settings, &mut dice),
        Way::Steepest => steepest::run(trial, settings, &mut dice),
        Way::Bottleneck => bottleneck::run(trial, settings, &mut dice),
    }
}
