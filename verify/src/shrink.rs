//! A program at reduced sizes: the same instructions and layouts over smaller extents.

use crate::classes::Classes;
use crate::layers;
use crate::sizes::smaller_block;
use shardc_ir::dim::Dim;
use shardc_ir::graph::{Module, Value};
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::types::Type;

/// What is reduced, and how.
#[derive(Clone, Copy, Debug)]
pub struct Reduction<'a> {
    /// The classes of the programs.
    pub classes: &'a Classes,
    /// The extent of each class.
    pub sizes: &'a [Option<u64>],
    /// The smaller mesh.
    pub mesh: &'a Mesh,
    /// Pipeline stages, each of which keeps a layer.
    pub stages: usize,
}

impl Reduction<'_> {
    /// Program number `m` at reduced sizes.
    pub fn apply(&self, m: usize, module: &Module) -> Module {
        let mut small = module.clone();
        if small.mesh.is_some() {
            small.mesh = Some(self.mesh.clone());
        }
        for id in module.funcs.keys() {
            let func = &mut small.funcs[id];
            for (value, data) in module.funcs[id].values.iter() {
                let extent = |(d, dim): (usize, &Dim)| {
                    let class = self.classes.at(m, id, value, d);
                    class.and_then(|c| self.sizes[c]).map_or(*dim, Dim::fixed)
                };
                let ty = &mut func.values[value].ty;
                ty.dims = data.ty.dims.iter().enumerate().map(extent).collect();
                reduce_blocks(ty);
            }
            for &inst in &module.funcs[id].body {
                let first = func.insts[inst].results.first().copied();
                let first = first.map(|v: Value| func.ty(v).dims.clone()).unwrap_or_default();
                func.insts[inst].op = self.operator(&func.insts[inst].op, &first);
                let whole = module.funcs[id].insts[inst].operands.first();
                if let (Op::Slice(slice), Some(&whole)) = (&mut func.insts[inst].op, whole) {
                    let class = self.classes.at(m, id, whole, slice.dim);
                    let [lo, hi] = [slice.lo, slice.hi].map(|end| self.bound(class, end));
                    (slice.lo, slice.hi) = (lo, hi);
                }
            }
        }
        small
    }

    /// The bound between pieces of a class that was `end`.
    fn bound(&self, class: Option<usize>, end: u64) -> u64 {
        let pieces = class.map_or(&[][..], |c| &self.classes.list[c].pieces);
        if pieces.is_empty() {
            return end;
        }
        let before = pieces.iter().filter(|p| p.hi <= end);
        before.filter_map(|p| self.sizes[p.class]).sum()
    }

    /// The operator with the attributes that speak of extents.
    fn operator(&self, op: &Op, first: &[Dim]) -> Op {
        let mut op = op.with_extents(first);
        let extent = |d: usize| first.get(d).and_then(|dim| dim.as_fixed());
        match &mut op {
            Op::Repeat(repeat) => *repeat = layers::fewer(repeat, self.stages),
            Op::Quantise(quantise) => {
                let block = u32::try_from(quantise.block).unwrap_or(1);
                quantise.block = u64::from(smaller_block(block));
            }
            Op::SparseIndex(index) => index.top_k = extent(2).unwrap_or(index.top_k),
            Op::AlibiSlopes(slopes) => {
                slopes.kv = extent(0).unwrap_or(slopes.kv);
                slopes.group = extent(1).unwrap_or(slopes.group);
            }
            _ => {}
        }
        op
    }
}

fn reduce_blocks(ty: &mut Type) {
    if let Some(blocks) = &mut ty.elem.blocks {
        blocks.rows = smaller_block(blocks.rows);
        blocks.cols = smaller_block(blocks.cols);
    }
}
