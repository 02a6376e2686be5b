//! `reshard-to-collectives`: every reshard becomes the sequence of collectives that the reshard
//! planner chooses. Values stay global.

use crate::precondition;
use crate::reshard::{self, Objective, Planner, StartupBytes};
use shardc_ir::attr::AxisList;
use shardc_ir::diag::Result;
use shardc_ir::dim::Bindings;
use shardc_ir::graph::{Func, Inst, Level, Module};
use shardc_ir::layout::Sharding;
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;
use shardc_ir::ops::collective::{
    AllGather, AllReduce, AllSlice, AllToAll, CollectivePermute, Move, ReduceScatter,
};
use shardc_ir::rewrite::Rewriter;

/// What starting a collective is worth in bytes: some 3 µs at NVLink's 450 GB/s. Without it a
/// reduction would be cut into steps to save a few bytes of padding.
const STARTUP_BYTES: u64 = 1 << 20;

/// Replaces reshards; `sizes` gives symbols by name the values at which sequences are compared,
/// the upper bounds of the others.
///
/// # Errors
/// `S101` at another level; a reshard that no sequence can do.
pub fn reshard_to_collectives(module: &mut Module, sizes: &[(&str, u64)]) -> Result<()> {
    let mesh = precondition::mesh(module, "reshard-to-collectives")?;
    precondition::level(module, "reshard-to-collectives", Level::Sharded)?;
    let bind = module.bind(sizes);
    let prices = StartupBytes(STARTUP_BYTES);
    let mut planner = Planner::under(&mesh, Objective::PeakThenPrice(&prices));
    for func in module.funcs.values_mut() {
        *func = lower(func, &mesh, &bind, &mut planner)?;
    }
    module.level = Level::Collective;
    Ok(())
}

fn lower(func: &Func, mesh: &Mesh, bind: &Bindings, planner: &mut Planner<'_>) -> Result<Func> {
    let mut rewriter = Rewriter::new(func);
    for &inst in &func.body {
        match func.insts[inst].op {
            Op::Reshard(_) => replace(&mut rewriter, inst, mesh, bind, planner)?,
            _ => {
                rewriter.copy(inst);
            }
        }
    }
    Ok(rewriter.finish())
}

/// Emits the sequence of one reshard; the last step keeps the name of its result.
fn replace(
    rewriter: &mut Rewriter<'_>,
    inst: Inst,
    mesh: &Mesh,
    bind: &Bindings,
    planner: &mut Planner<'_>,
) -> Result<()> {
    let old = rewriter.old();
    let data = &old.insts[inst];
    let (operand, result) = (data.operands[0], data.results[0]);
    let (ty, target) = (old.ty(operand).clone(), old.values[result].clone());
    let (Some(from), Some(to)) = (old.layout(operand), old.layout(result)) else {
        rewriter.copy(inst);
        return Ok(());
    };
    let dims: Vec<u64> = ty.dims.iter().map(|d| d.eval(bind)).collect();
    let plan = planner.plan(&dims, ty.elem.dtype.bits(), from, to)?;
    let mut value = rewriter.get(operand);
    for (i, step) in plan.steps.iter().enumerate() {
        let last = i + 1 == plan.steps.len();
        let kind = step.op.kind().name();
        let name = if last { target.name.clone() } else { format!("{}.{kind}", target.name) };
        let sharding = Some(Sharding::decided(step.out.clone()));
        value = rewriter.emit(&name, collective(&step.op), vec![value], ty.clone(), sharding);
    }
    debug_assert!(plan.steps.last().is_none_or(|s| s.out.same_placement(to, mesh)));
    rewriter.bind(result, value);
    Ok(())
}

/// The operator of a planned step.
fn collective(op: &reshard::Op) -> Op {
    let lists = |axes: &[Vec<AxisRef>]| axes.iter().cloned().map(AxisList).collect();
    match op {
        reshard::Op::AllGather { axes } => Op::AllGather(AllGather { axes: lists(axes) }),
        reshard::Op::AllSlice { axes } => Op::AllSlice(AllSlice { axes: lists(axes) }),
        reshard::Op::AllReduce { kind, axes } => {
            Op::AllReduce(AllReduce { kind: *kind, axes: AxisList(axes.clone()) })
        }
        reshard::Op::ReduceScatter { kind, axes } => {
            Op::ReduceScatter(ReduceScatter { kind: *kind, axes: lists(axes) })
        }
        reshard::Op::AllToAll { moves } => {
            let one = |m: &reshard::AxisMove| Move { axes: m.axes.clone(), src: m.src, tgt: m.tgt };
            Op::AllToAll(AllToAll { moves: moves.iter().map(one).collect() })
        }
        reshard::Op::CollectivePermute => Op::CollectivePermute(CollectivePermute {}),
    }
}
