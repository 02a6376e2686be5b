//! One phase of a model: its layer functions and what stands around them, priced and solved.

use super::aim::Aim;
use super::axes::{Key, State};
use super::block::{Times, add, weigh};
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
    /// What each pipeline stage has.
    pub shares: Vec<Share>,
    /// Per part and group, the names of its stored parameters.
    stored: Vec<Vec<Vec<ParamName>>>,
    /// By state of the stream, the times of sending it to the next stage: inside a node, across nodes.
    sends: Vec<[Times; 2]>,
    /// Per stage but the last, whether the next one stands in other nodes.
    leaves: Vec<bool>,
}

/// Function and name of a parameter.
pub(super) type ParamName = (String, String);

/// What is minimised.
#[derive(Clone, Debug, Default)]
pub(super) struct Objective<'a> {
    /// What times count; all layers alike where absent.
    pub aim: Option<&'a Aim>,
    /// Price of a byte of weights, and of a byte of caches, ns.
    pub bytes: [f64; 2],
    /// The stage whose bytes have a price; all layers where empty.
    pub share: &'a [f64],
    /// Prices of laying parameters in some way, all layers, and their sign.
    pub prices: Option<(&'a Prices, f64)>,
    /// How parameters must lie; those not named are free.
    pub only: Option<&'a Stored>,
    /// How parameters must and must not lie.
    pub limits: Option<&'a Limits>,
    /// The most bytes of activations that a group may take.
    pub cap: Option<f64>,
}

/// Prices of ways to lay parameters; those not named cost nothing.
pub(super) type Prices = BTreeMap<ParamName, BTreeMap<Key, f64>>;

/// How parameters lie.
pub(super) type Stored = BTreeMap<ParamName, Key>;

/// Ways to lay parameters that are prescribed, and ways that are ruled out.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    pub only: Stored,
    pub never: BTreeMap<ParamName, BTreeSet<Key>>,
}

impl Limits {
    fn allow(&self, name: &ParamName, key: &Key) -> bool {
        let never = self.never.get(name).is_some_and(|keys| keys.contains(key));
        !never && self.only.get(name).is_none_or(|only| only == key)
    }
}

/// A choice for every group of a phase.
#[derive(Clone, Debug)]
pub(super) struct Solution {
    /// The state of the stream.
    pub state: State,
    /// The minimised sum.
    pub cost: f64,
    /// By part, the times of all its layers.
    pub parts: Vec<Times>,
    /// Per stage, what its device is busy for.
    pub stages: Vec<Times>,
    /// Per stage, kernels that run.
    pub kernels: Vec<f64>,
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
            shares: self.shares(point.stages),
            stored: self.parts.iter().map(names).collect(),
            sends: self.parts.first().map_or(Vec::new(), |p| p.sends(point)),
            leaves: leaves(point),
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
    /// The times of sending the stream to the next stage, by its state.
    fn sends(&self, point: &Point<'_>) -> Vec<[Times; 2]> {
        let stream = &self.flow.stream;
        let lattice = lattice(stream, point);
        let (ty, dims) = (self.flow.func.ty(stream.outputs[0].value), &stream.outputs[0].dims);
        let fabric = point.pricing.fabric();
        let of = |state: State, far: bool| {
            point.both(&ty.dims, |bind| {
                let share = |(dim, on): (&Dim, &Option<usize>)| {
                    let parts = on.map_or(1, |on| lattice.parts(state, on));
                    Dim::fixed(dim.eval(bind).div_ceil(parts))
                };
                let local = ty.with_dims(ty.dims.iter().zip(dims).map(share).collect());
                fabric.send_recv(far, local.bytes(bind)).time.as_f64()
            })
        };
        (0..lattice.len()).map(|s| [of(s, false), of(s, true)]).collect()
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

/// Per stage but the last, whether the next one stands in other nodes.
fn leaves(point: &Point<'_>) -> Vec<bool> {
    let (devices, node) = (point.devices, point.pricing.cluster.node.devices.max(1));
    (1..point.stages).map(|s| devices >= node || (s * devices).is_multiple_of(node)).collect()
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
        let rates = (times, share, self.weights(part, objective));
        tables.map(|(table, names)| group_costs(table, names, rates, objective)).collect()
    }

    /// What times of a part count.
    fn weights(&self, part: usize, objective: &Objective<'_>) -> Times {
        objective.aim.map_or([1.0, 0.0], |aim| aim.parts[part])
    }

    /// What sending the stream from stage to stage costs, by its state.
    fn send_costs(&self, objective: &Objective<'_>) -> Vec<f64> {
        let of = |sends: &[Times; 2]| {
            let cost = |(stage, far): (usize, &bool)| {
                let weights = objective.aim.map_or([1.0, 0.0], |aim| aim.sends[stage]);
                weigh(weights, sends[usize::from(*far)])
            };
            self.leaves.iter().enumerate().map(cost).sum()
        };
        self.sends.iter().map(of).collect()
    }

    /// Kernels that a stage runs at least: those that are no communication.
    pub fn fewest_kernels(&self, stage: usize) -> f64 {
        let count = |plane: &Plane| plane.tables.iter().map(|t| t.kernels).sum::<u64>() as f64;
        let parts = self.parts.iter().zip(&self.times).zip(&self.shares[stage]);
        parts.map(|((plane, times), share)| times * share * count(plane)).sum()
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
        let solvers: Vec<Solver<'_>> = (self.parts.iter().zip(&costs).enumerate())
            .map(|(i, (p, c))| Solver::new(p, c, self.weights(i, objective)))
            .collect();
        let mut sums = self.send_costs(objective);
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
            parts: Vec::new(),
            stages: Vec::new(),
            kernels: Vec::new(),
            bytes: Vec::new(),
            transient: 0.0,
            stored: Stored::new(),
            picked,
        };
        self.take_stock(&mut solution);
        Some(solution)
    }

    /// What the times of a solution come to.
    pub fn cost_of(&self, solution: &Solution, aim: &Aim) -> f64 {
        let parts = solution.parts.iter().zip(&aim.parts).map(|(t, w)| weigh(*w, *t));
        let sends = self.leaves.iter().zip(&aim.sends);
        let sends = sends.map(|(far, w)| weigh(*w, self.sends[solution.state][usize::from(*far)]));
        parts.sum::<f64>() + sends.sum::<f64>()
    }

    /// Counts what a solution stores and how long its stages take.
    fn take_stock(&self, solution: &mut Solution) {
        let mut work: Vec<(Times, f64)> = Vec::new();
        for (i, picked) in solution.picked.iter().enumerate() {
            let (mut bytes, mut busy, mut kernels) = ([0.0; 2], [0.0; 2], 0);
            for (&group, &choice) in picked.iter().flat_map(|p| &p.choices) {
                let table = &self.parts[i].tables[group];
                solution.transient = solution.transient.max(table.transient[choice]);
                bytes[0] += self.times[i] * table.weights[choice];
                bytes[1] += self.times[i] * table.caches[choice];
                busy = add(busy, table.time[choice]);
                kernels += table.kernels;
                for (name, keys) in self.stored[i][group].iter().zip(&table.keys) {
                    solution.stored.insert(name.clone(), keys[choice]);
                }
            }
            for carry in picked.iter().flat_map(|p| &p.carries) {
                busy = add(busy, carry.times);
                kernels += carry.kernels();
            }
            solution.bytes.push(bytes);
            let times = self.times[i];
            work.push((busy.map(|ns| ns * times), kernels as f64 * times));
        }
        solution.parts = work.iter().map(|w| w.0).collect();
        for (stage, share) in self.shares.iter().enumerate() {
            let (mut busy, mut kernels) = ([0.0; 2], 0.0);
            for ((times, count), share) in work.iter().zip(share) {
                busy = add(busy, times.map(|ns| ns * share));
                kernels += count * share;
            }
            if let Some(far) = self.leaves.get(stage) {
                busy = add(busy, self.sends[solution.state][usize::from(*far)]);
                kernels += 1.0;
            }
            solution.stages.push(busy);
            solution.kernels.push(kernels);
        }
    }

    /// Bytes of activations that memory must hold at least, whatever the layouts.
    pub fn fewest_transient(&self) -> f64 {
        let least = |table: &Table| {
            let legal = (0..table.lattice.len()).filter(|&c| table.is_legal(c));
            legal.map(|c| table.transient[c]).reduce(f64::min).unwrap_or(0.0)
        };
        let tables = self.parts.iter().flat_map(|plane| &plane.tables);
        tables.map(least).fold(0.0, f64::max)
    }

    /// The most bytes of activations that some layout of a group takes.
    pub fn most_transient(&self) -> f64 {
        let tables = self.parts.iter().flat_map(|plane| &plane.tables);
        tables.flat_map(|table| &table.transient).copied().fold(0.0, f64::max)
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

#[cfg(test)]
impl Planes {
    /// States of the stream.
    pub fn states(&self) -> usize {
        self.sends.len()
    }

    /// Layers that run a part.
    pub fn layers(&self, part: usize) -> f64 {
        self.times[part]
    }

    /// Adds how a choice of a group lays its parameters.
    pub fn lay(&self, part: usize, group: usize, choice: State, stored: &mut Stored) {
        let keys = self.stored[part][group].iter().zip(&self.parts[part].tables[group].keys);
        stored.extend(keys.map(|(name, keys)| (name.clone(), keys[choice])));
    }

    /// Bytes of weights and of `batch` times the caches of parameters that lie so.
    pub fn bytes_of(&self, stored: &Stored, batch: f64) -> f64 {
        let mut sum = 0.0;
        for ((plane, names), times) in self.parts.iter().zip(&self.stored).zip(&self.times) {
            for (table, names) in plane.tables.iter().zip(names).filter(|(_, n)| !n.is_empty()) {
                let lies = |c: &State| {
                    let mut keys = names.iter().zip(&table.keys);
                    table.is_legal(*c) && keys.all(|(n, keys)| stored.get(n) == Some(&keys[*c]))
                };
                let choice = (0..table.lattice.len()).find(lies);
                let bytes = choice.map_or(0.0, |c| table.weights[c] + batch * table.caches[c]);
                sum += times * bytes;
            }
        }
        sum
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

/// The costs of a group's choices in one layer; the layers, the share of the stage whose bytes have a
/// price, and what times count are `rates`.
fn group_costs(
    table: &Table,
    names: &[ParamName],
    (times, share, weights): (f64, f64, Times),
    objective: &Objective<'_>,
) -> Vec<f64> {
    let [weight, cache] = objective.bytes.map(|price| price * share);
    let stored = table.weights.iter().zip(&table.caches);
    let plain = |(t, (w, c)): (&Times, (&f64, &f64))| weigh(weights, *t) + weight * w + cache * c;
    let mut costs: Vec<f64> = table.time.iter().zip(stored).map(plain).collect();
    if let Some(cap) = objective.cap {
        let over = costs.iter_mut().zip(&table.transient).filter(|(_, t)| **t > cap);
        over.for_each(|(cost, _)| *cost = INF);
    }
    for (name, keys) in names.iter().zip(&table.keys) {
        let prices = objective.prices.and_then(|p| Some((p.0.get(name)?, p.1)));
        let only = objective.only.and_then(|o| o.get(name));
        if prices.is_none() && only.is_none() && objective.limits.is_none() {
            continue;
        }
        for (cost, key) in costs.iter_mut().zip(keys) {
            let price = prices.and_then(|p| Some(p.0.get(key)? * p.1)).unwrap_or(0.0);
            let allowed = only.is_none_or(|o| o == key)
                && objective.limits.is_none_or(|limits| limits.allow(name, key));
            *cost += if allowed { price / times.max(1.0) } else { INF };
        }
    }
    costs
}
