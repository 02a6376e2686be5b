//! `swarm`: particles whose places are real numbers, one a gene, drawn to the best place of their
//! own and to that of all (Kennedy and Eberhart 1995, with the inertia of Shi and Eberhart 1998).

use super::Settings;
use crate::search::outer::dice::Dice;
use crate::search::outer::space::{Genome, Space, fitness, step};
use crate::search::outer::trial::{Entry, Trial};

/// Particles.
const PARTICLES: usize = 16;
/// Part of its speed that a particle keeps, and the pulls to the two bests: the usual constants of
/// Clerc and Kennedy 2002.
const INERTIA: f64 = 0.729;
const PULL: f64 = 1.494;
/// Probability that a gene is drawn anew.
const TURBULENCE: f64 = 0.01;

struct Particle {
    place: Vec<f64>,
    speed: Vec<f64>,
    best: Entry,
}

pub(super) fn run(trial: &mut Trial<'_>, settings: &Settings, dice: &mut Dice) {
    let first = settings.first(trial, dice, PARTICLES);
    let particle = |best: Entry| Particle {
        place: best.genome.iter().map(|&c| f64::from(c) + 0.5).collect(),
        speed: vec![0.0; best.genome.len()],
        best,
    };
    let mut swarm: Vec<Particle> = trial.ask(&first).into_iter().map(particle).collect();
    while !trial.done() && !swarm.is_empty() {
        let Some(best) = trial.best().map(|b| b.genome.clone()) else { return };
        let mut next: Vec<Genome> = Vec::new();
        for particle in &mut swarm {
            fly(trial.space, particle, &best, dice);
            let mut genome = choices(&particle.place);
            if settings.blocks() && dice.chance(0.5) {
                genome = step(trial.space, &genome, dice, true);
                particle.place = genome.iter().map(|&c| f64::from(c) + 0.5).collect();
            }
            next.push(genome);
        }
        for (particle, entry) in swarm.iter_mut().zip(trial.ask(&next)) {
            if fitness(entry.worth) > fitness(particle.best.worth) {
                particle.best = entry;
            }
        }
    }
}

fn fly(space: &dyn Space, particle: &mut Particle, best: &Genome, dice: &mut Dice) {
    for (i, gene) in space.genes().iter().enumerate() {
        let most = gene.choices.len() as f64 - 1e-9;
        let (place, speed) = (&mut particle.place[i], &mut particle.speed[i]);
        let own = f64::from(particle.best.genome[i]) + 0.5 - *place;
        let all = f64::from(best[i]) + 0.5 - *place;
        *speed = INERTIA * *speed + PULL * (dice.unit() * own + dice.unit() * all);
        *speed = speed.clamp(-most, most);
        *place = (*place + *speed).clamp(0.0, most);
        if dice.chance(TURBULENCE) {
            *place = dice.unit() * most;
        }
    }
}

fn choices(place: &[f64]) -> Genome {
    place.iter().map(|p| p.floor() as u8).collect()
}
