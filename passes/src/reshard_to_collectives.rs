//! `reshard-to-collectives`: every reshard becomes the sequence of collectives that the reshard
//! planner chooses. Values stay global.

use crate::precondition;
use crate::registry::{Options, Report};
use crate::reshard::{self, Objective, Planner, ReshardPlan, StartupBytes};
use shardc_ir::attr::AxisList;
use shardc_ir::diag::Result;
use shardc_ir::dim::{Bindings, Dim};
use shardc_ir::graph::{Func, Inst, Level, Module};
use shardc_ir::layout::{Layout, Sharding};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;
use shardc_ir::ops::collective::{
    AllGather, AllReduce, AllSlice, AllToAll, CollectivePermute, Move, ReduceScatter,
};
use shardc_ir::rewrite::Rewriter;
use shardc_ir::types::Type;

/// What starting a collective is worth in bytes: some 3 µs at NVLink's 450 GB/s. Without it a
/// reduction would be cut into steps to save a few bytes of padding.
pub(crate) const STARTUP: StartupBytes = StartupBytes(1 << 20);

/// Replaces reshards, comparing sequences at the sizes given; an edit is a reshard.
///
/// # Errors
/// A reshard that no sequence can do.
pub fn reshard_to_collectives(module: &mut Module, options: &Options) -> Result<Report> {
    let mesh = precondition::mesh(module, "reshard-to-collectives")?;
    let bind = module.bind(&options.sizes());
    let mut planner = Planner::for_programs(&mesh, Objective::PeakThenPrice(&STARTUP));
    let mut edits = 0;
    for func in module.funcs.values_mut() {
        let reshards = func.body.iter().filter(|&&i| matches!(func.insts[i].op, Op::Reshard(_)));
        edits += reshards.count() as u64;
        *func = lower(func, &mesh, &bind, &mut planner)?;
    }
    module.level = Level::Collective;
    Ok(Report::of(edits))
}

/// A function with its reshards replaced.
///
/// # Errors
/// A reshard that no sequence can do.
pub(crate) fn lower(
    func: &Func,
    mesh: &Mesh,
    bind: &Bindings,
    planner: &mut Planner<'_>,
) -> Result<Func> {
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
    let plan = plan(planner, mesh, bind, &ty, [from, to])?;
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

/// The sequence between two layouts that is chosen at the given sizes and right at all of them.
///
/// Where a symbol's extent happens to divide, the planner may exchange shards whose sizes differ at
/// other extents. It is then asked again at extents close by that do not divide, and at last to gather
/// those dimensions on the way.
fn plan(
    planner: &mut Planner<'_>,
    mesh: &Mesh,
    bind: &Bindings,
    ty: &Type,
    [from, to]: [&Layout; 2],
) -> Result<ReshardPlan> {
    let bits = ty.elem.dtype.bits();
    let at = |less: u64| -> Vec<u64> {
        let extent = |d: &Dim| match d.symbol() {
            Some(_) => d.eval(bind).saturating_sub(less).max(1),
            None => d.eval(bind),
        };
        ty.dims.iter().map(extent).collect()
    };
    for less in 0..=NEARBY {
        let plan = planner.plan(&at(less), bits, from, to)?;
        if suits_every_size(plan, mesh, &ty.dims, from) {
            return Ok(plan.clone());
        }
    }
    let mut between = to.clone();
    for (axes, extent) in between.dims.iter_mut().zip(&ty.dims) {
        if extent.symbol().is_some() {
            axes.clear();
        }
    }
    let mut plan = planner.plan(&at(0), bits, from, &between)?.clone();
    plan.steps.extend(planner.plan(&at(0), bits, &between, to)?.steps.clone());
    Ok(plan)
}

/// Extents tried below a given one: enough to meet every remainder of small groups.
const NEARBY: u64 = 12;

/// Whether every step does what it says whatever the symbols stand for.
fn suits_every_size(plan: &ReshardPlan, mesh: &Mesh, dims: &[Dim], from: &Layout) -> bool {
    let sure: Vec<u64> = dims.iter().map(|d| d.known_factor()).collect();
    let mut before = from;
    for step in &plan.steps {
        let permutes = step.op == reshard::Op::CollectivePermute;
        if permutes && !keeps_parts(mesh, dims, &sure, [before, &step.out]) {
            return false;
        }
        if step.out.check_dims(mesh, &sure).is_err() {
            return false;
        }
        before = &step.out;
    }
    true
}

/// Whether a permute leaves every dimension of symbolic extent cut into the same parts.
fn keeps_parts(mesh: &Mesh, dims: &[Dim], sure: &[u64], [a, b]: [&Layout; 2]) -> bool {
    (0..dims.len()).filter(|&d| dims[d].symbol().is_some()).all(|d| {
        let sizes = |l: &Layout| l.digits(mesh, d).iter().map(|x| x.size).collect::<Vec<_>>();
        sizes(a) == sizes(b) || sure[d].is_multiple_of(a.sharded_factor(mesh, d))
    })
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
