//! `optimize-collectives`: the obvious merges of neighbouring collectives.
//!
//! - two of one kind in a row become one (all_gather, all_slice, all_reduce of one kind);
//! - an all_slice undone by an all_gather, and the reverse, vanish;
//! - an all_reduce whose only use slices along the reduced axes becomes a reduce_scatter;
//! - equal collectives of one value become one, and unused ones go.
//!
//! Everything else is for the e-graph.

use crate::precondition;
use shardc_ir::diag::Result;
use shardc_ir::entity::SecondaryMap;
use shardc_ir::graph::{Def, Func, Inst, Level, Module, Value};
use shardc_ir::layout::axes;
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::collective::{AllReduce, ReduceScatter};
use shardc_ir::ops::{Family, Op};
use shardc_ir::rewrite::compacted;

/// Merges collectives until nothing changes.
///
/// # Errors
/// `S101` at another level.
pub fn optimize_collectives(module: &mut Module) -> Result<()> {
    let mesh = precondition::mesh(module, "optimize-collectives")?;
    precondition::level(module, "optimize-collectives", Level::Collective)?;
    for func in module.funcs.values_mut() {
        let mut merged = false;
        while merge_once(func, &mesh) {
            merged = true;
        }
        if merged {
            *func = compacted(func);
        }
    }
    Ok(())
}

/// Applies the first merge that fits; whether there was one.
fn merge_once(func: &mut Func, mesh: &Mesh) -> bool {
    let uses = uses(func);
    for at in 0..func.body.len() {
        let inst = func.body[at];
        if func.insts[inst].op.info().family != Family::Collective {
            continue;
        }
        let Some(&result) = func.insts[inst].results.first() else { continue };
        if uses[result] == 0 {
            func.body.remove(at);
            return true;
        }
        if let Some(equal) = equal_before(func, at) {
            replace_uses(func, result, equal);
            func.body.remove(at);
            return true;
        }
        if merge_with_producer(func, mesh, inst, &uses) {
            return true;
        }
    }
    false
}

fn uses(func: &Func) -> SecondaryMap<Value, u32> {
    let mut count = SecondaryMap::default();
    let operands = func.body.iter().flat_map(|&i| &func.insts[i].operands);
    operands.chain(&func.returns).for_each(|&v| count[v] += 1);
    count
}

fn replace_uses(func: &mut Func, old: Value, new: Value) {
    let swap = |v: &mut Value| {
        if *v == old {
            *v = new;
        }
    };
    for inst in func.body.clone() {
        func.insts[inst].operands.iter_mut().for_each(swap);
    }
    func.returns.iter_mut().for_each(swap);
}

/// The result of an earlier instruction that does the same to the same value.
fn equal_before(func: &Func, at: usize) -> Option<Value> {
    let data = &func.insts[func.body[at]];
    let target = func.layout(data.results[0]);
    func.body[..at].iter().map(|&i| &func.insts[i]).find_map(|earlier| {
        let same = earlier.op == data.op && earlier.operands == data.operands;
        let result = *earlier.results.first()?;
        (same && func.layout(result) == target && data.operands.len() == 1).then_some(result)
    })
}

/// Merges a collective with the one that makes its operand.
fn merge_with_producer(
    func: &mut Func,
    mesh: &Mesh,
    inst: Inst,
    uses: &SecondaryMap<Value, u32>,
) -> bool {
    let Some(&operand) = func.insts[inst].operands.first() else { return false };
    let Def::Result(producer, _) = func.values[operand].def else { return false };
    let Some(&source) = func.insts[producer].operands.first() else { return false };
    let result = func.insts[inst].results[0];
    let (Some(from), Some(to)) = (func.layout(source), func.layout(result)) else { return false };
    let (first, second) = (func.insts[producer].op.clone(), func.insts[inst].op.clone());
    if first.info().family != Family::Collective {
        return false;
    }
    let undone = matches!(
        (&first, &second),
        (Op::AllSlice(_), Op::AllGather(_)) | (Op::AllGather(_), Op::AllSlice(_))
    );
    if undone && from.same_placement(to, mesh) {
        replace_uses(func, result, source);
        return true;
    }
    if uses[operand] > 1 {
        return false;
    }
    let merged = match (&first, &second) {
        (Op::AllReduce(reduce), Op::AllSlice(slice)) => scatter(mesh, reduce, slice),
        (Op::AllReduce(a), Op::AllReduce(b)) if a.kind == b.kind => {
            let mut both = a.clone();
            both.axes.0.extend(&b.axes.0);
            both.axes.0 = axes::normalise_set(mesh, &both.axes.0);
            Some(Op::AllReduce(both))
        }
        _ => None,
    };
    let Some(op) = merged else { return false };
    func.insts[inst].op = op;
    func.insts[inst].operands = vec![source];
    true
}

/// An all_reduce followed by a slice along exactly the reduced axes.
fn scatter(
    mesh: &Mesh,
    reduce: &AllReduce,
    slice: &shardc_ir::ops::collective::AllSlice,
) -> Option<Op> {
    let sliced: Vec<_> = slice.axes.iter().flat_map(|a| a.0.clone()).collect();
    let same = axes::normalise_set(mesh, &sliced) == axes::normalise_set(mesh, &reduce.axes.0);
    same.then(|| Op::ReduceScatter(ReduceScatter { kind: reduce.kind, axes: slice.axes.clone() }))
}
