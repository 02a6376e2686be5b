//! Chooses a plan: from ways found without search, through coarse units, to single primes.

use super::check::check;
use super::fallback::{Way, exchange_by_dimension, gather_and_slice};
use super::moves::Edge;
use super::search::{Bytes, Cost, Limits, Outcome, Pricing, Start, least_peak, search};
use super::space::Space;
use super::units::{Cuts, Grain, Unit, units};
use super::{
    Objective, OpKind, Prices, Rejected, Request, ReshardPlan, Step, StepCost, bound, codes, emit,
    torn,
};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::layout::{Layout, axes};
use shardc_ir::mesh::Mesh;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Steps that one search may look at. A count, not a time, so that a plan never depends on the
/// machine that makes it.
const EDGES: usize = 1_000_000;

/// As [`EDGES`], for parts of axes under a caller's prices: a program asks for thousands of reshards,
/// whole axes are found long before, and parts of them seldom pay.
const PRICED_EDGES: usize = 4096;

/// Units up to which a search goes on for bytes that only padding makes up.
const SMALL: usize = 6;

/// Plans `request` under `objective`.
///
/// Errors: a layout that does not fit mesh or tensor, a pending reduction asked for that the source
/// does not have (`to_partial` makes one), or one that cannot become the one asked for.
pub fn plan(request: &Request<'_>, objective: Objective<'_>) -> Result<ReshardPlan> {
    decide(request, objective, Effort::Search)
}

fn decide(request: &Request<'_>, objective: Objective<'_>, effort: Effort) -> Result<ReshardPlan> {
    check(request)?;
    let (from, to) = (request.from.normalise(request.mesh), request.to.normalise(request.mesh));
    let request = Request { from: &from, to: &to, ..*request };
    Choice::new(&request, objective).decide(effort)
}

/// How hard to look for a better way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// Search until nothing better is left, or the limit is met.
    Search,
    /// Search, unless one collective does it without exceeding both ends.
    UnlessOne,
    /// Compare the ways that need no search.
    Glance,
}

/// Plans on one mesh, remembering answers: programs ask for the same few reshards many times.
pub struct Planner<'a> {
    mesh: &'a Mesh,
    objective: Objective<'a>,
    effort: Effort,
    known: BTreeMap<(Layout, Layout, Vec<u64>, u64), ReshardPlan>,
}

impl<'a> Planner<'a> {
    /// A planner for `mesh` under [`Objective::PeakThenBytes`].
    pub fn new(mesh: &'a Mesh) -> Self {
        Planner::under(mesh, Objective::PeakThenBytes)
    }

    /// A planner for `mesh` under any objective.
    pub fn under(mesh: &'a Mesh, objective: Objective<'a>) -> Self {
        Planner { mesh, objective, effort: Effort::Search, known: BTreeMap::new() }
    }

    /// A planner for `mesh` that takes a single collective, where one does it within the size of
    /// both ends, unsearched: what several steps could save a program is small against starting
    /// them, and the search would dominate the time of lowering.
    pub fn for_programs(mesh: &'a Mesh, objective: Objective<'a>) -> Self {
        Planner { effort: Effort::UnlessOne, ..Planner::under(mesh, objective) }
    }

    /// A planner for `mesh` that compares only the ways which need no search: to estimate what a
    /// reshard costs when many are weighed against each other.
    pub fn glancing(mesh: &'a Mesh, objective: Objective<'a>) -> Self {
        Planner { effort: Effort::Glance, ..Planner::under(mesh, objective) }
    }

    /// As [`plan`], for a tensor of extents `dims` and `bits` per element.
    pub fn plan(
        &mut self,
        dims: &[u64],
        bits: u64,
        from: &Layout,
        to: &Layout,
    ) -> Result<&ReshardPlan> {
        use std::collections::btree_map::Entry;
        match self.known.entry((from.clone(), to.clone(), dims.to_vec(), bits)) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let request = Request { mesh: self.mesh, dims, bits, from, to };
                Ok(entry.insert(decide(&request, self.objective, self.effort)?))
            }
        }
    }
}

/// A complete way with what it costs.
#[derive(Clone)]
struct Candidate {
    what: &'static str,
    steps: Vec<Step>,
    peak: u64,
    cost: Cost,
}

/// What tells priced steps apart: collective, devices, and bytes before, after and sent.
type Priced = (OpKind, u16, [u64; 3]);

/// A caller's prices, asked once per different step.
struct Machine<'a> {
    space: &'a Space<'a>,
    prices: &'a dyn Prices,
    known: RefCell<BTreeMap<Priced, u64>>,
}

impl Pricing for Machine<'_> {
    fn step(&self, edge: &Edge, before: u64, after: u64, wire: u64) -> u64 {
        let key = (edge.kind, edge.group, [before, after, wire]);
        *self.known.borrow_mut().entry(key).or_insert_with(|| {
            self.prices.price(&StepCost {
                kind: edge.kind,
                axes: axes::normalise_set(self.space.mesh, &self.space.atoms_of(edge.group)),
                before_bytes: before,
                after_bytes: after,
                wire_bytes: wire,
            })
        })
    }

    fn ahead(&self, bytes: u64) -> u64 {
        self.prices.least(bytes)
    }
}

struct Choice<'a> {
    request: &'a Request<'a>,
    objective: Objective<'a>,
    cuts: Cuts,
    lower_bound: u64,
    /// The larger of both ends, which no way avoids.
    ends: u64,
    candidates: Vec<Candidate>,
}

impl<'a> Choice<'a> {
    fn new(request: &'a Request<'a>, objective: Objective<'a>) -> Self {
        let Request { mesh, dims, from, to, .. } = *request;
        let cuts = Cuts::new(mesh, dims, from, to);
        let lower_bound = bound::lower_bound(request, cuts.torn.is_empty());
        let ends = from.local_elements(mesh, dims).max(to.local_elements(mesh, dims));
        Choice { request, objective, cuts, lower_bound, ends, candidates: Vec::new() }
    }

    fn decide(mut self, effort: Effort) -> Result<ReshardPlan> {
        let mut proven = true;
        if self.request.from != self.request.to {
            self.consider("gather what differs, then slice", &gather_and_slice(self.request));
            if let Some(way) = exchange_by_dimension(self.request, &self.cuts) {
                self.consider("exchange dimension by dimension", &way);
            }
            let enough = match effort {
                Effort::Search => false,
                Effort::UnlessOne => self.is_one_collective(),
                Effort::Glance => true,
            };
            proven = !enough && self.refine();
        }
        self.finish(proven)
    }

    /// Whether the best candidate is one collective that exceeds neither end.
    fn is_one_collective(&self) -> bool {
        self.best().is_some_and(|c| c.steps.len() == 1 && c.peak == self.ends)
    }

    /// Searches from coarse units to fine ones until nothing can be better; whether that is so.
    fn refine(&mut self) -> bool {
        let mut tried: Vec<Unit> = Vec::new();
        let mut proven = false;
        let grains: &[Grain] = match self.objective {
            Objective::PeakThenPrice(_) => &[Grain::Whole, Grain::Divisors],
            _ => &[Grain::Whole, Grain::Divisors, Grain::Primes],
        };
        for &grain in grains {
            let Request { mesh, from, to, .. } = *self.request;
            let units = units(mesh, &self.cuts.atoms, from, to, grain);
            if units == tried {
                continue;
            }
            if units.len() > SMALL && self.is_ideal_but_for_padding() {
                return false;
            }
            tried.clone_from(&units);
            proven = self.search(units, grain);
            if self.is_ideal() {
                return true;
            }
        }
        proven
    }

    /// Whether the best candidate meets the bounds on peak and bytes.
    fn is_ideal(&self) -> bool {
        let ideal = |c: &Candidate| match self.objective {
            Objective::PeakThenBytes => c.peak == self.ends && c.cost.bytes == self.lower_bound,
            Objective::Bytes => c.cost.bytes == self.lower_bound,
            Objective::PeakThenPrice(prices) => {
                c.peak == self.ends && c.cost.price == prices.least(self.lower_bound)
            }
        };
        self.best().is_some_and(ideal)
    }

    /// Whether the best candidate exceeds the bound on bytes by no more than the target's padding.
    fn is_ideal_but_for_padding(&self) -> bool {
        let Request { mesh, dims, to, .. } = *self.request;
        let elements = dims.iter().fold(1, |n: u128, &d| n.saturating_mul(u128::from(d.max(1))));
        let shards = u128::from(to.shards(mesh));
        let padded = u128::from(to.local_elements(mesh, dims)).saturating_mul(shards);
        let bound = u128::from(self.lower_bound).saturating_mul(padded) / elements;
        let near = |c: &Candidate| c.peak == self.ends && u128::from(c.cost.bytes) <= bound;
        self.best().is_some_and(near)
    }

    fn best(&self) -> Option<&Candidate> {
        self.candidates.iter().min_by_key(|c| self.rank(c))
    }

    fn rank(&self, candidate: &Candidate) -> (u64, Cost) {
        let capped = !matches!(self.objective, Objective::Bytes);
        (if capped { candidate.peak } else { 0 }, candidate.cost)
    }

    /// Searches at one grain; whether it ended by itself.
    fn search(&mut self, units: Vec<Unit>, grain: Grain) -> bool {
        let Request { mesh, dims, bits, from, to } = *self.request;
        let Some(space) = Space::new(mesh, units, dims, bits, from, to) else { return false };
        let starts = self.starts(&space);
        let capped = !matches!(self.objective, Objective::Bytes);
        let cap = if capped { self.ends } else { u64::MAX };
        match self.run(&space, &starts, cap, grain) {
            Outcome::Exhausted => return false,
            Outcome::Found(..) => return true,
            Outcome::None(_) => {}
        }
        let best_peak = self.best().map_or(u64::MAX, |c| c.peak);
        if !capped || best_peak == cap {
            return true;
        }
        let plain: Vec<Start> = starts.iter().map(|(start, _)| *start).collect();
        match least_peak(&space, &plain, self.edges(grain)) {
            Some(peak) if peak <= best_peak => {
                !matches!(self.run(&space, &starts, peak, grain), Outcome::Exhausted)
            }
            Some(_) => true,
            None => false,
        }
    }

    /// Steps that a search at one grain may look at.
    fn edges(&self, grain: Grain) -> usize {
        match (self.objective, grain) {
            (Objective::PeakThenPrice(_), Grain::Divisors) => PRICED_EDGES,
            _ => EDGES,
        }
    }

    /// One search under a cap; what it finds becomes a candidate.
    fn run(
        &mut self,
        space: &Space<'_>,
        starts: &[(Start, Way)],
        cap: u64,
        grain: Grain,
    ) -> Outcome {
        let below = self.best().filter(|c| c.peak <= cap).map(|c| match grain {
            Grain::Whole => c.cost,
            // Splitting axes has to save bytes; it does not save steps.
            _ => Cost { price: c.cost.price, ..Cost::default() },
        });
        let limits = Limits { cap, below, edges: self.edges(grain) };
        let plain: Vec<Start> = starts.iter().map(|(start, _)| *start).collect();
        let outcome = match self.objective {
            Objective::PeakThenPrice(prices) => {
                let pricing = Machine { space, prices, known: RefCell::default() };
                search(space, &plain, &pricing, limits)
            }
            _ => search(space, &plain, &Bytes, limits),
        };
        if let Outcome::Found(_, start, way) = &outcome {
            let mut full = starts[*start].1.clone();
            let layouts = way.iter().filter(|(_, state)| !state.hub);
            full.extend(layouts.map(|(kind, state)| (*kind, space.layout(state))));
            self.consider(grain.describe(), &full);
        }
        outcome
    }

    /// The states to search from, with the ways that lead there and their costs.
    fn starts(&self, space: &Space<'_>) -> Vec<(Start, Way)> {
        let ways = torn::starts(self.request, &self.cuts, space);
        let priced = ways.into_iter().filter_map(|(state, way)| {
            let (steps, _) = self.steps(&way)?;
            let mut cost = self.cost(&steps);
            if state.hub {
                let at = way.last().map_or(self.request.from, |(_, layout)| layout);
                cost = self.add(cost, &emit::permute(self.request, at));
            }
            Some((Start { state, cost }, way))
        });
        priced.collect()
    }

    /// The steps of a way and its peak, if each follows from the one before.
    fn steps(&self, way: &Way) -> Option<(Vec<Step>, u64)> {
        let steps = emit::steps(self.request, way)?;
        let Request { mesh, dims, from, .. } = *self.request;
        let sizes = steps.iter().map(|s| s.out.local_elements(mesh, dims));
        let peak = sizes.fold(from.local_elements(mesh, dims), u64::max);
        Some((steps, peak))
    }

    fn cost(&self, steps: &[Step]) -> Cost {
        let mut before = self.request.from;
        let mut cost = Cost::default();
        for step in steps {
            cost = self.add(cost, &emit::step_cost(self.request, before, step));
            before = &step.out;
        }
        cost
    }

    fn add(&self, cost: Cost, step: &StepCost) -> Cost {
        let price = match self.objective {
            Objective::PeakThenPrice(prices) => prices.price(step),
            _ => step.wire_bytes,
        };
        cost.plus(price, step.wire_bytes)
    }

    /// Takes up a way that ends at the target.
    fn consider(&mut self, what: &'static str, way: &Way) {
        let Some((steps, peak)) = self.steps(way) else { return };
        if steps.last().is_some_and(|s| s.out == *self.request.to) {
            let cost = self.cost(&steps);
            self.candidates.push(Candidate { what, steps, peak, cost });
        }
    }

    fn finish(mut self, proven: bool) -> Result<ReshardPlan> {
        let Request { mesh, dims, from, to, .. } = *self.request;
        let plan = |steps: Vec<Step>, wire_bytes, peak_elements, rejected| ReshardPlan {
            steps,
            wire_bytes,
            peak_elements,
            lower_bound_bytes: self.lower_bound,
            proven,
            rejected,
        };
        if from == to {
            return Ok(plan(Vec::new(), 0, from.local_elements(mesh, dims), Vec::new()));
        }
        let order: Vec<_> = self.candidates.iter().map(|c| self.rank(c)).collect();
        let Some(best) = (0..order.len()).min_by_key(|&i| order[i]) else {
            let message = format!("no steps lead from {} to {}", from.show(mesh), to.show(mesh));
            return Err(Box::new(Diagnostic::error(codes::BROKEN_PLAN, message)));
        };
        let best = self.candidates.remove(best);
        let rejected = self.candidates.iter().filter(|c| c.steps != best.steps).map(|c| Rejected {
            what: c.what,
            steps: c.steps.iter().map(|s| s.op.kind()).collect(),
            wire_bytes: c.cost.bytes,
            peak_elements: c.peak,
        });
        let rejected = rejected.collect();
        Ok(plan(best.steps, best.cost.bytes, best.peak, rejected))
    }
}
