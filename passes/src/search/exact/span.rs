//! Best first over spans of batches: the one that may yield most is looked at in its middle, which
//! cuts it in two with lower bounds, until none may yield more than the best plan found.

use super::cell::{Cell, Scene};
use super::look::{Look, Seen};
use super::{Proof, Stop, reached};
use crate::search::layouts::Layouts;
use crate::search::{Evaluated, State};
use rayon::prelude::*;
use std::cmp::Ordering;
use std::sync::Arc;

/// Spans that are looked at together.
const LOT: usize = 4;
/// Looks, those that open a cell aside, after which the search ends with the bound that it has.
const LOOKS: u64 = 100;
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
    stop: Stop,
    pub best: Option<Evaluated>,
    /// Layouts that were evaluated, with their cells.
    judged: Vec<(usize, Layouts)>,
    /// Plans evaluated.
    pub evaluations: u64,
}

impl<'s, 'a> Spans<'s, 'a> {
    /// A search that begins with a plan.
    pub fn new(scene: &'s Scene<'a>, best: Option<Evaluated>) -> Self {
        let cells = Cell::all(scene.evaluator);
        let (open, judged) = (Vec::new(), Vec::new());
        let stop = Stop::Proven;
        Spans { scene, cells, open, closed: 0.0, looks: 0, stop, best, judged, evaluations: 0 }
    }

    /// What the best plan reaches.
    fn reached(&self) -> f64 {
        self.best.as_ref().map_or(0.0, |b| reached(self.scene.evaluator, b))
    }

    /// Searches; `progress` is told the looks, and how far the best plan is from the bound.
    pub fn run(&mut self, progress: &mut dyn FnMut(&State)) {
        let scene = self.scene;
        let reached = self.reached();
        let opened: Vec<_> = self.cells.par_iter().map(|c| scene.open(c, reached)).collect();
        let mut found = Vec::new();
        for (cell, opened) in opened.into_iter().enumerate() {
            let Some((look, most)) = opened else { continue };
            found.extend(self.learn(cell, look, most));
        }
        self.judge(found);
        let (mut idle, opened) = (0, self.looks);
        loop {
            let (best, bound) = (self.reached(), Some(self.bound()).filter(|b| b.is_finite()));
            progress(&State { done: self.looks - opened, budget: LOOKS, best, bound });
            self.stop = match idle {
                IDLE => Stop::Settled,
                _ if self.looks >= opened + LOOKS => Stop::Looks(LOOKS),
                _ => Stop::Proven,
            };
            if self.stop != Stop::Proven {
                break;
            }
            let closed = self.closed;
            let lot = self.most_promising();
            let Some(most) = lot.first().map(|s| s.bound) else {
                let proven = self.closed <= self.reached() * (1.0 + WORTH);
                self.stop = if proven { Stop::Proven } else { Stop::Settled };
                break;
            };
            // Nothing more is learnt of the bound; a few looks may still find a better plan.
            idle += usize::from(most <= closed);
            let reached = self.reached();
            let look = |span: &Span| {
                let batch = scene.middle(span.first, span.last);
                let cell = &self.cells[span.cell];
                (batch, scene.look(cell, (batch, span.last), &span.seen, reached))
            };
            let looks: Vec<_> = lot.par_iter().map(look).collect();
            let mut found = Vec::new();
            for (span, (batch, look)) in lot.into_iter().zip(looks) {
                let (cell, last) = (span.cell, span.last);
                self.push(Span { last: batch - 1, ..span });
                if let Some(look) = look {
                    found.extend(self.learn(cell, look, last));
                }
            }
            self.judge(found);
        }
    }

    /// Evaluates layouts that were found, each once.
    fn judge(&mut self, mut found: Vec<(usize, Layouts)>) {
        found.retain(|f| !self.judged.contains(f));
        let evaluator = self.scene.evaluator;
        let plan = |(cell, layouts): &(usize, Layouts)| {
            let evaluated = evaluator.evaluate_layouts(&self.cells[*cell].degrees(), layouts);
            evaluated.ok().and_then(|plan| plan.ok())
        };
        let plans: Vec<Option<Evaluated>> = found.par_iter().map(plan).collect();
        self.evaluations += plans.len() as u64;
        self.judged.extend(found);
        for plan in plans.into_iter().flatten() {
            let better = |b: &Evaluated| {
                let order = reached(evaluator, &plan).total_cmp(&reached(evaluator, b));
                order == Ordering::Greater
            };
            if self.best.as_ref().is_none_or(better) {
                self.best = Some(plan);
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

    /// Takes what a look saw: a bound for its batch, and one for those up to `last`; layouts that may
    /// be better than the best plan are handed back.
    fn learn(&mut self, cell: usize, look: Look, last: u64) -> Option<(usize, Layouts)> {
        self.looks += 1;
        let seen = Arc::new(look.seen);
        self.closed = self.closed.max(look.most);
        let first = seen.batch + 1;
        self.push(Span { cell, seen, first, last, bound: f64::INFINITY });
        look.layouts.map(|layouts| (cell, layouts))
    }

    /// Opens a span with its bound, unless it is empty.
    fn push(&mut self, span: Span) {
        if span.first > span.last {
            return;
        }
        let cell = &self.cells[span.cell];
        let range = (span.first, span.last);
        if let Some((bound, last)) = self.scene.at_most(cell, &span.seen, range) {
            let bound = bound.min(span.bound);
            self.open.push(Span { last, bound, ..span });
        }
    }

    /// The most that any plan reaches: what is open may yield, what is closed, and the best plan.
    fn bound(&self) -> f64 {
        self.open.iter().map(|s| s.bound).fold(self.closed.max(self.reached()), f64::max)
    }

    /// How good the best plan is, if there is one.
    pub fn proof(&self) -> Option<Proof> {
        let reached = reached(self.scene.evaluator, self.best.as_ref()?);
        let bound = self.bound();
        let (looks, cells) = (self.looks, self.cells.len() as u64);
        Some(Proof { bound, reached, looks, cells, stop: self.stop, unsearched: None })
    }
}
