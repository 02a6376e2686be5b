//! `steepest`: from a plan, every plan that differs in one gene is evaluated and the best is taken;
//! where none is better, it starts anew.

use super::Settings;
use crate::search::outer::dice::Dice;
use crate::search::outer::space::{Genome, fitness};
use crate::search::outer::trial::{Entry, Trial};

/// Plans evaluated at once.
const LOT: usize = 16;

/// The best plan that is one change away, if it is better.
pub(super) fn best_neighbour(
    trial: &mut Trial<'_>,
    at: &Entry,
    settings: &Settings,
    dice: &mut Dice,
) -> Option<Entry> {
    let mut neighbours = neighbours(trial, at, settings);
    // In random order, so that a budget that ends within favours no gene.
    for i in (1..neighbours.len()).rev() {
        neighbours.swap(i, dice.below(i + 1));
    }
    let mut best: Option<Entry> = None;
    for lot in neighbours.chunks(LOT) {
        for entry in trial.ask(lot) {
            let than = best.as_ref().unwrap_or(at);
            if fitness(entry.worth) > fitness(than.worth) {
                best = Some(entry);
            }
        }
        if trial.done() {
            return None;
        }
    }
    best
}

fn neighbours(trial: &Trial<'_>, at: &Entry, settings: &Settings) -> Vec<Genome> {
    let space = trial.space;
    let mut out = Vec::new();
    for (i, gene) in space.genes().iter().enumerate() {
        for choice in (0..gene.choices.len()).filter(|&c| c != usize::from(at.genome[i])) {
            let mut genome = at.genome.clone();
            genome[i] = choice as u8;
            out.push(genome);
        }
    }
    let blocks = if settings.blocks() { space.blocks() } else { 0 };
    for block in 0..blocks {
        for tuple in 0..space.tuples() {
            let mut genome = at.genome.clone();
            space.redraw(&mut genome, block, tuple);
            out.push(genome);
        }
    }
    out
}
