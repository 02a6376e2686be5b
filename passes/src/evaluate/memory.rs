//! Bytes of one device: weights, caches and the peak of live activations.
//!
//! What lives when is read off the steps that the launch plan has, so that a plan's figure is what
//! its buffers come to.

use crate::launch::homes::Homes;
use crate::launch::outline::{Doing, Span, is_scratch, outline, root_uses, uses};
use shardc_ir::dim::Bindings;
use shardc_ir::graph::{Func, FuncKind, Module};
use shardc_ir::launch::storage;
use shardc_ir::layout::Layout;
use shardc_ir::ops::Op;
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
pub struct MemoryModel {
    /// Of every function, in order.
    lives: Vec<Lives>,
    /// Per pipeline stage.
    pub stages: Vec<StageMemory>,
}

/// What lives in the steps of a function.
#[derive(Clone, Debug)]
struct Lives {
    /// Name of a layer function; `None` of a program.
    layer: Option<String>,
    /// Number of steps.
    steps: usize,
    /// Buffers of its own, with the steps in which they live.
    buffers: Vec<(Type, Option<Layout>, Span)>,
    /// Steps that repeat layers, with the names of these.
    repeats: Vec<(usize, Vec<String>)>,
}

impl MemoryModel {
    /// Reads a local module.
    pub fn of(module: &Module) -> Self {
        let stage = |(program, func): (usize, &Func)| {
            let of = |kind: Kind| {
                let params = func.params.iter().map(|&v| func.ty(v));
                params.filter(|t| t.kind == kind).cloned().collect::<Vec<_>>()
            };
            StageMemory { weights: of(Kind::Weight), caches: of(Kind::Cache), program }
        };
        let programs =
            module.funcs.values().enumerate().filter(|(_, f)| f.kind == FuncKind::Program);
        MemoryModel {
            lives: module.funcs.values().map(Lives::of).collect(),
            stages: programs.map(stage).collect(),
        }
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
        self.all_activations(bind).get(stage).copied().unwrap_or(0)
    }

    /// The same of every stage.
    pub fn all_activations(&self, bind: &Bindings) -> Vec<u64> {
        let mut peaks: BTreeMap<&str, u64> = BTreeMap::new();
        let mut of_programs = BTreeMap::new();
        for (at, lives) in self.lives.iter().enumerate() {
            let peak = lives.peak(bind, &peaks);
            match &lives.layer {
                Some(name) => drop(peaks.insert(name, peak)),
                None => drop(of_programs.insert(at, peak)),
            }
        }
        let of_stage = |s: &StageMemory| of_programs.get(&s.program).copied().unwrap_or(0);
        self.stages.iter().map(of_stage).collect()
    }
}

impl Lives {
    fn of(func: &Func) -> Self {
        let homes = Homes::of(func);
        let steps = outline(func, &homes);
        let all = root_uses(&homes, &uses(func, &steps));
        let own = all.into_iter().filter(|(root, _)| is_scratch(func, &homes, *root));
        let buffer = |(root, span)| (func.ty(root).clone(), func.layout(root).cloned(), span);
        let layers = |(at, line): (usize, &crate::launch::outline::Outline)| {
            let inst = func.body.get(line.at).filter(|_| line.doing == Doing::Instruction)?;
            let Op::Repeat(repeat) = &func.insts[*inst].op else { return None };
            Some((at, repeat.distinct().iter().map(|(name, _)| name.to_string()).collect()))
        };
        Lives {
            layer: (func.kind == FuncKind::Func).then(|| func.name.clone()),
            steps: steps.len(),
            buffers: own.map(buffer).collect(),
            repeats: steps.iter().enumerate().filter_map(layers).collect(),
        }
    }

    /// Most bytes that live in one step, `repeat` counted with the most of its layers.
    fn peak(&self, bind: &Bindings, layers: &BTreeMap<&str, u64>) -> u64 {
        let mut born = vec![0u64; self.steps + 1];
        let mut dying = vec![0u64; self.steps + 1];
        for (ty, layout, [first, last]) in &self.buffers {
            let bytes = storage::bytes(ty, layout.as_ref(), bind);
            born[*first] = born[*first].saturating_add(bytes);
            dying[last + 1] = dying[last + 1].saturating_add(bytes);
        }
        let (mut live, mut peak) = (0u64, 0u64);
        for at in 0..self.steps {
            live = live.saturating_sub(dying[at]).saturating_add(born[at]);
            let repeated = self.repeats.iter().filter(|(step, _)| *step == at);
            let names = repeated.flat_map(|(_, names)| names);
            let inner = names.filter_map(|n| layers.get(n.as_str())).copied().max().unwrap_or(0);
            peak = peak.max(live.saturating_add(inner));
        }
        peak
    }
}

fn sum(types: &[Type], bind: &Bindings) -> u64 {
    types.iter().map(|t| t.bytes(bind)).fold(0, u64::saturating_add)
}
