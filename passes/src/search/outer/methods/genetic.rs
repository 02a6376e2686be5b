//! `genetic`: parents by tournament, crossed gene by gene or block by block, then mutated; the best
//! of parents and children survive. `genetic:guided` does so on guesses first, then evaluates the children
//! that promise most.

use super::Settings;
use crate::search::outer::dice::Dice;
use crate::search::outer::guide::{GUESSES, Guide, LOT, PROPOSALS};
use crate::search::outer::space::{Genome, fitness, mutate, step};
use crate::search::outer::trial::{Entry, Trial};
use crate::search::state::State;

/// Plans that survive.
const POPULATION: usize = 24;
/// Children of a generation.
const CHILDREN: usize = 16;
/// Plans of which the best becomes a parent.
const TOURNAMENT: usize = 3;
/// Probability that a child has two parents.
const CROSSED: f64 = 0.7;
/// Genes that change in a child, on average.
const MUTATIONS: f64 = 2.0;

pub(super) fn run(trial: &mut Trial<'_>, settings: &Settings, dice: &mut Dice) {
    let first = settings.first(trial, dice, POPULATION);
    evolve(trial, settings, &first, None, dice);
}

/// As [`run`], on guesses first, where the space has them.
pub(super) fn run_guided(trial: &mut Trial<'_>, settings: &Settings, dice: &mut Dice) {
    if !Guide::can_guess(trial.space) {
        return run(trial, settings, dice);
    }
    let first = settings.first(trial, dice, POPULATION);
    let mut quiet = |_: &State| {};
    let mut guesses = Trial::guessing(trial.space, GUESSES, &mut quiet);
    evolve(&mut guesses, settings, &first, None, dice);
    let mut guide = Guide::of(trial.space, guesses.history(), &settings.lessons);
    let first = guide.first(trial, settings);
    evolve(trial, settings, &first, Some(&mut guide), dice);
}

/// Generations after the first, until the trial is done.
fn evolve(
    trial: &mut Trial<'_>,
    settings: &Settings,
    first: &[Genome],
    mut guide: Option<&mut Guide>,
    dice: &mut Dice,
) {
    let mut population: Vec<Entry> = trial.ask(first);
    sort(&mut population);
    while !trial.done() && !population.is_empty() {
        let count = guide.as_ref().map_or(CHILDREN, |_| LOT * PROPOSALS);
        let mut children: Vec<Genome> =
            (0..count).map(|_| child(trial, settings, &population, dice)).collect();
        if let Some(guide) = &mut guide {
            children = guide.choose(trial, &children, LOT);
        }
        for entry in trial.ask(&children) {
            if !population.iter().any(|p| p.genome == entry.genome) {
                population.push(entry);
            }
        }
        sort(&mut population);
        population.truncate(POPULATION);
    }
}

/// Best first; of equals the older.
fn sort(population: &mut [Entry]) {
    population.sort_by(|a, b| fitness(b.worth).total_cmp(&fitness(a.worth)));
}

fn child(trial: &Trial<'_>, settings: &Settings, population: &[Entry], dice: &mut Dice) -> Genome {
    let mut genome = parent(population, dice).clone();
    if dice.chance(CROSSED) {
        let other = parent(population, dice).clone();
        cross(trial, settings, &mut genome, &other, dice);
    }
    if settings.blocks() && dice.chance(0.5) {
        genome = step(trial.space, &genome, dice, true);
    }
    let one = MUTATIONS / 2.0;
    while dice.chance(one / (1.0 + one)) {
        mutate(trial.space, &mut genome, dice);
    }
    let mut repaired = genome.clone();
    trial.space.repair(&mut repaired);
    if population.iter().any(|p| p.genome == repaired) {
        mutate(trial.space, &mut genome, dice);
    }
    genome
}

fn parent<'a>(population: &'a [Entry], dice: &mut Dice) -> &'a Genome {
    // The population is sorted, so the least place is the best.
    let place = (0..TOURNAMENT).map(|_| dice.below(population.len())).min().unwrap_or(0);
    &population[place].genome
}

fn cross(
    trial: &Trial<'_>,
    settings: &Settings,
    genome: &mut Genome,
    other: &Genome,
    dice: &mut Dice,
) {
    let by_block = settings.blocks() && dice.chance(0.5);
    let from_other: Vec<bool> = (0..trial.space.blocks()).map(|_| dice.chance(0.5)).collect();
    for (i, gene) in trial.space.genes().iter().enumerate() {
        let takes = if by_block { from_other[gene.block] } else { dice.chance(0.5) };
        if takes {
            genome[i] = other[i];
        }
    }
}
