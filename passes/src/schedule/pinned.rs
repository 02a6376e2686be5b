//! A schedule with other layouts of some values: what else a plan could be told.

use super::{FuncSchedule, Schedule};
use crate::codes;
use crate::strategy::Pin;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::flow::{self, Assignment, Side};
use shardc_ir::graph::{Def, Func, Inst, Module, Value};
use shardc_ir::layout::{Layout, axes};
use shardc_ir::mesh::Mesh;
use shardc_ir::rule::FactorKind;

/// The schedule in which every value that a pin means has its layout: a parameter enters so, an
/// operator splits what leaves its result so, and the result goes directly to who reads it. What an
/// operator sums over stays split as far as axes are free. Parameters of other ranks are left alone.
///
/// # Errors
/// `S104` where no assignment of the operator leaves its result in that layout.
pub fn pinned(schedule: &Schedule, module: &Module, pins: &[Pin]) -> Result<Schedule> {
    let mut out = schedule.clone();
    for func in module.funcs.values() {
        let mut decided = out.funcs.remove(&func.name).unwrap_or_default();
        for pin in pins {
            let meant = func.values.iter().filter(|(_, data)| {
                pin.matches(&func.name, &data.name) && data.ty.rank() == pin.layout.dims.len()
            });
            for (value, data) in meant {
                match data.def {
                    Def::Param(_) => {
                        decided.params.insert(value, pin.layout.clone());
                    }
                    Def::Result(inst, at) => {
                        let here = Here { func, mesh: &schedule.mesh, inst, value };
                        here.pin(&pin.layout, at, &mut decided)?;
                    }
                }
            }
        }
        out.funcs.insert(func.name.clone(), decided);
    }
    Ok(out)
}

/// An operator whose result is pinned.
struct Here<'a> {
    func: &'a Func,
    mesh: &'a Mesh,
    inst: Inst,
    value: Value,
}

impl Here<'_> {
    fn pin(&self, layout: &Layout, result: usize, decided: &mut FuncSchedule) -> Result<()> {
        let assignment = self.assignment(layout, result, decided)?;
        decided.assignments.insert(self.inst, assignment);
        decided.ways.retain(|&(reader, position), _| {
            let taken = self.func.insts[reader].operands.get(position);
            reader != self.inst && taken != Some(&self.value)
        });
        Ok(())
    }

    fn assignment(
        &self,
        layout: &Layout,
        result: usize,
        decided: &FuncSchedule,
    ) -> Result<Assignment> {
        let Some(rule) = self.func.rule(self.inst) else {
            return Err(self.refused("it works on whole values"));
        };
        let mut out = Assignment { axes: vec![Vec::new(); rule.factors.len()] };
        flow::deal_all(&rule, self.mesh, Side::Result(result), layout, &mut out)
            .map_err(|e| self.refused(&e.describe(&rule, self.mesh)))?;
        let held: Vec<_> = out.axes.concat();
        let before = decided.assignments.get(&self.inst);
        for (factor, data) in rule.factors.iter().enumerate() {
            let FactorKind::Reduction(kind) = data.kind else { continue };
            let asked = layout.pending(kind);
            let kept = before.map_or(Vec::new(), |b| b.axes[factor].clone());
            let wanted = if asked.is_empty() { kept } else { asked };
            let free = |a: &shardc_ir::mesh::AxisRef| {
                !held.iter().any(|h| axes::overlap(self.mesh, *a, *h))
            };
            let kept: Vec<_> = wanted.into_iter().filter(free).collect();
            out.axes[factor] = kept;
        }
        flow::check(&rule, self.mesh, &out)
            .map_err(|e| self.refused(&e.describe(&rule, self.mesh)))?;
        Ok(out)
    }

    fn refused(&self, cause: &str) -> Box<Diagnostic> {
        let (op, name) =
            (self.func.insts[self.inst].op.info().name, &self.func.values[self.value].name);
        let message =
            format!("`{op}` cannot leave %{name} of @{} in that layout: {cause}", self.func.name);
        Box::new(Diagnostic::error(codes::NO_ASSIGNMENT, message))
    }
}
