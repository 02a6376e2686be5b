//! Where an evaluation is dear and a guess is not: a search runs on guesses first, and of all plans
//! that were guessed only those that promise most are evaluated.
//!
//! A plan promises its guess, corrected by how far evaluations came out above theirs ([`errors`]), and a
//! little more the less sure that is.

mod errors;

use super::memory::Lesson;
use super::methods::Settings;
use super::space::{Genome, Mark, Space};
use super::trial::{Entry, Trial};
use errors::{Errors, Outlook, Point};
use std::collections::BTreeMap;

/// Plans that a search judges by guesses before it evaluates one.
pub(super) const GUESSES: u64 = 1024;
/// Plans that are evaluated together.
pub(super) const LOT: usize = 4;
/// Proposals for each plan that is evaluated.
pub(super) const PROPOSALS: usize = 16;

/// Logarithm below which worth is not told apart: an eighth of the best.
const LEAST: f64 = -2.0;
/// Standard deviations that a plan is promised more.
const CURIOSITY: f64 = 0.5;

/// What guesses are known, which of them was the best, and what other searches learned of errors.
#[derive(Debug)]
pub(super) struct Guide {
    /// Marks of the choices of each gene.
    choices: Vec<Vec<Mark>>,
    guesses: BTreeMap<Genome, f64>,
    top: f64,
    lessons: Vec<Lesson>,
}

impl Guide {
    /// Whether a space has guesses.
    pub fn can_guess(space: &dyn Space) -> bool {
        let mut genome: Genome = vec![0; space.genes().len()];
        space.repair(&mut genome);
        space.guess(&genome).is_some()
    }

    /// A guide of plans that were judged by guesses, and of what was learned elsewhere.
    pub fn of(space: &dyn Space, history: &[Entry], lessons: &[Lesson]) -> Self {
        let choices = space.genes().iter().map(|g| g.choices.clone()).collect();
        let (guesses, lessons) = (BTreeMap::new(), lessons.to_vec());
        let mut guide = Guide { choices, guesses, top: 0.0, lessons };
        history.iter().for_each(|e| guide.note(&e.genome, e.worth));
        guide
    }

    fn note(&mut self, genome: &Genome, guess: f64) {
        self.top = self.top.max(guess);
        self.guesses.insert(genome.clone(), guess);
    }

    /// The first plans to evaluate: at most half of a lot those that the search is told to start from,
    /// the rest those that promise most.
    pub fn first(&mut self, trial: &Trial<'_>, settings: &Settings) -> Vec<Genome> {
        let mut out: Vec<Genome> = settings.start.iter().take(LOT / 2).cloned().collect();
        out.iter_mut().for_each(|genome| trial.space.repair(genome));
        let rest = self.choose(trial, &[], LOT).into_iter();
        let rest: Vec<Genome> = rest.filter(|g| !out.contains(g)).take(LOT - out.len()).collect();
        out.extend(rest);
        out
    }

    /// Of some proposals and all plans that were guessed before the `count` that promise most and were
    /// not evaluated, repaired, each chosen as if the ones before it had come out a little worse.
    pub fn choose(&mut self, trial: &Trial<'_>, proposals: &[Genome], count: usize) -> Vec<Genome> {
        for proposal in proposals {
            let mut genome = proposal.clone();
            trial.space.repair(&mut genome);
            if !self.guesses.contains_key(&genome) {
                let guess = trial.space.guess(&genome).unwrap_or(0.0);
                self.note(&genome, guess);
            }
        }
        let mut errors = self.errors(trial);
        let open = self.guesses.iter().filter(|(genome, _)| !trial.knows(genome));
        let mut open: Vec<(&Genome, f64, Outlook)> = open
            .map(|(genome, &guess)| {
                let point = self.point(genome, guess);
                (genome, point.guess, errors.outlook(point))
            })
            .collect();
        let mut chosen: Vec<Genome> = Vec::new();
        while chosen.len() < count && !open.is_empty() {
            let promise = |(_, guess, outlook): &(&Genome, f64, Outlook)| {
                let (expected, deviation) = errors.expected(outlook);
                guess + expected + CURIOSITY * deviation
            };
            // The first of equals: `max_by` would take the last.
            let promises = open.iter().map(promise).enumerate().rev();
            let Some((best, _)) = promises.max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
            let (genome, _, outlook) = open.swap_remove(best);
            errors.doubt(&outlook);
            open.iter_mut().for_each(|(_, _, outlook)| errors.update(outlook));
            chosen.push(genome.clone());
        }
        chosen
    }

    fn point(&self, genome: &Genome, guess: f64) -> Point {
        let pairs = self.choices.iter().zip(genome);
        let marks = pairs.map(|(choices, &at)| choices.get(usize::from(at)).copied()).collect();
        Point { marks, guess: scaled(guess, self.top), elsewhere: false }
    }

    /// What evaluations here, and lessons from elsewhere, say of errors.
    fn errors(&self, trial: &Trial<'_>) -> Errors {
        let best = trial.best().map_or(0.0, |b| b.worth);
        let here = trial.history().iter().map(|entry| {
            let point = self.point(&entry.genome, entry.guess.unwrap_or(0.0));
            let error = scaled(entry.worth, best) - point.guess;
            (point, error)
        });
        let there = self.lessons.iter().map(|lesson| {
            let guess = scaled(lesson.guess, 1.0);
            let point = Point { marks: lesson.marks.clone(), guess, elsewhere: true };
            (point, scaled(lesson.worth, 1.0) - guess)
        });
        Errors::of(there.chain(here).collect())
    }
}

/// Worth as the logarithm of its part of the best, down to [`LEAST`], where what is not possible is.
fn scaled(worth: f64, best: f64) -> f64 {
    if worth > 0.0 && best > 0.0 { (worth / best).ln().max(LEAST) } else { LEAST }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::outer::space::{Gene, drawn};
    use crate::search::outer::{Dice, Moves, Settings, Way, run_way};

    /// Worth grows with every gene; guesses believe the first gene to count against.
    struct Line {
        genes: Vec<Gene>,
        lies: bool,
    }

    impl Line {
        fn new(lies: bool) -> Self {
            let gene = |n: usize| Gene {
                name: format!("g{n}"),
                mark: 12,
                place: 0.0,
                choices: (9..17).collect(),
                block: n % 2,
            };
            Line { genes: (0..6).map(gene).collect(), lies }
        }
    }

    impl Space for Line {
        fn genes(&self) -> &[Gene] {
            &self.genes
        }

        fn blocks(&self) -> usize {
            2
        }

        fn tuples(&self) -> usize {
            0
        }

        fn redraw(&self, _: &mut Genome, _: usize, _: usize) {}

        fn repair(&self, _: &mut Genome) {}

        fn worth(&self, genome: &Genome) -> f64 {
            genome.iter().map(|&c| f64::from(c)).sum::<f64>().exp2()
        }

        fn guess(&self, genome: &Genome) -> Option<f64> {
            let first = f64::from(genome[0]);
            let rest = genome[1..].iter().map(|&c| f64::from(c)).sum::<f64>();
            Some((rest + if self.lies { -first / 2.0 } else { first }).exp2())
        }

        fn dearest(&self, _: &Genome) -> Vec<usize> {
            (0..6).collect()
        }
    }

    fn evaluations_to_best(space: &Line, way: Way, seed: u64) -> Option<usize> {
        let mut nothing = |_: &crate::search::State| {};
        let mut trial = Trial::new(space, 200, &mut nothing);
        let settings = Settings { moves: Moves::Block, seed, ..Settings::default() };
        run_way(way, &mut trial, &settings).ok();
        let best = space.worth(&vec![7; 6]);
        trial.history().iter().position(|e| e.worth == best)
    }

    #[test]
    fn right_guesses_find_the_best_at_once() {
        let space = Line::new(false);
        for seed in 0..5 {
            let guided = evaluations_to_best(&space, Way::Guided, seed);
            assert!(guided.is_some_and(|n| n < LOT), "{guided:?}");
        }
    }

    #[test]
    fn wrong_guesses_are_found_out() {
        let space = Line::new(true);
        let mut found = 0;
        for seed in 0..5 {
            found += u32::from(evaluations_to_best(&space, Way::Guided, seed).is_some());
        }
        assert!(found >= 4, "{found} of 5 seeds correct a guess that points away from the best");
    }

    #[test]
    fn nothing_that_was_evaluated_is_chosen_again() {
        let space = Line::new(false);
        let mut nothing = |_: &crate::search::State| {};
        let mut trial = Trial::new(&space, 100, &mut nothing);
        let mut dice = Dice::new(1);
        let plans: Vec<Genome> = (0..20).map(|_| drawn(&space, &mut dice, false)).collect();
        trial.ask(&plans[..10]);
        let mut guide = Guide::of(&space, &[], &[]);
        let chosen = guide.choose(&trial, &[&plans[..], &plans[..]].concat(), 30);
        assert_eq!(chosen.len(), 10);
        assert!(chosen.iter().all(|plan| plans[10..].contains(plan)), "{chosen:?}");
    }
}
