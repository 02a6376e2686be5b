//! Best first over spans of batches: the one that may yield most is looked at in its middle, which
//! cuts it in two with lower bounds, until none may yield more than the best plan found.

use super::cell::{Cell, Look, Scene, Seen};
use super::{Proof, reached};
use crate::search::Evaluated;
use rayon::prelude::*;
use std::cmp::Ordering;
use std::sync::Arc;

/// Spans that are looked at together.
const LOT: usize = 4;
/// Looks after which the search ends with the bound that it has.
const LOOKS: u64 = 32;
/// Lots that are looked at when the bound can no longer fall.
const IDLE: usize = 8;
/// A part of what the best plan reaches by which another must be able to exceed it to be looked for.
const WORTH: f64 = 1e-3;

/// Batches of a cell of which nothing is known but a look at a smaller batch.
struct Span {
    cell: usize,
    seen: Arc<Seen>,
    first: u64,
    last: u64,
    /// The most that a plan in it reaches.
    bound: f64,
}

/// The state of the search.
pub(super) struct Spans<'s, 'a> {
    scene: &'s Scene<'a>,
    cells: Vec<Cell>,
    open: Vec<Span>,
    /// The most that a batch already looked at, or not worth a look, may yield.
    closed: f64,
    looks: u64,
    pub best: Option<Evaluated>,
    /// Plans evaluated.
    pub evaluations: u64,
}

impl<'s, 'a> Spans<'s, 'a> {
    /// A search that begins with a plan.
    pub fn new(scene: &'s Scene<'a>, best: Option<Evaluated>) -> Self {
        let cells = Cell::all(scene.evaluator);
        Spans { scene, cells, open: Vec::new(), closed: 0.0, looks: 0, best, evaluations: 0 }
    }

    /// What the best plan reaches.
    fn reached(&self) -> f64 {
        self.best.as_ref().map_or(0.0, |b| reached(self.scene.evaluator, b))
    }

    /// Searches.
    pub fn run(&mut self) {
        let scene = self.scene;
        let reached = self.reached();
        let cells: Vec<usize> = (0..self.cells.len()).collect();
        let opened: Vec<_> =
            cells.par_iter().map(|&c| scene.open(&self.cells[c], reached)).collect();
        for (cell, opened) in opened.into_iter().enumerate() {
            let Some((look, most)) = opened else { continue };
            self.learn(cell, look, None, most);
        }
        let mut idle = 0;
        while self.looks < LOOKS && idle < IDLE {
            let closed = self.closed;
            let lot = self.most_promising();
            let Some(most) = lot.first().map(|s| s.bound) else { break };
            // Nothing more is learnt of the bound; a few looks may still find a better plan.
            idle += usize::from(most <= closed);
            let reached = self.reached();
            let looks: Vec<_> = lot
                .par_iter()
                .map(|span| {
                    let batch = scene.middle(span.first, span.last);
                    (
                        batch,
                        scene.look(
                            &self.cells[span.cell],
                            batch,
                            &span.seen.solved.prices,
                            reached,
                        ),
                    )
                })
                .collect();
            for (span, (batch, look)) in lot.into_iter().zip(looks) {
                let (cell, last) = (span.cell, span.last);
                self.push(Span { last: batch - 1, ..span });
                if let Some(look) = look {
                    self.learn(cell, look, Some(batch), last);
                }
            }
        }
    }

    /// Takes the spans out that may yield most, if they may yield more than the best plan.
    fn most_promising(&mut self) -> Vec<Span> {
        let worth = self.reached() * (1.0 + WORTH);
        let (open, idle) =
            std::mem::take(&mut self.open).into_iter().partition(|s| s.bound > worth);
        let idle: Vec<Span> = idle;
        self.closed = idle.iter().map(|s| s.bound).fold(self.closed, f64::max);
        self.open = open;
        self.open.sort_by(|a, b| {
            b.bound.total_cmp(&a.bound).then((a.cell, a.first).cmp(&(b.cell, b.first)))
        });
        let rest = self.open.split_off(self.open.len().min(LOT));
        std::mem::replace(&mut self.open, rest)
    }

    /// Takes what a look found: a plan, a bound for its batch, and one for those up to `last`.
    fn learn(&mut self, cell: usize, look: Look, batch: Option<u64>, last: u64) {
        self.looks += 1;
        self.evaluations += look.evaluations;
        if let Some(plan) = look.plan {
            let evaluator = self.scene.evaluator;
            let better = |b: &Evaluated| {
                let order = reached(evaluator, &plan).total_cmp(&reached(evaluator, b));
                order == Ordering::Greater
            };
            if self.best.as_ref().is_none_or(better) {
                self.best = Some(plan);
            }
        }
        let seen = Arc::new(look.seen);
        let at = batch.unwrap_or(seen.batch);
        let own = self.scene.score(&self.cells[cell], at, seen.solved.alone);
        let within = self.scene.within(&self.cells[cell], at, seen.solved.alone);
        self.closed = if within { self.closed.max(own) } else { self.closed };
        let first = at + 1;
        self.push(Span { cell, seen, first, last, bound: f64::INFINITY });
    }

    /// Opens a span with its bound, unless it is empty.
    fn push(&mut self, span: Span) {
        if span.first > span.last {
            return;
        }
        let cell = &self.cells[span.cell];
        let range = (span.first, span.last);
        let Some(last) = self.scene.within_limits(cell, &span.seen, range) else { return };
        let bound = self.scene.at_most(cell, &span.seen, (span.first, last));
        self.open.push(Span { last, bound, ..span });
    }

    /// How good the best plan is, if there is one.
    pub fn proof(&self) -> Option<Proof> {
        let reached = reached(self.scene.evaluator, self.best.as_ref()?);
        let open = self.open.iter().map(|s| s.bound).fold(0.0, f64::max);
        let bound = open.max(self.closed).max(reached);
        let (looks, cells) = (self.looks, self.cells.len() as u64);
        Some(Proof { bound, reached, looks, cells, unsearched: None })
    }
}
