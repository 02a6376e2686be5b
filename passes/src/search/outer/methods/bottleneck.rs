//! `bottleneck-moves`: the genes of what is dearest are changed first; the first change that helps is
//! taken, and when none does the next dearest part is looked at; where nothing helps, it starts anew.

use super::Settings;
use crate::search::outer::dice::Dice;
use crate::search::outer::space::{Genome, fitness};
use crate::search::outer::trial::{Entry, Trial};

/// Changes evaluated at once.
const LOT: usize = 8;

/// The best of the first lot of changes that holds a better plan.
pub(super) fn improved(
    trial: &mut Trial<'_>,
    at: &Entry,
    settings: &Settings,
    dice: &mut Dice,
) -> Option<Entry> {
    let space = trial.space;
    let mut changes: Vec<Genome> = Vec::new();
    let mut met = vec![false; space.blocks()];
    for gene in space.dearest(&at.genome) {
        let block = space.genes()[gene].block;
        if settings.blocks() && space.tuples() > 0 && !std::mem::replace(&mut met[block], true) {
            for _ in 0..LOT {
                let mut genome = at.genome.clone();
                space.redraw(&mut genome, block, dice.below(space.tuples()));
                changes.push(genome);
            }
        }
        let choices = space.genes()[gene].choices.len();
        for choice in (0..choices).filter(|&c| c != usize::from(at.genome[gene])) {
            let mut genome = at.genome.clone();
            genome[gene] = choice as u8;
            changes.push(genome);
        }
    }
    for lot in changes.chunks(LOT) {
        let found = trial.ask(lot).into_iter();
        let better = found.filter(|e| fitness(e.worth) > fitness(at.worth));
        let best = better.max_by(|a, b| fitness(a.worth).total_cmp(&fitness(b.worth)));
        if best.is_some() {
            return best;
        }
        if trial.done() {
            return None;
        }
    }
    None
}
