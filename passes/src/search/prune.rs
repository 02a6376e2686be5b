//! What a plan's weights take at least, before anything is lowered.
//!
//! A plan whose weights alone exceed memory needs no lowering to be refused. The bound must never
//! exceed what lowering would find: weights that no pin fixes count as split over a whole stage, and
//! the fullest stage counts as the mean of all.

use crate::strategy::Pin;
use shardc_ir::dim::Bindings;
use shardc_ir::graph::{FuncKind, Module};
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::types::Kind;
use std::collections::BTreeMap;

/// The stored weights of a logical program.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    items: Vec<Item>,
}

/// One weight parameter of a function.
#[derive(Clone, Debug)]
struct Item {
    func: String,
    name: String,
    rank: usize,
    /// Bytes of all layers that run the function.
    bytes: u64,
}

impl Weights {
    /// Reads a logical program: of a layer function, a weight counts once per layer.
    pub(super) fn of(module: &Module) -> Self {
        let mut layers: BTreeMap<&str, u64> = BTreeMap::new();
        let insts = module.funcs.values().flat_map(|f| f.body.iter().map(|&i| &f.insts[i]));
        for inst in insts {
            if let Op::Repeat(repeat) = &inst.op {
                for (name, count) in repeat.distinct() {
                    *layers.entry(name).or_default() += count;
                }
            }
        }
        let bind = Bindings::default();
        let mut items = Vec::new();
        for func in module.funcs.values().filter(|f| f.kind == FuncKind::Func) {
            let times = layers.get(func.name.as_str()).copied();
            for &param in func.params.iter().filter(|&&p| func.ty(p).kind == Kind::Weight) {
                let (ty, name) = (func.ty(param), func.values[param].name.clone());
                // A function that runs layers takes their weights stacked; those count inside.
                let stacked =
                    layers.keys().any(|l| name.strip_prefix(l).is_some_and(|r| r.starts_with('.')));
                if times.is_none() && stacked {
                    continue;
                }
                let bytes = ty.bytes(&bind).saturating_mul(times.unwrap_or(1));
                items.push(Item { func: func.name.clone(), name, rank: ty.rank(), bytes });
            }
        }
        Weights { items }
    }

    /// A lower bound of the bytes on the fullest device of `stages` stages on `mesh`.
    pub(super) fn at_least(&self, pins: &[Pin], mesh: &Mesh, stages: u64) -> u64 {
        let share = |item: &Item| {
            let fits =
                |p: &&Pin| p.layout.dims.len() == item.rank && p.matches(&item.func, &item.name);
            let pin = pins.iter().rev().find(fits);
            let parts = pin.map_or(mesh.devices(), |p| mesh.size_of(&p.layout.dims.concat()));
            item.bytes / parts.max(1)
        };
        let all = self.items.iter().map(share).fold(0, u64::saturating_add);
        all / stages.max(1)
    }
}
