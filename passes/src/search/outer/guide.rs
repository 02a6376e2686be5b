//! Where an evaluation is dear and a guess is not: a search runs on guesses first, and of many proposals
//! only those that promise most are evaluated.
//!
//! A proposal promises its guess, corrected by how far evaluations near it were from theirs, and a
//! little more the farther it is from all that were evaluated.

use super::methods::Settings;
use super::space::{Genome, Space};
use super::trial::{Entry, Trial};
use std::collections::BTreeMap;

/// Plans that a search judges by guesses before it evaluates one.
pub(super) const GUESSES: u64 = 1024;
/// Plans that are evaluated together.
pub(super) const LOT: usize = 8;
/// Proposals for each plan that is evaluated.
pub(super) const PROPOSALS: usize = 8;

/// Logarithm below which worth is not told apart: a twentieth of the best.
const LEAST: f64 = -3.0;
/// Changed genes over which what is known of a plan falls to 1/e.
const REACH: f64 = 1.5;
/// Evaluations at hand that weigh as much as all others together.
const DOUBT: f64 = 0.5;
/// Standard deviations that a plan far from all that are known is promised more.
const CURIOSITY: f64 = 0.5;

/// What guesses are known, and which of them was the best.
#[derive(Debug, Default)]
pub(super) struct Guide {
    guesses: BTreeMap<Genome, f64>,
    top: f64,
}

/// An evaluated plan, and how far above its guess it came out.
struct Known<'h> {
    genome: &'h Genome,
    error: f64,
}

impl Guide {
    /// Whether a space has guesses.
    pub fn can_guess(space: &dyn Space) -> bool {
        let mut genome: Genome = vec![0; space.genes().len()];
        space.repair(&mut genome);
        space.guess(&genome).is_some()
    }

    /// A guide of plans that were judged by guesses.
    pub fn of(history: &[Entry]) -> Self {
        let mut guide = Guide::default();
        history.iter().for_each(|e| guide.note(&e.genome, e.worth));
        guide
    }

    fn note(&mut self, genome: &Genome, guess: f64) {
        self.top = self.top.max(guess);
        self.guesses.insert(genome.clone(), guess);
    }

    /// The first plans to evaluate: half of a lot those that the search is told to start from, the
    /// rest those with the best guesses.
    pub fn first(&self, settings: &Settings) -> Vec<Genome> {
        let mut out: Vec<Genome> = settings.start.iter().take(LOT / 2).cloned().collect();
        let mut order: Vec<(&Genome, f64)> = self.guesses.iter().map(|(g, w)| (g, *w)).collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        let rest = order.into_iter().map(|(genome, _)| genome);
        let rest: Vec<Genome> = rest.filter(|g| !out.contains(g)).take(LOT).cloned().collect();
        out.extend(rest.into_iter().take(LOT - out.len()));
        out
    }

    /// Of some proposals the `count` that promise most and were not evaluated, by their number, each
    /// chosen as if what it promises were known.
    pub fn choose(&mut self, trial: &Trial<'_>, proposals: &[Genome], count: usize) -> Vec<usize> {
        let mut open: Vec<(usize, Genome)> = Vec::new();
        for (at, proposal) in proposals.iter().enumerate() {
            let mut genome = proposal.clone();
            trial.space.repair(&mut genome);
            if !trial.knows(&genome) && !open.iter().any(|(_, other)| *other == genome) {
                open.push((at, genome));
            }
        }
        for (_, genome) in &open {
            if !self.guesses.contains_key(genome) {
                let guess = trial.space.guess(genome).unwrap_or(0.0);
                self.note(genome, guess);
            }
        }
        let mut known = self.known(trial);
        let mut chosen: Vec<usize> = Vec::new();
        while chosen.len() < count && !open.is_empty() {
            let promises = open.iter().map(|(_, g)| self.promise(&known, g));
            // The first of equals: `max_by` would take the last.
            let best = promises.enumerate().rev().max_by(|a, b| a.1.1.total_cmp(&b.1.1));
            let Some((place, (error, _))) = best else { break };
            let (at, genome) = open.remove(place);
            chosen.push(at);
            if let Some((genome, _)) = self.guesses.get_key_value(&genome) {
                known.push(Known { genome, error });
            }
        }
        chosen
    }

    /// How far above their guesses evaluated plans came out.
    fn known<'h>(&self, trial: &'h Trial<'_>) -> Vec<Known<'h>> {
        let best = trial.best().map_or(0.0, |b| b.worth);
        let of = |entry: &'h Entry| {
            let guess = self.guesses.get(&entry.genome).copied();
            let guess = guess.or_else(|| trial.space.guess(&entry.genome)).unwrap_or(0.0);
            let error = scaled(entry.worth, best) - scaled(guess, self.top);
            Known { genome: &entry.genome, error }
        };
        trial.history().iter().map(of).collect()
    }

    /// How far above its guess a plan is expected to come out, and what it promises.
    fn promise(&self, known: &[Known<'_>], genome: &Genome) -> (f64, f64) {
        let guess = scaled(self.guesses.get(genome).copied().unwrap_or(0.0), self.top);
        let count = known.len().max(1) as f64;
        let mean = known.iter().map(|k| k.error).sum::<f64>() / count;
        let spread = known.iter().map(|k| (k.error - mean).powi(2)).sum::<f64>() / count;
        let (mut near, mut error) = (0.0, 0.0);
        for k in known {
            let changed = genome.iter().zip(k.genome).filter(|(a, b)| a != b).count();
            let weight = (-(changed as f64) / REACH).exp();
            near += weight;
            error += weight * (k.error - mean);
        }
        let expected = mean + error / (near + DOUBT);
        let curious = CURIOSITY * (spread * DOUBT / (near + DOUBT)).sqrt();
        (expected, guess + expected + curious)
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
        let settings =
            Settings { moves: Moves::Block, seed, start: Vec::new(), parameters: Vec::new() };
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
        let chosen = Guide::default().choose(&trial, &[&plans[..], &plans[..]].concat(), 30);
        assert_eq!(chosen.len(), 10);
        assert!(chosen.iter().all(|&at| (10..20).contains(&at)), "{chosen:?}");
    }
}
