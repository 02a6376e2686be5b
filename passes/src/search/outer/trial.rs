//! A search under way: its budget, and everything that was evaluated, each plan once.

use super::space::{Genome, REFUSED, Space};
use crate::search::state::State;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// An evaluated plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its repaired genome.
    pub genome: Genome,
    /// What it is worth.
    pub worth: f64,
    /// What its space guesses, where it does.
    pub guess: Option<f64>,
}

/// Proposals in a row that bring nothing new after which a search gives up: then it has seen all
/// that it can reach.
const STALE: u64 = 5_000;

/// A search under way.
pub struct Trial<'a> {
    /// What is searched.
    pub space: &'a dyn Space,
    judge: fn(&dyn Space, &Genome) -> f64,
    budget: u64,
    known: BTreeMap<Genome, usize>,
    history: Vec<Entry>,
    best: Option<usize>,
    stale: u64,
    /// Plans of the history that were evaluated before this search.
    recalled: u64,
    progress: &'a mut dyn FnMut(&State),
}

impl<'a> Trial<'a> {
    /// A search of so many evaluations; `progress` is told after every lot.
    pub fn new(space: &'a dyn Space, budget: u64, progress: &'a mut dyn FnMut(&State)) -> Self {
        Trial {
            space,
            judge: |space, genome| space.worth(genome),
            budget,
            known: BTreeMap::new(),
            history: Vec::new(),
            best: None,
            stale: 0,
            recalled: 0,
            progress,
        }
    }

    /// A search in which plans are worth what the space guesses, which evaluates nothing.
    pub fn guessing(
        space: &'a dyn Space,
        budget: u64,
        progress: &'a mut dyn FnMut(&State),
    ) -> Self {
        let judge = |space: &dyn Space, genome: &Genome| space.guess(genome).unwrap_or(REFUSED);
        Trial { judge, ..Trial::new(space, budget, progress) }
    }

    /// Whether nothing more may be evaluated, or nothing new is proposed.
    pub fn done(&self) -> bool {
        self.spent() >= self.budget || self.stale >= STALE
    }

    /// Evaluations so far.
    pub fn spent(&self) -> u64 {
        self.history.len() as u64 - self.recalled
    }

    /// Takes over what an earlier search of the same space evaluated; it costs nothing.
    pub fn recall(&mut self, entries: &[Entry]) {
        for entry in entries {
            if !self.known.contains_key(&entry.genome) {
                self.recalled += 1;
                self.note(entry.clone());
            }
        }
    }

    fn note(&mut self, entry: Entry) {
        let at = self.history.len();
        if self.best.is_none_or(|b| entry.worth > self.history[b].worth) {
            self.best = Some(at);
        }
        self.known.insert(entry.genome.clone(), at);
        self.history.push(entry);
    }

    /// Evaluations allowed.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// Everything evaluated, in order.
    pub fn history(&self) -> &[Entry] {
        &self.history
    }

    /// The best plan so far, the first of equals.
    pub fn best(&self) -> Option<&Entry> {
        self.best.map(|i| &self.history[i])
    }

    /// Whether the plan of a genome was evaluated.
    pub fn knows(&self, genome: &Genome) -> bool {
        let mut genome = genome.clone();
        self.space.repair(&mut genome);
        self.known.contains_key(&genome)
    }

    /// Evaluates plans, those not known yet in parallel; in order, what each comes to. Once the
    /// budget is spent the rest is left out.
    pub fn ask(&mut self, genomes: &[Genome]) -> Vec<Entry> {
        let mut wanted: Vec<Genome> = genomes.to_vec();
        wanted.iter_mut().for_each(|g| self.space.repair(g));
        let mut new: Vec<&Genome> = Vec::new();
        for genome in &wanted {
            if !self.known.contains_key(genome) && !new.contains(&genome) {
                new.push(genome);
            }
        }
        new.truncate((self.budget - self.spent()) as usize);
        self.stale = if new.is_empty() { self.stale + wanted.len().max(1) as u64 } else { 0 };
        let entry = |genome: &&Genome| {
            let worth = (self.judge)(self.space, genome);
            Entry { genome: (*genome).clone(), worth, guess: self.space.guess(genome) }
        };
        let entries: Vec<Entry> = new.par_iter().map(entry).collect();
        entries.into_iter().for_each(|entry| self.note(entry));
        let best = self.best().map_or(0.0, |b| b.worth);
        let state = State { done: self.spent(), budget: self.budget, best, bound: None };
        (self.progress)(&state);
        let found = wanted.iter().filter_map(|g| self.known.get(g));
        found.map(|&i| self.history[i].clone()).collect()
    }

    /// Evaluates one plan; none once the budget is spent.
    pub fn ask_one(&mut self, genome: &Genome) -> Option<Entry> {
        self.ask(std::slice::from_ref(genome)).pop()
    }
}
