//! `annealing`: several chains of steps side by side; a step to a plan worse by a part x is taken
//! with probability exp(-x / T), and T falls geometrically over the budget.

use super::Settings;
use crate::search::outer::dice::Dice;
use crate::search::outer::space::{Genome, fitness, step};
use crate::search::outer::trial::{Entry, Trial};

/// Chains.
const CHAINS: usize = 4;
/// Temperature at first and at the end: the loss in worth, as a part, that is taken one time in e.
const HOT: f64 = 0.1;
const COLD: f64 = 0.001;

pub(super) fn run(trial: &mut Trial<'_>, settings: &Settings, dice: &mut Dice) {
    let first = settings.first(trial, dice, CHAINS);
    let mut chains: Vec<Entry> = trial.ask(&first);
    while !trial.done() && !chains.is_empty() {
        let progress = trial.spent() as f64 / trial.budget().max(1) as f64;
        let temperature = HOT * (COLD / HOT).powf(progress);
        let mut next: Vec<Genome> = Vec::new();
        for chain in &chains {
            next.push(step(trial.space, &chain.genome, dice, settings.blocks()));
        }
        for (chain, entry) in chains.iter_mut().zip(trial.ask(&next)) {
            let gain = fitness(entry.worth) - fitness(chain.worth);
            if gain >= 0.0 || dice.chance((gain / temperature).exp()) {
                *chain = entry;
            }
        }
    }
}
