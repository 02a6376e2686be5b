//! `random`: draws; from a start, one to eight steps away from it.

use super::Settings;
use crate::search::outer::dice::Dice;
use crate::search::outer::space::{Genome, drawn, step};
use crate::search::outer::trial::Trial;

/// Plans evaluated at once.
const LOT: usize = 16;
/// Most steps away from a start.
const FAR: usize = 8;

pub(super) fn run(trial: &mut Trial<'_>, settings: &Settings, dice: &mut Dice) {
    trial.ask(&settings.start);
    while !trial.done() {
        let draw = |_| -> Genome {
            let Some(mut genome) = settings.start.first().cloned() else {
                return drawn(trial.space, dice, settings.blocks());
            };
            for _ in 0..=dice.below(FAR) {
                genome = step(trial.space, &genome, dice, settings.blocks());
            }
            genome
        };
        let lot: Vec<Genome> = (0..LOT).map(draw).collect();
        trial.ask(&lot);
    }
}
