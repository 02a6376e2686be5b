//! What the search decides before layouts: pipeline stages, replicas and batch, with a bound on
//! what every such choice can yield.

use super::axes::Axes;
use super::joint::{Joint, Pair, Solved};
use super::name::{Atoms, StoredNames};
use super::phase::{Phase, Planes, Prices, Share};
use super::table::{Point, live};
use crate::schedule::Schedule;
use crate::search::candidate::WORKSPACE_BYTES;
use crate::search::headline::headline;
use crate::search::layouts::Layouts;
use crate::search::{Evaluated, Evaluator, bindings};
use crate::strategy::Degrees;
use shardc_cost::memory::Memory;
use shardc_cost::serving::{Cycle, Load, Objective, Steps, cycle, micro_batches, prefill_requests};
use shardc_ir::dim::Bindings;
use shardc_ir::graph::Module;
use shardc_ir::layout::Layout;
use shardc_ir::types::{Kind, Type};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Moves of the prices between phases at one look.
const ROUNDS: usize = 4;

/// A number of pipeline stages and of replicas.
pub(super) struct Cell {
    pub stages: u64,
    pub replicas: u64,
    pub axes: Axes,
    /// Prefill priced for so many requests of a replica.
    prefills: Mutex<BTreeMap<u64, Arc<Planes>>>,
}

/// The model and what is asked of it.
pub(super) struct Scene<'a> {
    pub evaluator: &'a Evaluator<'a>,
    pub prefill: Phase<'a>,
    pub decode: Phase<'a>,
}

/// What is known about one batch of a cell.
pub(super) struct Seen {
    pub batch: u64,
    /// What the point comes to.
    pub solved: Solved,
}

/// A look at a batch of a cell.
pub(super) struct Look {
    pub seen: Seen,
    /// A plan made of it.
    pub plan: Option<Evaluated>,
    /// Plans evaluated.
    pub evaluations: u64,
}

impl Cell {
    /// All cells of a cluster.
    pub fn all(evaluator: &Evaluator<'_>) -> Vec<Cell> {
        let (devices, node) = (evaluator.devices(), evaluator.cluster.node.devices);
        let divisors = |n: u64| (1..=n).filter(move |d| n.is_multiple_of(*d));
        let mut cells = Vec::new();
        for stages in divisors(devices).filter(|s| *s <= evaluator.facts().layers.max(1)) {
            for replicas in divisors(devices / stages) {
                let axes = Axes::of_stage(devices / stages, node, replicas);
                cells.extend(axes.map(|axes| Cell {
                    stages,
                    replicas,
                    axes,
                    prefills: Mutex::default(),
                }));
            }
        }
        cells
    }

    /// Stages and replicas as degrees; all else counts as tensor parallel.
    fn degrees(&self) -> Degrees {
        let (dp, tp) = (self.replicas, self.axes.devices / self.replicas);
        // Replicas whose layouts are mixed exchange tokens, and so step together, as with experts.
        let (ep, etp) = if dp > 1 { (self.axes.devices, 1) } else { (1, tp) };
        Degrees { tp, pp: self.stages, dp, ep, etp, ..Degrees::default() }
    }
}

impl<'a> Scene<'a> {
    fn load(&self) -> &Load {
        &self.evaluator.load
    }

    /// Bytes that weights and caches of a device may take at most.
    fn room(&self) -> f64 {
        let evaluator = self.evaluator;
        let device = &evaluator.cluster.device;
        let memory = Memory::of_device(device, evaluator.devices(), evaluator.mem_fraction);
        Memory { workspace: WORKSPACE_BYTES, ..memory }.kv_budget() as f64
    }

    /// Requests and tokens of the largest prefill that memory must hold.
    fn largest_prefill(&self, cell: &Cell) -> Bindings {
        let load = self.load();
        let together = (load.prefill_tokens / load.isl.max(1)).max(1);
        let isl = load.isl;
        bindings(self.prefill.module, cell.replicas.saturating_mul(together), isl, isl)
    }

    /// Activations that a device holds at least while it runs the largest prefill: what some product
    /// or attention reads and makes, split over all devices of the stage.
    fn least_activations(&self, cell: &Cell) -> f64 {
        let bind = self.largest_prefill(cell);
        let layers = self.prefill.parts.iter().filter(|p| p.is_layer());
        let live = layers
            .flat_map(|p| p.flow.units.iter().flat_map(|unit| live(p.flow.func, &unit.insts)));
        let bytes =
            |types: Vec<Type>| types.iter().map(|t| t.bytes(&bind)).fold(0, u64::saturating_add);
        (live.map(bytes).max().unwrap_or(0) / cell.axes.devices.max(1)) as f64
    }

    fn prefill_planes(&self, cell: &Cell, together: u64) -> Arc<Planes> {
        let known = cell.prefills.lock().map(|p| p.get(&together).cloned());
        if let Ok(Some(planes)) = known {
            return planes;
        }
        let isl = self.load().isl;
        let planes = Arc::new(self.planes(&self.prefill, cell, (together, isl, isl)));
        if let Ok(mut prefills) = cell.prefills.lock() {
            prefills.insert(together, planes.clone());
        }
        planes
    }

    fn decode_planes(&self, cell: &Cell, size: u64) -> Planes {
        self.planes(&self.decode, cell, (size, 1, self.load().mean_context()))
    }

    fn planes(
        &self,
        phase: &Phase<'_>,
        cell: &Cell,
        (requests, new, context): (u64, u64, u64),
    ) -> Planes {
        let module = phase.module;
        let point = Point {
            axes: &cell.axes,
            pricing: self.evaluator.pricing(),
            stages: cell.stages,
            largest: std::ptr::eq(phase, &self.prefill).then(|| self.largest_prefill(cell)),
            step: bindings(module, cell.replicas.saturating_mul(requests), new, context),
            held: bindings(module, cell.replicas, 1, self.evaluator.max_len),
            replicas: cell.replicas,
        };
        phase.planes(&point)
    }

    /// The first look at a cell, at one request of a replica, and the largest batch that memory, the
    /// load and the engine allow; `None` where nothing fits.
    pub fn open(&self, cell: &Cell, reached: f64) -> Option<(Look, u64)> {
        let decode = self.decode_planes(cell, 1);
        let most = self.largest_batch(cell, &decode);
        if most == 0 {
            return None;
        }
        Some((self.look_with(cell, 1, &decode, (0, &Prices::default()), reached)?, most))
    }

    fn largest_batch(&self, cell: &Cell, decode: &Planes) -> u64 {
        let load = self.load();
        let asked = load.concurrency.map_or(u64::MAX, |c| c.div_ceil(cell.replicas));
        let one = load.objective == Objective::Latency && load.concurrency.is_none();
        let most = if one { 1 } else { load.max_batch.min(asked) };
        let room = self.room() - self.least_activations(cell);
        let shares = self.decode.shares(cell.stages);
        let fits = |batch: u64| {
            shares.iter().all(|share| decode.fewest_bytes(batch as f64, share) <= room)
        };
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        low
    }

    /// Where to cut batches in two: in the middle, or where prefill micro-batches grow.
    pub fn middle(&self, first: u64, last: u64) -> u64 {
        let middle = first + (last - first) / 2;
        let together = |batch| prefill_requests(self.load(), batch);
        let grows = (first + 1..=last).filter(|b| together(*b) != together(b - 1));
        grows.min_by_key(|b| b.abs_diff(middle)).unwrap_or(middle)
    }

    /// Solves a cell at a batch, and makes a plan of it if that may reach more than `reached`; `None`
    /// where nothing fits.
    pub fn look(&self, cell: &Cell, batch: u64, known: &Prices, reached: f64) -> Option<Look> {
        let (_, size) = micro_batches(batch, cell.stages);
        let decode = self.decode_planes(cell, size);
        self.look_with(cell, batch, &decode, (ROUNDS, known), reached)
    }

    fn look_with(
        &self,
        cell: &Cell,
        batch: u64,
        decode: &Planes,
        (rounds, known): (usize, &Prices),
        reached: f64,
    ) -> Option<Look> {
        let prefill = self.prefill_planes(cell, prefill_requests(self.load(), batch));
        let weight = self.weight(cell, batch);
        let planes = [prefill.as_ref(), decode];
        let shares = self.decode.shares(cell.stages);
        let fewest = |share: &&Share| decode.fewest_bytes(batch as f64, share);
        let share = shares.iter().max_by(|a, b| fewest(a).total_cmp(&fewest(b)))?;
        let (room, least) = (self.room(), self.least_activations(cell));
        let joint = Joint { planes, weight, share, room, least, batch: batch as f64 };
        let solved = joint.solve(rounds, known)?;
        let mut look = Look { seen: Seen { batch, solved }, plan: None, evaluations: 0 };
        let promising = |p: &&Pair| self.score(cell, batch, p.steps()) > reached;
        let pair = look.seen.solved.best.as_ref().filter(promising);
        if let Some(layouts) = pair.and_then(|p| self.layouts(cell, planes, p)) {
            let evaluated = self.evaluator.evaluate_layouts(&cell.degrees(), &layouts);
            look.plan = evaluated.ok().and_then(|r| r.ok());
            look.evaluations = 1;
        }
        Some(look)
    }

    /// Names the axes of a pair; `None` where both phases cannot lay their parameters alike.
    fn layouts(&self, cell: &Cell, planes: [&Planes; 2], pair: &Pair) -> Option<Layouts> {
        let atoms = Atoms::new(&cell.axes);
        let mut stored = StoredNames::default();
        let [prefill, decode] = &pair.solutions;
        let decode = self.decode.schedule(planes[1], decode, &atoms, &mut stored);
        let prefill = self.prefill.schedule(planes[0], prefill, &atoms, &mut stored);
        let modules = [self.prefill.module, self.decode.module];
        if params(modules[0], &prefill) != params(modules[1], &decode) {
            return None;
        }
        let (of_prefill, _) = headline(modules[0], &prefill);
        let (of_decode, groups) = headline(modules[1], &decode);
        Some(Layouts { prefill, decode, headlines: [of_prefill, of_decode], groups })
    }

    /// What a nanosecond of a prefill step and of a decode step adds to the time a request stays,
    /// roughly: a guide to plans, not a bound.
    fn weight(&self, cell: &Cell, batch: u64) -> [f64; 2] {
        let load = self.load();
        let rounds = load.osl.saturating_sub(1) as f64;
        let together = prefill_requests(load, batch) as f64;
        let others = (batch as f64 - 1.0) / together / cell.stages as f64;
        [1.0 + others, if rounds > 0.0 { rounds + 0.5 } else { 0.0 }]
    }

    /// A replica's steady state at least, where the steps of prefill and decoding, all stages
    /// together, take at least so long.
    fn cycle(&self, cell: &Cell, batch: u64, [prefill, decode]: [f64; 2]) -> Cycle {
        let load = self.load();
        let stage = |ns: f64| ns / cell.stages as f64;
        let of = |lockstep: u64| {
            let steps = Steps {
                micro_batches: micro_batches(batch, cell.stages).0,
                decode: (decode, stage(decode)),
                alone: (decode, stage(decode)),
                prefill_requests: prefill_requests(load, batch),
                prefill,
                prefill_interval: stage(prefill),
                crowded: 0.0,
                lockstep,
            };
            cycle(load, batch, &steps)
        };
        let (apart, together) = (of(1), of(cell.replicas));
        if apart.stay <= together.stay { apart } else { together }
    }

    /// Whether steps that take at least so long can meet the limits.
    pub fn within(&self, cell: &Cell, batch: u64, steps: [f64; 2]) -> bool {
        let found = self.cycle(cell, batch, steps);
        let holds = |time: f64, limit: Option<shardc_cost::time::Ns>| {
            limit.is_none_or(|l| time <= l.as_f64() + 1.0)
        };
        holds(found.ttft, self.load().ttft_limit) && holds(found.tpot, self.load().tpot_limit)
    }

    /// What is maximised, where steps take at least so long: output tokens a second and device, or
    /// the inverse of a request's time in seconds.
    pub fn score(&self, cell: &Cell, batch: u64, steps: [f64; 2]) -> f64 {
        let load = self.load();
        let stay = self.cycle(cell, batch, steps).stay;
        match load.objective {
            Objective::Latency => 1e9 / stay,
            Objective::Throughput => {
                let room = batch.saturating_mul(cell.replicas);
                let running = load.concurrency.map_or(room, |c| room.min(c));
                running as f64 * load.osl as f64 / stay * 1e9 / self.evaluator.devices() as f64
            }
        }
    }

    /// The most that a batch of `batches` can yield, given what was seen at a smaller or equal batch:
    /// steps do not shrink when requests grow.
    pub fn at_most(&self, cell: &Cell, seen: &Seen, (first, last): (u64, u64)) -> f64 {
        let load = self.load();
        let grows = |b: &u64| prefill_requests(load, *b) != prefill_requests(load, b - 1);
        let starts = (first + 1..=last).filter(grows);
        let ends = [first].into_iter().chain(starts.flat_map(|b| [b - 1, b])).chain([last]);
        ends.map(|b| self.score(cell, b, seen.solved.alone)).fold(0.0, f64::max)
    }

    /// The last batch up to `last` for which steps no shorter than at `seen` meet the limits; none
    /// where `first` misses them.
    pub fn within_limits(
        &self,
        cell: &Cell,
        seen: &Seen,
        (first, last): (u64, u64),
    ) -> Option<u64> {
        let holds = |batch: u64| self.within(cell, batch, seen.solved.alone);
        if self.load().ttft_limit.is_none() && self.load().tpot_limit.is_none() {
            return Some(last);
        }
        let same = prefill_requests(self.load(), first) == prefill_requests(self.load(), last);
        if !same {
            return Some(last);
        }
        if !holds(first) {
            return None;
        }
        let (mut low, mut high) = (first, last);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if holds(middle) { low = middle } else { high = middle - 1 }
        }
        Some(low)
    }
}

/// Layouts of weights and caches, by function and name.
fn params<'m>(
    module: &'m Module,
    schedule: &'m Schedule,
) -> BTreeMap<(&'m str, &'m str), &'m Layout> {
    let mut out = BTreeMap::new();
    for func in module.funcs.values() {
        let Some(decided) = schedule.funcs.get(&func.name) else { continue };
        for (&value, layout) in &decided.params {
            if matches!(func.ty(value).kind, Kind::Weight | Kind::Cache) {
                out.insert((func.name.as_str(), func.values[value].name.as_str()), layout);
            }
        }
    }
    out
}
