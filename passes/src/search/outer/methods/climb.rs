//! Climbing from plan to better plan, with restarts: what `steepest` and `bottleneck-moves` share.

use super::Settings;
use crate::search::outer::dice::Dice;
use crate::search::outer::space::drawn;
use crate::search::outer::trial::{Entry, Trial};

/// A better plan near one; none where the search should start anew.
pub(super) type Step = fn(&mut Trial<'_>, &Entry, &Settings, &mut Dice) -> Option<Entry>;

pub(super) fn run(trial: &mut Trial<'_>, settings: &Settings, dice: &mut Dice, step: Step) {
    let mut starts = settings.start.clone();
    starts.reverse();
    while !trial.done() {
        let start = starts.pop().unwrap_or_else(|| drawn(trial.space, dice, settings.blocks()));
        let Some(mut at) = trial.ask_one(&start) else { return };
        while let Some(next) = step(trial, &at, settings, dice) {
            at = next;
        }
    }
}
