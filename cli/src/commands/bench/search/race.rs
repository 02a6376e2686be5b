//! Searches of one space side by side: every contestant with every seed, under one budget.

use crate::failure::Outcome;
use shardc_passes::search::State;
use shardc_passes::search::outer::{
    Genome, Memory, Moves, Settings, Space, Start, Trial, Way, run_way,
};
use std::time::Instant;

/// A search with its moves and its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contestant {
    pub name: &'static str,
    pub way: Way,
    pub moves: Moves,
    pub start: Start,
}

impl Contestant {
    /// Name of the moves in files.
    pub fn moves(&self) -> &'static str {
        match self.moves {
            Moves::Single => "single",
            Moves::Block => "block",
        }
    }

    /// Name of the start in files.
    pub fn start(&self) -> &'static str {
        match self.start {
            Start::Nothing => "nothing",
            Start::Degrees => "degrees",
        }
    }

    /// All of it in a word.
    pub fn label(&self) -> String {
        format!("{} {} {}", self.name, self.moves(), self.start())
    }
}

/// A better plan was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub evaluations: u64,
    /// Since the run began.
    pub seconds: f64,
    /// 0 or less where it is not possible.
    pub worth: f64,
}

/// One run of a contestant.
#[derive(Clone, Debug)]
pub struct Run {
    pub contestant: Contestant,
    pub seed: u64,
    /// Improvements, in order.
    pub steps: Vec<Step>,
    pub evaluations: u64,
    pub seconds: f64,
    /// What it leaves to later searches.
    pub memory: Memory,
}

impl Run {
    /// Worth of the best plan after so many evaluations; 0 where none was possible.
    pub fn after(&self, evaluations: u64) -> f64 {
        let until = self.steps.iter().take_while(|s| s.evaluations <= evaluations);
        until.last().map_or(0.0, |s| s.worth.max(0.0))
    }

    /// Worth of the best plan at the end.
    pub fn last(&self) -> f64 {
        self.after(u64::MAX)
    }

    /// Evaluations until `worth` was reached; `None` where it was not.
    pub fn until(&self, worth: f64) -> Option<u64> {
        self.steps.iter().find(|s| s.worth >= worth).map(|s| s.evaluations)
    }
}

/// The contestants of some runs, in their order.
pub fn contestants<'r>(runs: impl IntoIterator<Item = &'r Run>) -> Vec<Contestant> {
    let mut all: Vec<Contestant> = Vec::new();
    for run in runs {
        if !all.contains(&run.contestant) {
            all.push(run.contestant);
        }
    }
    all
}

/// Runs one contestant; `starts` are its plans to start from, if it starts from degrees.
///
/// Errors: the build lacks the search.
pub fn run(
    space: &dyn Space,
    contestant: Contestant,
    seed: u64,
    budget: u64,
    (starts, warm): (&[Genome], Option<&Memory>),
) -> Outcome<Run> {
    let begun = Instant::now();
    let mut steps: Vec<Step> = Vec::new();
    let mut note = |state: &State| {
        if steps.last().is_none_or(|last| state.best > last.worth) {
            let seconds = begun.elapsed().as_secs_f64();
            steps.push(Step { evaluations: state.done, seconds, worth: state.best });
        }
    };
    let mut trial = Trial::new(space, budget, &mut note);
    let start = match contestant.start {
        Start::Degrees => starts.to_vec(),
        Start::Nothing => Vec::new(),
    };
    let settings = Settings { moves: contestant.moves, seed, start, ..Settings::default() };
    let settings = settings.recalling(warm, space);
    let parameters = run_way(contestant.way, &mut trial, &settings)?;
    let memory = Memory::new("", space.genes(), trial.history(), parameters);
    let evaluations = trial.spent();
    // A lot is reported when it is done; where in it the best stood, the history says.
    let history: Vec<f64> = trial.history().iter().map(|e| e.worth).collect();
    drop(trial);
    let seconds = begun.elapsed().as_secs_f64();
    let steps = exact_steps(&history, &steps);
    Ok(Run { contestant, seed, steps, evaluations, seconds, memory })
}

/// The improvements of a history, each at the time at which its lot was reported.
fn exact_steps(history: &[f64], reported: &[Step]) -> Vec<Step> {
    let mut out: Vec<Step> = Vec::new();
    for (i, &worth) in history.iter().enumerate() {
        let better = out.last().is_none_or(|s| worth > s.worth);
        let time = reported.iter().find(|s| s.worth >= worth).map_or(0.0, |s| s.seconds);
        if better {
            out.push(Step { evaluations: i as u64 + 1, seconds: time, worth });
        }
    }
    out
}

/// Median, and the lower and upper quartile; by nearest rank.
pub fn quartiles(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let rank = (part * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    };
    (at(0.5), at(0.25), at(0.75))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_by_nearest_rank() {
        assert_eq!(quartiles(&[4.0, 1.0, 3.0, 2.0]), (2.0, 1.0, 3.0));
        assert_eq!(quartiles(&[5.0]), (5.0, 5.0, 5.0));
        assert_eq!(quartiles(&[]), (0.0, 0.0, 0.0));
    }

    #[test]
    fn improvements_are_found_within_a_lot() {
        let reported = [
            Step { evaluations: 2, seconds: 0.5, worth: 3.0 },
            Step { evaluations: 4, seconds: 1.5, worth: 4.0 },
        ];
        let steps = exact_steps(&[1.0, 3.0, 2.0, 4.0], &reported);
        let shown: Vec<_> = steps.iter().map(|s| (s.evaluations, s.seconds, s.worth)).collect();
        assert_eq!(shown, [(1, 0.5, 1.0), (2, 0.5, 3.0), (4, 1.5, 4.0)]);
    }
}
