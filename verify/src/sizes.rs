//! The reduced extents: as small as they can be while every axis divides what it divided.

use crate::classes::Classes;
use crate::pieces;
use shardc_ir::graph::{FuncId, Module, Value};
use shardc_ir::layout::primes;
use shardc_ir::mesh::{Axis, AxisRef, Mesh};
use shardc_ir::ops::Op;
use std::collections::{BTreeMap, BTreeSet};

/// Elements of a reduced quantisation block.
const BLOCK: u64 = 2;

/// Elements of a dimension at least: a norm over two elements says little.
const LEAST: u64 = 4;

/// So far above the least extent one is looked for that no other class has.
const DISTINCT: u64 = 8;

/// The mesh with every axis cut to its smallest prime factor; axes that a layout takes apart stay.
pub fn smaller_mesh(mesh: &Mesh, programs: &[&Module]) -> Mesh {
    let funcs = programs.iter().flat_map(|m| m.funcs.values());
    let values = funcs.flat_map(|f| f.values.values());
    let layouts = values.filter_map(|v| v.sharding.as_ref()).map(|s| &s.layout);
    let named: Vec<AxisRef> =
        layouts.flat_map(|l| [l.sharded_axes(), l.unreduced_axes()].concat()).collect();
    let torn: BTreeSet<_> = named.iter().filter(|a| a.sub.is_some()).map(|a| a.axis.0).collect();
    let axis = |(i, axis): (usize, &Axis)| match torn.contains(&(i as u16)) {
        true => axis.clone(),
        false => Axis { size: primes(axis.size).last().copied().unwrap_or(1), ..axis.clone() },
    };
    Mesh { name: mesh.name.clone(), axes: mesh.axes.iter().enumerate().map(axis).collect() }
}

/// A reduced quantisation block; 0 and 1 mean something else than a length.
pub fn smaller_block(block: u32) -> u32 {
    block.min(BLOCK as u32)
}

/// Numbers of parts of a dimension, at full and at reduced sizes: the reduced extent divides by
/// the second exactly where the full one divides by the first.
type Parts = BTreeSet<(u64, u64)>;

/// The reduced extent of each class; `None` where it is symbolic.
pub fn choose(
    classes: &Classes,
    programs: &[&Module],
    mesh: &Mesh,
    small: &Mesh,
) -> Vec<Option<u64>> {
    let parts = parts(classes, programs, mesh, small);
    let mut taken: BTreeSet<u64> = BTreeSet::new();
    let mut out = Vec::with_capacity(classes.list.len());
    for (class, data) in classes.list.iter().enumerate() {
        out.push(match (data.size, data.kept) {
            _ if data.layers.is_some() => data.layers,
            // Sums follow from their pieces.
            (Some(_), false) if !data.pieces.is_empty() => None,
            (Some(size), false) => {
                let mut parts = parts.get(&class).cloned().unwrap_or_default();
                parts.extend(data.groups.map(|n| (n, n)));
                let chosen = reduced(size, data.least, &parts, &taken);
                taken.insert(chosen);
                Some(chosen)
            }
            (size, _) => size,
        });
    }
    let sum = |class: usize| pieces::sum(class, &classes.list, &out);
    (0..out.len()).map(sum).collect()
}

/// The smallest extent that divides like `size`, preferably one that no other class has, since
/// equal extents would hide that two dimensions were exchanged.
fn reduced(size: u64, least: u64, parts: &Parts, taken: &BTreeSet<u64>) -> u64 {
    let most = parts.iter().map(|p| p.1).max().unwrap_or(1);
    let two_each = parts.iter().all(|p| size >= p.0.saturating_mul(2));
    let least = least.max(if two_each { most.saturating_mul(2) } else { most }).max(LEAST);
    let divides = |n: u64| {
        parts.iter().all(|&(full, small)| size.is_multiple_of(full) == n.is_multiple_of(small))
    };
    let legal = (least..size).filter(|&n| divides(n));
    let mut distinct = legal.clone().take_while(|&n| n <= least.saturating_add(DISTINCT));
    let free = distinct.find(|n| !taken.contains(n));
    free.or_else(|| legal.clone().next()).unwrap_or(size)
}

/// How the dimensions of each class are split anywhere.
fn parts(
    classes: &Classes,
    programs: &[&Module],
    mesh: &Mesh,
    small: &Mesh,
) -> BTreeMap<usize, Parts> {
    let mut out: BTreeMap<usize, Parts> = BTreeMap::new();
    for (m, module) in programs.iter().enumerate() {
        for (id, func) in module.funcs.iter() {
            let blocks = blocks(module, id);
            for (value, data) in func.values.iter() {
                for dim in 0..data.ty.rank() {
                    let Some(class) = classes.at(m, id, value, dim) else { continue };
                    let axes = func.layout(value).and_then(|l| l.dims.get(dim));
                    let axes = axes.map_or(&[][..], Vec::as_slice);
                    let (full, reduced) = (mesh.size_of(axes), small.size_of(axes));
                    let parts = out.entry(class).or_default();
                    parts.insert((full, reduced));
                    if let Some(&block) = blocks.get(&(value, dim)) {
                        let smaller = u64::from(smaller_block(block));
                        parts.insert((full * u64::from(block), reduced * smaller));
                    }
                }
            }
        }
    }
    out
}

/// Dimensions that run along quantisation blocks.
fn blocks(module: &Module, id: FuncId) -> BTreeMap<(Value, usize), u32> {
    let func = &module.funcs[id];
    let mut out = BTreeMap::new();
    for (value, data) in func.values.iter() {
        let Some(blocks) = data.ty.elem.blocks else { continue };
        let (split, rank) = (usize::from(blocks.split), data.ty.rank());
        let rows = split.checked_sub(1).map(|d| (d, blocks.rows));
        let cols = rank.checked_sub(1).map(|d| (d, blocks.cols));
        out.extend(rows.into_iter().chain(cols).filter(|b| b.1 > 1).map(|(d, b)| ((value, d), b)));
    }
    for data in func.insts.values() {
        if let (Op::Quantise(op), Some(&from)) = (&data.op, data.operands.first()) {
            let block = u32::try_from(op.block).unwrap_or(1);
            if let Some(last) = func.ty(from).rank().checked_sub(1) {
                out.insert((from, last), block);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_divide_as_before() {
        let parts = |list: &[(u64, u64)]| list.iter().copied().collect::<Parts>();
        let none = BTreeSet::new();
        assert_eq!(reduced(4096, 1, &parts(&[(1, 1), (8, 2)]), &none), 4);
        assert_eq!(reduced(30, 1, &parts(&[(8, 2)]), &none), 5, "30 over 8 is uneven");
        assert_eq!(reduced(7168, 1, &parts(&[(1, 1), (128, 2)]), &none), 4);
        assert_eq!(reduced(1, 1, &parts(&[(1, 1)]), &none), 1, "nothing is smaller than one");
        assert_eq!(reduced(4096, 1, &parts(&[(8, 2)]), &BTreeSet::from([4])), 6);
    }
}
