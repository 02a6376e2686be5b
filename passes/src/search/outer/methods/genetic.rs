//! `genetic`: parents by tournament, crossed gene by gene or block by block, then mutated; the best
//! of parents and children survive.

use super::Settings;
use crate::search::outer::dice::Dice;
use crate::search::outer::space::{Genome, fitness, mutate, step};
use crate::search::outer::trial::{Entry, Trial};

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
    let mut population: Vec<Entry> = trial.ask(&first);
    sort(&mut population);
    while !trial.done() && !population.is_empty() {
        let children: Vec<Genome> =
            (0..CHILDREN).map(|_| child(trial, settings, &population, dice)).collect();
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
