//! What every choice of a group costs: time of its kernels, bytes that it stores.

use super::axes::{Axes, Key, Lattice, State};
use super::block::{Times, add};
use super::fares::KnownPrices;
use super::group::Head;
use super::unit::{Port, Unit};
use crate::evaluate::{Pricing, Shared, Work, price, work_of};
use shardc_ir::dim::{Bindings, Dim, Sym};
use shardc_ir::entity::EntityId;
use shardc_ir::graph::{Def, Func, Inst, Module, Value};
use shardc_ir::ops::{Family, Op};
use shardc_ir::rule::Split;
use shardc_ir::types::{Kind, Type};

/// Where and for what a table holds.
#[derive(Clone, Debug)]
pub(super) struct Point<'a> {
    pub axes: &'a Axes,
    /// Devices of a stage.
    pub devices: u64,
    pub pricing: Pricing<'a>,
    /// Requests, new tokens and cached tokens of the step that is priced.
    pub step: Bindings,
    /// What the second time of everything is.
    pub second: Second,
    /// Requests and tokens for which caches are held.
    pub held: Bindings,
    /// Replicas: the requests of attention are split so many ways.
    pub replicas: u64,
    /// Pipeline stages.
    pub stages: u64,
    /// The step whose activations memory must hold, where it is this phase's.
    pub largest: Option<Bindings>,
    /// Collectives that were priced.
    pub known: KnownPrices,
}

/// What a phase does in a step in which prompts ride.
#[derive(Clone, Debug)]
pub(super) enum Second {
    /// No prompts ride in decode steps.
    Nothing,
    /// All but the attention of decoding: this is the phase of prompts.
    Shared {
        /// Sizes of what runs on the tokens of both.
        sizes: Shared,
        /// Steps over which the attention of prompts spreads.
        chunks: u64,
        /// Whether prompts run in no other steps; then a step by itself is not priced, and the first
        /// time is the second.
        only: bool,
    },
    /// Attention: this is the phase of decoding.
    Attention,
}

impl Point<'_> {
    /// Whether the first time of everything is the second.
    pub fn same(&self) -> bool {
        matches!(self.second, Second::Shared { only: true, .. })
    }

    /// Sizes of a value of such extents in the steps in which what communicates takes different times.
    pub fn binds(&self, dims: &[Dim]) -> impl Iterator<Item = &Bindings> {
        let shared = match &self.second {
            Second::Shared { sizes, .. } => Some(sizes.at(dims)),
            Second::Nothing | Second::Attention => None,
        };
        [&self.step].into_iter().filter(|_| !self.same()).chain(shared)
    }

    /// The times of what communicates a value of such extents, given its time at the sizes of a step.
    pub fn both(&self, dims: &[Dim], time: impl FnMut(&Bindings) -> f64) -> Times {
        let mut times = [0.0; 2];
        self.binds(dims).map(time).zip(&mut times).for_each(|(t, to)| *to = t);
        if self.same() { [times[0]; 2] } else { times }
    }
}

/// A group's work over symbols: one symbol for each of its uses.
#[derive(Clone, Debug)]
pub(super) struct Priced {
    works: Vec<Work>,
    /// Of each work, its extents without symbols of uses.
    dims: Vec<Vec<Dim>>,
    /// Extent of each use before it is split.
    extents: Vec<Dim>,
    /// The use that splits experts over devices.
    experts: Option<usize>,
    /// Symbols below this number are the module's.
    base: usize,
    stored: Vec<(Type, Kind)>,
    /// Activations that each product or attention reads and makes.
    live: Vec<Vec<Type>>,
}

/// The choices of a group at one point. A choice is a state of `lattice`.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub lattice: Lattice,
    /// Times of one execution in ns; infinite where a choice is not legal.
    pub time: Vec<Times>,
    /// Kernels of one execution.
    pub kernels: u64,
    /// Stored bytes of weights of one layer.
    pub weights: Vec<f64>,
    /// Bytes of caches of one layer.
    pub caches: Vec<f64>,
    /// Bytes of activations that memory must hold at least.
    pub transient: Vec<f64>,
    /// How each stored parameter lies, choice by choice.
    pub keys: Vec<Vec<Key>>,
}

impl Priced {
    /// Reads the work of a group.
    pub fn of(module: &Module, func: &Func, unit: &Unit, pricing: Pricing<'_>) -> Self {
        let base = module.syms.len();
        let tagged = tag(func, unit, base, true);
        let works = work_of(module, &tagged, pricing.cluster, &|inst| unit.insts.contains(&inst));
        let extent = |i: usize| {
            let ports =
                unit.inputs.iter().chain(&unit.outputs).chain(&unit.stored).chain(&unit.inner);
            let mut found = ports.filter_map(|p| {
                let dim = p.dims.iter().position(|d| *d == Some(i))?;
                Some(func.ty(p.value).dims[dim])
            });
            found.next().unwrap_or(Dim::fixed(1))
        };
        let extents: Vec<Dim> = (0..unit.uses.len()).map(extent).collect();
        let whole = |dim: Dim| {
            let on = dim.symbol().and_then(|sym| sym.index().checked_sub(base));
            on.and_then(|on| extents.get(on)).copied().unwrap_or(dim)
        };
        let dims = works.iter().map(|w| w.dims().into_iter().map(whole).collect()).collect();
        let experts = expert_weight(func, unit).and_then(|p| p.dims[0]);
        let tagged = tag(func, unit, base, false);
        let stored =
            unit.stored.iter().map(|p| (tagged.ty(p.value).clone(), func.ty(p.value).kind));
        Priced {
            works,
            dims,
            extents,
            experts,
            base,
            stored: stored.collect(),
            live: live(&tagged, &unit.insts),
        }
    }

    /// The most that one operator of the group reads and makes.
    fn transient(&self, point: &Point<'_>, parts: &[u64]) -> f64 {
        let Some(largest) = &point.largest else { return 0.0 };
        let bind = self.bind(largest, parts);
        let bytes = |types: &Vec<Type>| types.iter().map(|t| t.bytes(&bind) as f64).sum::<f64>();
        self.live.iter().map(bytes).fold(0.0, f64::max)
    }

    /// The symbols of a choice beside those of `bind`.
    fn bind(&self, bind: &Bindings, parts: &[u64]) -> Bindings {
        let mut out = bind.clone();
        for (i, (extent, parts)) in self.extents.iter().zip(parts).enumerate() {
            out.set(Sym::from_index(self.base + i), extent.eval(bind).div_ceil(*parts));
        }
        out
    }

    fn times(&self, point: &Point<'_>, parts: &[u64]) -> Times {
        let step = self.bind(&point.step, parts);
        let shared = match &point.second {
            Second::Shared { sizes, .. } => {
                [true, false].map(|tokens| self.bind(sizes.with(tokens), parts))
            }
            Second::Nothing | Second::Attention => Default::default(),
        };
        let mut times = [0.0; 2];
        for (work, dims) in self.works.iter().zip(&self.dims) {
            let attends = matches!(work, Work::Attention { .. });
            let time = |bind: &Bindings| self.time(point, work, bind, parts);
            let own = match &point.second {
                Second::Nothing => [time(&step), 0.0],
                Second::Attention if attends => [time(&step); 2],
                Second::Attention => [time(&step), 0.0],
                Second::Shared { chunks, only, .. } if attends => {
                    let (whole, chunks) = (time(&step), (*chunks).max(1) as f64);
                    [if *only { whole / chunks } else { whole }, whole / chunks]
                }
                Second::Shared { sizes, only, .. } => {
                    let tokens = dims.iter().any(|d| sizes.counts_tokens(*d));
                    let second = time(&shared[usize::from(!tokens)]);
                    [if *only { second } else { time(&step) }, second]
                }
            };
            times = add(times, own);
        }
        times
    }

    fn time(&self, point: &Point<'_>, work: &Work, bind: &Bindings, parts: &[u64]) -> f64 {
        let (pricer, fabric) = point.pricing.models();
        match work {
            Work::Experts { .. } => {
                let mut work = work.clone();
                if let (Work::Experts { ep, .. }, Some(on)) = (&mut work, self.experts) {
                    *ep = parts[on];
                }
                price(&work, &pricer, &fabric, bind).time.as_f64()
            }
            work => price(work, &pricer, &fabric, bind).time.as_f64(),
        }
    }

    fn stored(&self, point: &Point<'_>, parts: &[u64], kind: Kind) -> f64 {
        let bind = self.bind(&point.held, parts);
        let of_kind = self.stored.iter().filter(|(_, k)| *k == kind);
        of_kind.map(|(ty, _)| ty.bytes(&bind) as f64).sum()
    }
}

/// Activations of a group that live while one of its products or its attention runs: read or made by
/// the group, not later than that, and used then or afterwards.
pub(super) fn live(func: &Func, group: &[Inst]) -> Vec<Vec<Type>> {
    let place = |inst: Inst| func.body.iter().position(|&i| i == inst);
    let made = |v: Value| match func.values[v].def {
        Def::Result(inst, _) => place(inst),
        Def::Param(_) => None,
    };
    let used = |v: Value| func.body.iter().rposition(|&i| func.insts[i].operands.contains(&v));
    let mut values: Vec<Value> = Vec::new();
    for data in group.iter().map(|&i| &func.insts[i]) {
        values.extend(data.operands.iter().chain(&data.results));
    }
    values.sort_unstable();
    values.dedup();
    values.retain(|&v| matches!(func.ty(v).kind, Kind::Tensor | Kind::Routed { .. }));
    values.retain(|&v| !shares_storage(func, v));
    let spans: Vec<_> = values.iter().map(|&v| (func.ty(v), made(v), used(v))).collect();
    let heads = group.iter().filter(|&&i| {
        matches!(func.insts[i].op, Op::Dot(_) | Op::GroupedDot(_) | Op::Attention(_))
    });
    let at = |&inst: &Inst| {
        let now = place(inst);
        let lives = spans.iter().filter(|(_, made, used)| *made <= now && *used >= now);
        lives.map(|(ty, ..)| (*ty).clone()).collect()
    };
    heads.map(at).collect()
}

/// Whether a value lies where another does: views, and what one operand becomes in place.
fn shares_storage(func: &Func, value: Value) -> bool {
    let Def::Result(inst, _) = func.values[value].def else { return false };
    let data = &func.insts[inst];
    let in_place = data.op.info().family == Family::Elementwise && data.operands.len() == 1;
    let view = matches!(data.op, Op::KvRead(_) | Op::Reshape(_) | Op::Slice(_) | Op::Constraint(_));
    view || in_place
}

/// The weight that says how many experts there are; its first extent stays as it is, since work is
/// priced by the number of experts in all.
fn expert_weight<'a>(func: &Func, unit: &'a Unit) -> Option<&'a Port> {
    let three = |p: &&Port| func.ty(p.value).kind == Kind::Weight && func.ty(p.value).rank() >= 3;
    unit.stored.iter().find(|p| unit.head == Head::Experts && three(p))
}

/// The function with a symbol of its own for every use of the group, wherever it splits a value;
/// `all_experts` leaves the number of experts of weights as it is.
fn tag(func: &Func, unit: &Unit, base: usize, all_experts: bool) -> Func {
    let mut out = func.clone();
    let ports = unit.inputs.iter().chain(&unit.outputs).chain(&unit.stored).chain(&unit.inner);
    for port in ports {
        let counts_experts =
            all_experts && unit.head == Head::Experts && func.ty(port.value).kind == Kind::Weight;
        let dims = &mut out.values[port.value].ty.dims;
        for (d, on) in port.dims.iter().enumerate() {
            if let Some(on) = on.filter(|_| !(counts_experts && d == 0)) {
                dims[d] = Dim::sym(Sym::from_index(base + on));
            }
        }
    }
    out
}

/// The choices of a group at a point.
pub(super) fn lattice(unit: &Unit, point: &Point<'_>) -> Lattice {
    let cap = |kind: usize, on: usize| {
        let axes = &point.axes.kinds[kind];
        let split = unit.uses[on].splits.iter();
        let most =
            split.map(|(extent, s)| axes.most(extent.eval(&point.step), *s != Split::Uneven));
        most.min().unwrap_or(axes.count)
    };
    Lattice::new(point.axes, unit.uses.len(), cap)
}

impl Table {
    /// Prices every choice of a group.
    pub fn new(unit: &Unit, priced: &Priced, point: &Point<'_>) -> Self {
        let lattice = lattice(unit, point);
        let n = lattice.len();
        let keys = |port: &Port| (0..n).map(|s| lattice.key(s, &port.dims)).collect();
        let mut table = Table {
            time: vec![[f64::INFINITY; 2]; n],
            kernels: priced.works.len() as u64,
            weights: vec![0.0; n],
            caches: vec![0.0; n],
            transient: vec![0.0; n],
            keys: unit.stored.iter().map(keys).collect(),
            lattice,
        };
        for state in 0..n {
            let parts = table.lattice.all_parts(state);
            let legal = unit.uses.iter().zip(parts).all(|(u, &p)| u.allows(p, &point.step));
            if legal && replicates(unit, parts, point.replicas) {
                table.time[state] = priced.times(point, parts);
                table.weights[state] = priced.stored(point, parts, Kind::Weight);
                table.caches[state] = priced.stored(point, parts, Kind::Cache);
                table.transient[state] = priced.transient(point, parts);
            }
        }
        table
    }

    /// The table of a group that is not decided here.
    pub fn empty(point: &Point<'_>) -> Self {
        let lattice = Lattice::new(point.axes, 0, |_, _| 0);
        let (time, nothing) = (vec![[f64::INFINITY; 2]], vec![0.0]);
        let (weights, caches, transient) = (nothing.clone(), nothing.clone(), nothing);
        Table { time, kernels: 0, weights, caches, transient, keys: vec![], lattice }
    }

    /// Whether a choice is legal.
    pub fn is_legal(&self, state: State) -> bool {
        self.time[state][0].is_finite()
    }
}

/// Whether a choice has the requests of attention, and so its caches, split over the replicas.
fn replicates(unit: &Unit, parts: &[u64], replicas: u64) -> bool {
    let requests = unit.uses.iter().position(|u| u.requests);
    unit.head != Head::Attention || requests.map_or(1, |on| parts[on]) == replicas
}
