//! The reshards of a program: what moves, how, and the least that would have to.

use super::PhaseView;
use crate::reshard::{Objective, Planner, ReshardPlan};
use crate::reshard_to_collectives::STARTUP;
use shardc_ir::diag::Result;
use shardc_ir::graph::Module;
use shardc_ir::layout::Layout;
use shardc_ir::ops::Op;
use std::collections::BTreeMap;

/// A reshard.
#[derive(Clone, Debug)]
pub struct Moved {
    /// Function that holds it.
    pub func: String,
    /// The value that moves.
    pub value: String,
    /// Executions in a step, all stages together.
    pub times: u64,
    /// Layout before.
    pub from: Layout,
    /// Layout after.
    pub to: Layout,
    /// Its steps, bytes of one device and execution, and the bound on them.
    pub plan: ReshardPlan,
}

/// Every reshard of a phase at the sizes that it is priced at, before neighbouring collectives
/// merge.
///
/// # Errors
/// A reshard that no sequence can do.
pub fn reshards(view: &PhaseView) -> Result<Vec<Moved>> {
    let module = &view.sharded;
    let Some(mesh) = &module.mesh else { return Ok(Vec::new()) };
    let times = executions(module);
    let mut planner = Planner::for_programs(mesh, Objective::PeakThenPrice(&STARTUP));
    let mut out = Vec::new();
    for func in module.funcs.values() {
        let reshards = func.body.iter().map(|&i| &func.insts[i]);
        for data in reshards.filter(|data| matches!(data.op, Op::Reshard(_))) {
            let (operand, result) = (data.operands[0], data.results[0]);
            let (Some(from), Some(to)) = (func.layout(operand), func.layout(result)) else {
                continue;
            };
            let ty = func.ty(operand);
            let extents: Vec<u64> = ty.dims.iter().map(|d| d.eval(&view.global)).collect();
            let mut plan = planner.plan(&extents, ty.elem.dtype.bits(), from, to)?.clone();
            let steps = plan.steps.iter_mut().map(|step| &mut step.wire_bytes);
            for bytes in steps.chain([&mut plan.wire_bytes, &mut plan.lower_bound_bytes]) {
                *bytes = ty.present(*bytes, &view.global);
            }
            out.push(Moved {
                func: func.name.clone(),
                value: func.values[operand].name.clone(),
                times: times.get(func.name.as_str()).copied().unwrap_or(1),
                from: from.clone(),
                to: to.clone(),
                plan,
            });
        }
    }
    Ok(out)
}

/// How often a step runs each layer function.
fn executions(module: &Module) -> BTreeMap<&str, u64> {
    let mut times: BTreeMap<&str, u64> = BTreeMap::new();
    for func in module.funcs.values() {
        for &inst in &func.body {
            if let Op::Repeat(repeat) = &func.insts[inst].op {
                for (name, layers) in repeat.distinct() {
                    *times.entry(name).or_default() += layers;
                }
            }
        }
    }
    times
}
