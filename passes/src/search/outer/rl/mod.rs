//! `rl`: a policy that attends to an elite history proposes all genes of a plan together, and is moved
//! towards proposals that came out better than the rest of their lot (REINFORCE, Williams 1992; after
//! Learning to Shard, arXiv 2509.00217).
//!
//! A proposal begins with a parent of the elite, or with blocks of it redrawn from a tuple of degrees;
//! then every gene is drawn anew, its parent's choice being likelier by what the network says. Where a
//! space has guesses, the policy learns on them before it evaluates anything. docs/rl.md lists every number.

mod network;
mod view;

use super::dice::Dice;
use super::guide::{self, Guide};
use super::memory::Parameter;
use super::methods::{Settings, Variant};
use super::space::{Genome, drawn, fitness, mutate};
use super::trial::{Entry, Trial};
use crate::search::state::State;
use candle_core::Result;
use network::{Draws, Network, Preferences};
use view::View;

/// Proposals of a lot.
const LOT: usize = 16;
/// Plans drawn before the policy proposes.
const FIRST: usize = 16;
/// Best plans that the network sees, and those that are parents.
pub(super) const ELITES: usize = 8;
const PARENTS: usize = 24;
/// Genes that change on average in a proposal, and in one with redrawn blocks.
const CHANGES: f64 = 2.5;
const CHANGES_REDRAWN: f64 = 0.7;
/// Tuples among which a redrawn block is chosen.
const TUPLES: usize = 64;
/// Steps of the optimiser for a lot, and its learning rate.
const UPDATES: usize = 2;
const LEARNING_RATE: f64 = 4e-3;

/// Searches until the trial is done; the parameters of the network at the end.
pub(super) fn run(
    trial: &mut Trial<'_>,
    settings: &Settings,
    variant: Variant,
    dice: &mut Dice,
) -> Result<Vec<Parameter>> {
    let view = View::new(trial.space, settings.blocks())?;
    let network = Network::new(dice, &settings.parameters, LEARNING_RATE)?;
    let mut policy = Policy { view, network, variant };
    let first = settings.first(trial, dice, FIRST);
    if variant == Variant::Unguided || !Guide::can_guess(trial.space) {
        policy.search(trial, &first, None, dice)?;
        return policy.network.parameters();
    }
    let mut quiet = |_: &State| {};
    let mut guesses = Trial::guessing(trial.space, guide::GUESSES, &mut quiet);
    policy.search(&mut guesses, &first, None, dice)?;
    let mut guide = Guide::of(trial.space, guesses.history(), &settings.lessons);
    let first = guide.first(trial, settings);
    policy.search(trial, &first, Some(&mut guide), dice)?;
    policy.network.parameters()
}

/// A network that proposes plans of a space.
struct Policy {
    view: View,
    network: Network,
    variant: Variant,
}

/// What the policy looks at when it proposes a lot.
struct Sight {
    elites: Vec<Genome>,
    tuples: Vec<(usize, Genome)>,
    preferences: Preferences,
}

impl Policy {
    /// Proposes, evaluates and learns, lot by lot; of guided proposals only those that promise most
    /// are evaluated, and learned from.
    fn search(
        &mut self,
        trial: &mut Trial<'_>,
        first: &[Genome],
        mut guide: Option<&mut Guide>,
        dice: &mut Dice,
    ) -> Result<()> {
        let mut pool: Vec<Entry> = trial.ask(first);
        rank(&mut pool);
        while !trial.done() && !pool.is_empty() {
            let sight = self.look(trial, &pool, dice)?;
            let (mut draws, mut parents) = (Draws::default(), Vec::new());
            let count = guide.as_ref().map_or(LOT, |_| guide::LOT * guide::PROPOSALS);
            for _ in 0..count {
                let place = (self.variant != Variant::NoHistory).then(|| parent(&pool, dice));
                parents.push(place.map_or(f64::NEG_INFINITY, |p| fitness(pool[p].worth)));
                let base = place.map(|p| &pool[p].genome);
                propose(trial, &self.view, &sight, base, dice, &mut draws);
            }
            let mut asked = draws.chosen.clone();
            if let Some(guide) = &mut guide {
                let numbers;
                (asked, numbers) = guided(guide, trial, &draws);
                draws = draws.only(&numbers);
                parents = numbers.iter().map(|&at| parents[at]).collect();
            }
            let found = trial.ask(&asked);
            if found.len() == asked.len() && !parents.is_empty() {
                self.learn(&sight, draws, &found, &parents)?;
            }
            for entry in found {
                if !pool.iter().any(|p| p.genome == entry.genome) {
                    pool.push(entry);
                }
            }
            rank(&mut pool);
            pool.truncate(PARENTS);
        }
        Ok(())
    }

    fn look(&self, trial: &Trial<'_>, pool: &[Entry], dice: &mut Dice) -> Result<Sight> {
        let elites: Vec<Genome> = match self.variant {
            Variant::NoHistory => Vec::new(),
            _ => pool.iter().take(ELITES).map(|e| e.genome.clone()).collect(),
        };
        let tuples = self.view.tuples(trial.space, dice, TUPLES);
        let preferences = self.network.preferences(&self.view, &elites, &tuples)?;
        Ok(Sight { elites, tuples, preferences })
    }

    fn learn(
        &mut self,
        sight: &Sight,
        mut draws: Draws,
        found: &[Entry],
        parents: &[f64],
    ) -> Result<()> {
        if self.variant == Variant::Untrained {
            return Ok(());
        }
        draws.advantage = advantages(found, parents);
        for _ in 0..UPDATES {
            self.network.update(&self.view, &sight.elites, &sight.tuples, &draws)?;
        }
        Ok(())
    }
}

/// The plans that promise most, and which draws the first of them are.
fn guided(guide: &mut Guide, trial: &Trial<'_>, draws: &Draws) -> (Vec<Genome>, Vec<usize>) {
    let plans = guide.choose(trial, &draws.chosen, guide::LOT);
    let repaired = draws.chosen.iter().map(|genome| {
        let mut genome = genome.clone();
        trial.space.repair(&mut genome);
        genome
    });
    let repaired: Vec<Genome> = repaired.collect();
    let of = |plan: Genome| (repaired.iter().position(|draw| *draw == plan), plan);
    let (own, others): (Vec<_>, Vec<_>) = plans.into_iter().map(of).partition(|p| p.0.is_some());
    let numbers = own.iter().filter_map(|(at, _)| *at).collect();
    (own.into_iter().chain(others).map(|(_, plan)| plan).collect(), numbers)
}

/// Best first; of equals the older.
fn rank(pool: &mut [Entry]) {
    pool.sort_by(|a, b| fitness(b.worth).total_cmp(&fitness(a.worth)));
}

/// A place in the pool, the best of three.
fn parent(pool: &[Entry], dice: &mut Dice) -> usize {
    (0..3).map(|_| dice.below(pool.len())).min().unwrap_or(0)
}

/// Adds one proposal to the draws.
fn propose(
    trial: &Trial<'_>,
    view: &View,
    Sight { preferences, tuples, .. }: &Sight,
    parent: Option<&Genome>,
    dice: &mut Dice,
    draws: &mut Draws,
) {
    let mut base = parent.cloned();
    let kind = if view.redraws { dice.weighted(&preferences.kinds) } else { 0 };
    let mut tuple = 0;
    if kind > 0 {
        let blocks: Vec<usize> = match kind - 1 {
            block if block < view.blocks => vec![block],
            _ => (0..view.blocks).collect(),
        };
        tuple = dice.weighted(&preferences.tuples[kind - 1]);
        let genome = base.get_or_insert_with(|| drawn(trial.space, dice, true));
        blocks.iter().for_each(|&b| trial.space.redraw(genome, b, tuples[tuple].0));
    }
    let changes = if kind > 0 { CHANGES_REDRAWN } else { CHANGES };
    let stay: Vec<f64> = match base {
        Some(_) => view.stay(changes),
        None => vec![0.0; view.genes],
    };
    let base = base.unwrap_or_else(|| vec![0; view.genes]);
    let mut chosen: Genome = (0..view.genes)
        .map(|g| {
            let keep = if stay[g] > 0.0 { stay[g] + preferences.keep[g] } else { 0.0 };
            let weight = |c: usize| {
                let more = if c == usize::from(base[g]) { keep } else { 0.0 };
                (preferences.logits[g][c] + more).exp()
            };
            let weights: Vec<f64> = (0..view.choices[g]).map(weight).collect();
            dice.weighted(&weights) as u8
        })
        .collect();
    if trial.knows(&chosen) {
        mutate(trial.space, &mut chosen, dice);
    }
    draws.chosen.push(chosen);
    draws.base.push(base);
    draws.stay.push(stay);
    draws.kinds.push(kind);
    draws.picked.push(tuple);
}

/// How much better the first proposals, of which the parents are given, came out than their lot: their
/// rank from -1 to 1, and 1 more where they are better than their parent.
fn advantages(found: &[Entry], parents: &[f64]) -> Vec<f64> {
    let score: Vec<f64> = found.iter().map(|e| fitness(e.worth)).collect();
    let half = (score.len().max(2) - 1) as f64 / 2.0;
    let of = |(own, parent): (&f64, &f64)| {
        let below = score.iter().filter(|s| *s < own).count() as f64;
        let equal = score.iter().filter(|s| *s == own).count() as f64 - 1.0;
        let rank = (below + equal / 2.0) / half - 1.0;
        let better = parent.is_finite() && own > parent;
        rank + f64::from(u8::from(better))
    };
    score.iter().zip(parents).map(of).collect()
}
