//! What the search decides before layouts: pipeline stages, replicas, whether replicas work apart.

use super::aim::Service;
use super::axes::Axes;
use super::joint::Pair;
use super::name::{Atoms, StoredNames};
use super::phase::{Phase, Planes};
use super::table::{Point, Second, live};
use crate::evaluate::Shared;
use crate::schedule::Schedule;
use crate::search::candidate::WORKSPACE_BYTES;
use crate::search::layouts::Layouts;
use crate::search::{Evaluator, bindings};
use crate::strategy::Degrees;
use shardc_cost::memory::Memory;
use shardc_cost::serving::{Load, Mixed, Objective, prefill_requests};
use shardc_ir::dim::Bindings;
use shardc_ir::graph::Module;
use shardc_ir::layout::{Layout, primes};
use shardc_ir::types::Type;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Prefill priced for so many requests of a replica, beside so much decoding.
type Prefills = BTreeMap<(u64, Option<Mixed>), Arc<Planes>>;

/// A number of pipeline stages and of replicas.
pub(super) struct Cell {
    pub stages: u64,
    pub replicas: u64,
    /// Whether replicas exchange nothing: then one of them is laid out, and the others alike.
    pub apart: bool,
    /// The axes that are laid out: of a stage, or of one replica's part of it.
    pub axes: Axes,
    /// What has been priced of prefill.
    prefills: Mutex<Prefills>,
}

/// The model and what is asked of it.
pub(super) struct Scene<'a> {
    pub evaluator: &'a Evaluator<'a>,
    pub prefill: Phase<'a>,
    pub decode: Phase<'a>,
}

impl Cell {
    /// All cells of a cluster.
    pub fn all(evaluator: &Evaluator<'_>) -> Vec<Cell> {
        let (devices, node) = (evaluator.devices(), evaluator.cluster.node.devices);
        let divisors = |n: u64| (1..=n).filter(move |d| n.is_multiple_of(*d));
        let mut cells = Vec::new();
        for stages in divisors(devices).filter(|s| *s <= evaluator.facts().layers.max(1)) {
            for replicas in divisors(devices / stages) {
                let mut add = |apart: bool, axes: Option<Axes>| {
                    let prefills = Mutex::default();
                    cells.extend(axes.map(|axes| Cell { stages, replicas, apart, axes, prefills }));
                };
                let stage = devices / stages;
                add(true, Axes::of_stage(stage / replicas, node, 1));
                if replicas > 1 {
                    add(false, Axes::of_stage(stage, node, replicas));
                }
            }
        }
        cells
    }

    /// Devices of a stage.
    fn stage(&self) -> u64 {
        self.axes.devices * if self.apart { self.replicas } else { 1 }
    }

    /// Replicas whose requests the axes that are laid out split.
    fn split(&self) -> u64 {
        if self.apart { 1 } else { self.replicas }
    }

    /// Stages and replicas as degrees; all else counts as tensor parallel.
    pub fn degrees(&self) -> Degrees {
        let (dp, tp) = (self.replicas, self.stage() / self.replicas);
        // Replicas that exchange tokens step together, as with experts.
        let (ep, etp) = if self.apart { (1, tp) } else { (self.stage(), 1) };
        Degrees { tp, pp: self.stages, dp, ep, etp, ..Degrees::default() }
    }
}

impl<'a> Scene<'a> {
    pub fn load(&self) -> &Load {
        &self.evaluator.load
    }

    /// Whether prefill and decoding count.
    pub fn counts(&self) -> [bool; 2] {
        [!self.load().prefilled, self.load().osl > 1]
    }

    /// How a cell's replicas are served.
    pub fn service(&self, cell: &Cell) -> Service<'_> {
        let profile = self.evaluator.profile;
        Service {
            load: self.load(),
            host: profile.host,
            cuda_graphs: profile.cuda_graphs,
            devices: self.evaluator.devices(),
            stages: cell.stages,
            replicas: cell.replicas,
            lockstep: !cell.apart,
        }
    }

    /// Bytes that weights and caches of a device may take at most. Buffers for communication are
    /// taken where a replica has several devices.
    pub fn room(&self, cell: &Cell) -> f64 {
        let evaluator = self.evaluator;
        let talks = !cell.apart || cell.stages.saturating_mul(cell.axes.devices) > 1;
        let devices = if talks { evaluator.devices() } else { 1 };
        let memory = Memory::of_device(&evaluator.cluster.device, devices, evaluator.mem_fraction);
        Memory { workspace: WORKSPACE_BYTES, ..memory }.kv_budget() as f64
    }

    /// Requests and tokens of the largest prefill that memory must hold.
    fn largest_prefill(&self, cell: &Cell) -> Bindings {
        let load = self.load();
        let together = (load.prefill_tokens / load.isl.max(1)).max(1);
        let isl = load.isl;
        bindings(self.prefill.module, cell.split().saturating_mul(together), isl, isl)
    }

    /// Activations that a device holds at least while it runs the largest prefill: what some product
    /// or attention reads and makes, split over all devices of the stage.
    pub fn least_activations(&self, cell: &Cell) -> f64 {
        if self.load().prefilled {
            return 0.0;
        }
        let bind = self.largest_prefill(cell);
        let layers = self.prefill.parts.iter().filter(|p| p.is_layer());
        let live = layers
            .flat_map(|p| p.flow.units.iter().flat_map(|unit| live(p.flow.func, &unit.insts)));
        let bytes =
            |types: Vec<Type>| types.iter().map(|t| t.bytes(&bind)).fold(0, u64::saturating_add);
        (live.map(bytes).max().unwrap_or(0) / cell.axes.devices.max(1)) as f64
    }

    /// Prefill of a replica that runs so many requests.
    pub fn prefill_planes(&self, cell: &Cell, batch: u64) -> Arc<Planes> {
        let (isl, together) = (self.load().isl, prefill_requests(self.load(), batch));
        let service = self.service(cell);
        let mixed = service.mixed(batch);
        let known = cell.prefills.lock().map(|p| p.get(&(together, mixed)).cloned());
        if let Ok(Some(planes)) = known {
            return planes;
        }
        let module = self.prefill.module;
        let requests = cell.split().saturating_mul(together);
        let second = mixed.map_or(Second::Nothing, |step| Second::Shared {
            sizes: Shared::of(module, cell.split(), &step),
            chunks: step.chunks,
            only: !service.prompts_alone(),
        });
        let point = Point {
            largest: Some(self.largest_prefill(cell)),
            step: bindings(module, requests, isl, isl),
            second,
            ..self.point(cell, module)
        };
        let planes = Arc::new(self.prefill.planes(&point));
        if let Ok(mut prefills) = cell.prefills.lock() {
            prefills.insert((together, mixed), planes.clone());
        }
        planes
    }

    /// Decoding of a micro-batch of so many requests.
    pub fn decode_planes(&self, cell: &Cell, size: u64) -> Planes {
        let (module, split) = (self.decode.module, cell.split());
        let (requests, context) = (split.saturating_mul(size), self.load().mean_context());
        let second = if self.load().mixes() { Second::Attention } else { Second::Nothing };
        let step = bindings(module, requests, 1, context);
        self.decode.planes(&Point { step, second, ..self.point(cell, module) })
    }

    /// Where both phases are priced.
    fn point<'p>(&'p self, cell: &'p Cell, module: &Module) -> Point<'p> {
        let split = cell.split();
        Point {
            axes: &cell.axes,
            devices: cell.stage(),
            pricing: self.evaluator.pricing(),
            stages: cell.stages,
            largest: None,
            step: Bindings::default(),
            second: Second::Nothing,
            held: bindings(module, split, 1, self.evaluator.max_len),
            replicas: split,
            known: Default::default(),
        }
    }

    /// The largest batch that memory, the load and the engine allow.
    pub fn largest_batch(&self, cell: &Cell, decode: &Planes) -> u64 {
        let load = self.load();
        let asked = load.concurrency.map_or(u64::MAX, |c| c.div_ceil(cell.replicas));
        let one = load.objective == Objective::Latency && load.concurrency.is_none();
        let most = if one { 1 } else { load.max_batch.min(asked) };
        let room = self.room(cell) - self.least_activations(cell);
        let fits = |batch: u64| {
            decode.shares.iter().all(|share| decode.fewest_bytes(batch as f64, share) <= room)
        };
        let (mut low, mut high) = (0, most);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        low
    }

    /// Names the axes of a pair; `None` where both phases cannot lay their parameters alike.
    pub fn layouts(&self, cell: &Cell, planes: [&Planes; 2], pair: &Pair) -> Option<Layouts> {
        let outer = if cell.apart { primes(cell.replicas) } else { Vec::new() };
        let atoms = Atoms::new(&cell.axes, &outer);
        let mut stored = StoredNames::default();
        let [prefill, decode] = &pair.solutions;
        let decode = self.decode.schedule(planes[1], decode, &atoms, &mut stored);
        let prefill = self.prefill.schedule(planes[0], prefill, &atoms, &mut stored);
        let modules = [self.prefill.module, self.decode.module];
        if params(modules[0], &prefill) != params(modules[1], &decode) {
            return None;
        }
        Some(Layouts::new(modules, [prefill, decode]))
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
            if func.ty(value).kind.is_stored() {
                out.insert((func.name.as_str(), func.values[value].name.as_str()), layout);
            }
        }
    }
    out
}
