//! Bytes of one device: weights, caches and the peak of live activations.

use shardc_ir::dim::Bindings;
use shardc_ir::entity::SecondaryMap;
use shardc_ir::graph::{Func, FuncKind, Module, Value};
use shardc_ir::ops::{Family, Op};
use shardc_ir::types::{Kind, Type};
use std::collections::BTreeMap;

/// What a stage holds, over symbolic extents.
#[derive(Clone, Debug, PartialEq)]
pub struct StageMemory {
    /// Stored weights.
    pub weights: Vec<Type>,
    /// Caches.
    pub caches: Vec<Type>,
    /// The program's index among the functions.
    program: usize,
}

/// Memory of a local module, stage by stage.
#[derive(Clone, Debug)]
pub struct MemoryModel<'a> {
    module: &'a Module,
    /// Per pipeline stage.
    pub stages: Vec<StageMemory>,
}

impl<'a> MemoryModel<'a> {
    /// Reads a local module.
    pub fn of(module: &'a Module) -> Self {
        let stage = |(program, func): (usize, &Func)| {
            let of = |kind: Kind| {
                let params = func.params.iter().map(|&v| func.ty(v));
                params.filter(|t| t.kind == kind).cloned().collect::<Vec<_>>()
            };
            StageMemory { weights: of(Kind::Weight), caches: of(Kind::Cache), program }
        };
        let programs =
            module.funcs.values().enumerate().filter(|(_, f)| f.kind == FuncKind::Program);
        MemoryModel { module, stages: programs.map(stage).collect() }
    }

    /// Weight bytes of a stage.
    pub fn weights(&self, stage: usize, bind: &Bindings) -> u64 {
        sum(&self.stages[stage].weights, bind)
    }

    /// Cache bytes of a stage.
    pub fn caches(&self, stage: usize, bind: &Bindings) -> u64 {
        sum(&self.stages[stage].caches, bind)
    }

    /// Largest sum of live activations of a stage, layer functions included.
    pub fn activations(&self, stage: usize, bind: &Bindings) -> u64 {
        let peaks = self.layer_peaks(bind);
        self.stage_peak(&self.stages[stage], bind, &peaks)
    }

    /// The same of every stage.
    pub fn all_activations(&self, bind: &Bindings) -> Vec<u64> {
        let peaks = self.layer_peaks(bind);
        self.stages.iter().map(|stage| self.stage_peak(stage, bind, &peaks)).collect()
    }

    fn stage_peak(
        &self,
        stage: &StageMemory,
        bind: &Bindings,
        peaks: &BTreeMap<String, u64>,
    ) -> u64 {
        let program = self.module.funcs.values().nth(stage.program);
        program.map_or(0, |f| self.peak(f, bind, peaks))
    }

    /// Peaks of the layer functions by name.
    fn layer_peaks(&self, bind: &Bindings) -> BTreeMap<String, u64> {
        let mut peaks: BTreeMap<String, u64> = BTreeMap::new();
        for func in self.module.funcs.values().filter(|f| f.kind == FuncKind::Func) {
            let peak = self.peak(func, bind, &peaks);
            peaks.insert(func.name.clone(), peak);
        }
        peaks
    }

    /// Peak of live bytes in one function, `repeat` counted at its layers' peak.
    fn peak(&self, func: &Func, bind: &Bindings, peaks: &BTreeMap<String, u64>) -> u64 {
        let owner = storage(func);
        let dying = dying(func, &owner);
        let size = |v: Value| if owner[v].is_some() { 0 } else { activation_bytes(func, v, bind) };
        let mut live: u64 = func.params.iter().map(|&v| size(v)).fold(0, u64::saturating_add);
        let mut peak = live;
        for (at, &inst) in func.body.iter().enumerate() {
            let data = &func.insts[inst];
            let results = data.results.iter().map(|&v| size(v)).fold(0, u64::saturating_add);
            let inner = match &data.op {
                Op::Repeat(repeat) => {
                    repeat.distinct().iter().filter_map(|(n, _)| peaks.get(*n)).copied().max()
                }
                _ => None,
            };
            live = live.saturating_add(results);
            peak = peak.max(live.saturating_add(inner.unwrap_or(0)));
            let freed = dying[at].iter().map(|&v| size(v)).fold(0, u64::saturating_add);
            live = live.saturating_sub(freed);
        }
        peak
    }
}

fn sum(types: &[Type], bind: &Bindings) -> u64 {
    types.iter().map(|t| t.bytes(bind)).fold(0, u64::saturating_add)
}

fn activation_bytes(func: &Func, value: Value, bind: &Bindings) -> u64 {
    let ty = func.ty(value);
    match ty.kind {
        Kind::Weight | Kind::Cache => 0,
        Kind::Tensor | Kind::Routed { .. } => ty.bytes(bind),
    }
}

/// Values that are views of others: the value whose storage they share.
fn storage(func: &Func) -> SecondaryMap<Value, Option<Value>> {
    let mut owner: SecondaryMap<Value, Option<Value>> = SecondaryMap::default();
    for &inst in &func.body {
        let data = &func.insts[inst];
        let view =
            matches!(data.op, Op::KvRead(_) | Op::Reshape(_) | Op::Slice(_) | Op::Constraint(_));
        let in_place = match data.op.info().family {
            Family::Elementwise => data.operands.len() == 1,
            _ => false,
        };
        if let (true, Some(&operand)) = (view || in_place, data.operands.first()) {
            let root = owner[operand].unwrap_or(operand);
            data.results.iter().for_each(|&r| owner[r] = Some(root));
        }
    }
    owner
}

/// Per instruction, the values whose storage no later instruction uses; returned values live on.
fn dying(func: &Func, owner: &SecondaryMap<Value, Option<Value>>) -> Vec<Vec<Value>> {
    let mut last: SecondaryMap<Value, Option<usize>> = SecondaryMap::default();
    for (at, &inst) in func.body.iter().enumerate() {
        let data = &func.insts[inst];
        for &value in data.operands.iter().chain(&data.results) {
            last[owner[value].unwrap_or(value)] = Some(at);
        }
    }
    for &value in &func.returns {
        last[owner[value].unwrap_or(value)] = None;
    }
    let mut out = vec![Vec::new(); func.body.len()];
    for value in func.values.keys() {
        if let Some(at) = last[value] {
            out[at].push(value);
        }
    }
    out
}
