//! One phase of a model: its layer functions and what stands around them, priced and solved.

use super::axes::{Key, State};
use super::flow::{Flow, Unsupported};
use super::name::{Atom, Atoms, Namer, StoredNames, stream_axes};
use super::net::Plane;
use super::pick::{Picked, pick};
use super::solve::{Costs, INF, Solver};
use super::table::{Point, Priced, Table, lattice};
use super::unit::{Port, Unit};
use crate::evaluate::Pricing;
use crate::pipeline::balanced_stages;
use crate::schedule::Schedule;
use shardc_ir::dim::Dim;
use shardc_ir::graph::{Func, Module};
use shardc_ir::ops::Op;
use shardc_ir::types::Kind;
use std::collections::{BTreeMap, BTreeSet};

/// A function with the work of its groups.
#[derive(Clone, Debug)]
pub(super) struct Part<'a> {
    pub flow: Flow<'a>,
    priced: Vec<Priced>,
    idle: Priced,
    /// Layers that run it; 1 for what stands around the layers.
    pub times: u64,
}

/// The program of one phase: layer functions in the order of the module, then what comes before the
/// layers and what comes after.
#[derive(Clone, Debug)]
pub(super) struct Phase<'a> {
    pub module: &'a Module,
    pub parts: Vec<Part<'a>>,
    /// The part that each layer runs, in order; the two parts around the layers come last.
    layers: Vec<usize>,
}

/// Per part, how many of its layers a pipeline stage has, of all: 1 where it has them all.
pub(super) type Share = Vec<f64>;

/// A phase at one point.
pub(super) struct Planes {
    pub parts: Vec<Plane>,
    /// Layers that run each part.
    times: Vec<f64>,
    /// Per part and group, the names of its stored parameters.
    stored: Vec<Vec<Vec<ParamName>>>,
    /// By state of the stream, the time of sending it from stage to stage.
    between: Vec<f64>,
}

/// Function and name of a parameter.
pub(super) type ParamName = (String, String);

/// What is minimised beside time.
#[derive(Clone, Debug, Default)]
pub(super) struct Objective<'a> {
    /// Price of a byte of weights, and of a byte of caches, ns.
    pub bytes: [f64; 2],
    /// The stage whose bytes have a price; all layers where empty.
    pub share: &'a [f64],
    /// Prices of laying parameters in some way, all layers, and ns for one of their units.
    pub prices: Option<(&'a Prices, f64)>,
    /// How parameters must lie; those not named are free.
    pub only: Option<&'a Stored>,
    /// The most bytes of activations that a group may take.
    pub cap: Option<f64>,
}

/// Prices of ways to lay parameters; those not named cost nothing.
pub(super) type Prices = BTreeMap<ParamName, BTreeMap<Key, f64>>;

/// How parameters lie.
pub(super) type Stored = BTreeMap<ParamName, Key>;

/// A choice for every group of a phase.
#[derive(Clone, Debug)]
pub(super) struct Solution {
    /// The state of the stream.
    pub state: State,
    /// The minimised sum.
    pub cost: f64,
    /// Per part, bytes of the weights and of the caches of all its layers.
    pub bytes: Vec<[f64; 2]>,
    /// Bytes of activations that memory must hold at least.
    pub transient: f64,
    /// How parameters lie.
    pub stored: Stored,
    /// Per part and branch.
    pub picked: Vec<Vec<Picked>>,
}

impl<'a> Phase<'a> {
    /// Reads a logical module.
    ///
    /// # Errors
    /// What stands in the way of searching it.
    pub fn of(module: &'a Module, pricing: Pricing<'_>) -> Result<Self, Unsupported> {
        let mut parts = Vec::new();
        let mut around = Vec::new();
        let mut sequence: Vec<String> = Vec::new();
        for func in module.funcs.values() {
            let repeat = func.insts.values().find_map(|i| match &i.op {
                Op::Repeat(repeat) => Some(repeat),
                _ => None,
            });
            match repeat {
                Some(repeat) => {
                    for part in &mut parts {
                        let Part { flow, times, .. } = part;
                        let runs = repeat.distinct();
                        let own = runs.iter().find(|(name, _)| *name == flow.func.name);
                        *times = own.map_or(0, |(_, n)| *n);
                    }
                    sequence.extend(repeat.sequence().into_iter().map(str::to_string));
                    let flows = Flow::of_main(func)?;
                    around.extend(flows.map(|flow| Part::new(module, flow, pricing)));
                }
                None => parts.push(Part::new(module, Flow::of_layer(func)?, pricing)),
            }
        }
        let place = |name: &String| parts.iter().position(|p: &Part<'_>| p.flow.func.name == *name);
        let layers = sequence.iter().filter_map(place).collect();
        parts.extend(around);
        Ok(Phase { module, parts, layers })
    }

    /// What each of so many stages has.
    pub fn shares(&self, stages: u64) -> Vec<Share> {
        let counts = balanced_stages(self.layers.len() as u64, stages);
        let mut rest = self.layers.iter();
        let last = counts.len() - 1;
        let share = |(stage, count): (usize, &u64)| {
            let mut share = vec![0.0; self.parts.len()];
            for &part in rest.by_ref().take(*count as usize) {
                share[part] += 1.0 / self.parts[part].times.max(1) as f64;
            }
            if let [.., before, after] = &mut share[..] {
                *before = f64::from(u8::from(stage == 0));
                *after = f64::from(u8::from(stage == last));
            }
            share
        };
        counts.iter().enumerate().map(share).collect()
    }

    /// Prices everything at a point.
    pub fn planes(&self, point: &Point<'_>) -> Planes {
        let plane = |p: &Part<'_>| Plane::new(&p.flow, &p.priced, &p.idle, point);
        let names = |p: &Part<'_>| p.flow.units.iter().map(|u| names(p.flow.func, u)).collect();
        let mut planes = Planes {
            parts: self.parts.iter().map(plane).collect(),
            times: self.parts.iter().map(|p| p.times as f64).collect(),
            stored: self.parts.iter().map(names).collect(),
            between: self.parts.first().map_or(Vec::new(), |p| p.between(point)),
        };
        planes.count_once();
        planes
    }

    /// The schedule of a solution; names of stored parameters are taken from `stored` and added.
    pub fn schedule(
        &self,
        planes: &Planes,
        solution: &Solution,
        atoms: &Atoms,
        stored: &mut StoredNames,
    ) -> Schedule {
        let mut names = stored.clone();
        let (misfits, schedule) = self.named(planes, solution, atoms, &mut names, false);
        let mut others = stored.clone();
        let other = match misfits > 0.0 {
            true => Some(self.named(planes, solution, atoms, &mut others, true)),
            false => None,
        };
        match other.filter(|o| o.0 < misfits) {
            Some((_, schedule)) => {
                *stored = others;
                schedule
            }
            None => {
                *stored = names;
                schedule
            }
        }
    }

    /// A schedule for one order of the stream's axes, and how many exchanges more it needs than were
    /// counted.
    fn named(
        &self,
        planes: &Planes,
        solution: &Solution,
        atoms: &Atoms,
        stored: &mut StoredNames,
        inside_major: bool,
    ) -> (f64, Schedule) {
        let mut schedule = Schedule { mesh: atoms.mesh.clone(), funcs: Default::default() };
        let Some(first) = planes.parts.first() else { return (0.0, schedule) };
        let requests = held_requests(&self.parts, stored);
        let (lattice, state) = (&first.stream.lattice, solution.state);
        let stream = stream_axes(lattice, state, atoms, &requests, inside_major);
        let mut misfits = 0.0;
        for ((part, plane), picked) in self.parts.iter().zip(&planes.parts).zip(&solution.picked) {
            let mut namer = Namer::new(&part.flow, plane, atoms, stream.clone(), stored);
            for (branch, picked) in part.flow.branches.iter().zip(picked) {
                namer.branch(branch, picked);
            }
            misfits += f64::from(namer.misfits()) * part.times as f64;
            let named = namer.schedule;
            let entry = schedule.funcs.entry(part.flow.func.name.clone()).or_default();
            entry.params.extend(named.params);
            entry.assignments.extend(named.assignments);
            entry.ways.extend(named.ways);
        }
        (misfits, schedule)
    }
}

/// The axes that split the requests of a cache whose names are known.
fn held_requests(parts: &[Part<'_>], stored: &StoredNames) -> Vec<Atom> {
    let caches = parts.iter().flat_map(|part| {
        let func = part.flow.func;
        let caches = func.params.iter().filter(|&&p| func.ty(p).kind == Kind::Cache);
        caches.map(|&p| (func.name.clone(), func.values[p].name.clone()))
    });
    let names = caches.filter_map(|key| stored.get(&key)).find_map(|dims| dims.first().cloned());
    names.unwrap_or_default()
}

impl<'a> Part<'a> {
    /// The time of sending the stream from stage to stage, by its state.
    fn between(&self, point: &Point<'_>) -> Vec<f64> {
        let stream = &self.flow.stream;
        let lattice = lattice(stream, point);
        let (ty, dims) = (self.flow.func.ty(stream.outputs[0].value), &stream.outputs[0].dims);
        let (_, fabric) = point.pricing.models();
        let (devices, node) = (point.axes.devices, point.pricing.cluster.node.devices.max(1));
        let leaves = |stage: &u64| devices >= node || (stage * devices).is_multiple_of(node);
        let across = (1..point.stages).filter(leaves).count() as f64;
        let inside = (point.stages - 1) as f64 - across;
        let of = |state: State| {
            let share = |(dim, on): (&Dim, &Option<usize>)| {
                let parts = on.map_or(1, |on| lattice.parts(state, on));
                Dim::fixed(dim.eval(&point.step).div_ceil(parts))
            };
            let local = ty.with_dims(ty.dims.iter().zip(dims).map(share).collect());
            let send = |far| fabric.send_recv(far, local.bytes(&point.step)).time.as_f64();
            inside * send(false) + across * send(true)
        };
        (0..lattice.len()).map(of).collect()
    }

    /// Whether it is a layer, and not what stands around layers.
    pub fn is_layer(&self) -> bool {
        !self.flow.func.insts.values().any(|i| matches!(i.op, Op::Repeat(_)))
    }

    fn new(module: &Module, flow: Flow<'a>, pricing: Pricing<'_>) -> Self {
        let of = |unit| Priced::of(module, flow.func, unit, pricing);
        let priced = flow.units.iter().map(of).collect();
        let idle = of(&flow.stream);
        Part { flow, priced, idle, times: 1 }
    }
}

/// The names of what a group stores.
fn names(func: &Func, unit: &Unit) -> Vec<ParamName> {
    let name = |p: &Port| (func.name.clone(), func.values[p.value].name.clone());
    unit.stored.iter().map(name).collect()
}

impl Planes {
    fn costs(&self, part: usize, objective: &Objective<'_>) -> Costs {
        let tables = self.parts[part].tables.iter().zip(&self.stored[part]);
        let (times, share) = (self.times[part], objective.share.get(part).copied().unwrap_or(1.0));
        tables.map(|(table, names)| group_costs(table, names, times, share, objective)).collect()
    }

    /// A weight that several groups read, as a tied embedding, is stored by the first.
    fn count_once(&mut self) {
        let mut seen: BTreeSet<ParamName> = BTreeSet::new();
        for (plane, stored) in self.parts.iter_mut().zip(&self.stored) {
            for (table, names) in plane.tables.iter_mut().zip(stored) {
                if table.keys.is_empty() || names.is_empty() {
                    continue;
                }
                if names.iter().all(|n| seen.contains(n)) {
                    table.weights.fill(0.0);
                }
                seen.extend(names.iter().cloned());
            }
        }
    }

    /// The best choice of everything; `None` where there is none.
    pub fn solve(&self, objective: &Objective<'_>) -> Option<Solution> {
        let costs: Vec<Costs> = (0..self.parts.len()).map(|i| self.costs(i, objective)).collect();
        let solvers: Vec<Solver<'_>> =
            self.parts.iter().zip(&costs).map(|(p, c)| Solver::new(p, c)).collect();
        let states = self.parts.first()?.stream.lattice.len();
        let mut sums = self.between.clone();
        sums.resize(states, 0.0);
        for ((plane, solver), times) in self.parts.iter().zip(&solvers).zip(&self.times) {
            for branch in plane.branches.iter().filter(|_| *times > 0.0) {
                let by_state = solver.by_state(branch);
                sums.iter_mut().zip(by_state).for_each(|(s, c)| *s += times * c);
            }
        }
        let best = sums.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let (state, &cost) = best.filter(|(_, c)| **c < INF)?;
        let picked: Vec<Vec<Picked>> = self
            .parts
            .iter()
            .zip(&solvers)
            .map(|(plane, solver)| plane.branches.iter().map(|b| pick(solver, b, state)).collect())
            .collect();
        let mut solution = Solution {
            state,
            cost,
            bytes: Vec::new(),
            transient: 0.0,
            stored: Stored::new(),
            picked,
        };
        self.take_stock(&mut solution);
        Some(solution)
    }

    /// Counts what a solution stores.
    fn take_stock(&self, solution: &mut Solution) {
        for (i, picked) in solution.picked.iter().enumerate() {
            let mut bytes = [0.0; 2];
            for (&group, &choice) in picked.iter().flat_map(|p| &p.choices) {
                let table = &self.parts[i].tables[group];
                solution.transient = solution.transient.max(table.transient[choice]);
                bytes[0] += self.times[i] * table.weights[choice];
                bytes[1] += self.times[i] * table.caches[choice];
                for (name, keys) in self.stored[i][group].iter().zip(&table.keys) {
                    solution.stored.insert(name.clone(), keys[choice]);
                }
            }
            solution.bytes.push(bytes);
        }
    }

    /// The fewest bytes that weights and `batch` times the caches of a stage may take.
    pub fn fewest_bytes(&self, batch: f64, share: &[f64]) -> f64 {
        let least = |table: &Table| {
            let legal = (0..table.lattice.len()).filter(|&c| table.is_legal(c));
            let bytes = legal.map(|c| table.weights[c] + batch * table.caches[c]);
            // Of groups that are not decided here no choice is legal.
            bytes.reduce(f64::min).unwrap_or(0.0)
        };
        let plain = |plane: &Plane| plane.tables.iter().map(least).sum::<f64>();
        let of = self.parts.iter().zip(&self.times).zip(share);
        of.map(|((plane, times), share)| times * share * plain(plane)).sum()
    }
}

impl Solution {
    /// Bytes of weights and of `batch` times the caches of a stage.
    pub fn bytes(&self, batch: f64, share: &[f64]) -> f64 {
        let [weights, caches] = self.stored_bytes(share);
        weights + batch * caches
    }

    /// Bytes of weights and of caches of a stage.
    pub fn stored_bytes(&self, share: &[f64]) -> [f64; 2] {
        let sum = |i: usize| self.bytes.iter().zip(share).map(|(b, share)| share * b[i]).sum();
        [sum(0), sum(1)]
    }
}

/// The costs of a group's choices, ns of one layer.
fn group_costs(
    table: &Table,
    names: &[ParamName],
    times: f64,
    share: f64,
    objective: &Objective<'_>,
) -> Vec<f64> {
    let [weight, cache] = objective.bytes.map(|price| price * share);
    let stored = table.weights.iter().zip(&table.caches);
    let plain = |(t, (w, c)): (&f64, (&f64, &f64))| t + weight * w + cache * c;
    let mut costs: Vec<f64> = table.time.iter().zip(stored).map(plain).collect();
    if let Some(cap) = objective.cap {
        let over = costs.iter_mut().zip(&table.transient).filter(|(_, t)| **t > cap);
        over.for_each(|(cost, _)| *cost = INF);
    }
    for (name, keys) in names.iter().zip(&table.keys) {
        let prices = objective.prices.and_then(|p| Some((p.0.get(name)?, p.1)));
        let only = objective.only.and_then(|o| o.get(name));
        if prices.is_none() && only.is_none() {
            continue;
        }
        for (cost, key) in costs.iter_mut().zip(keys) {
            let price = prices.and_then(|p| Some(p.0.get(key)? * p.1)).unwrap_or(0.0);
            *cost += if only.is_some_and(|o| o != key) { INF } else { price / times.max(1.0) };
        }
    }
    costs
}
