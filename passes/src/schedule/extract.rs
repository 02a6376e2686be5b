//! From a program at sharded level back to the schedule that it follows.

use super::{FuncSchedule, Schedule};
use crate::codes;
use crate::precondition;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::flow;
use shardc_ir::graph::{Def, Func, Inst, Level, Module, Value};
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use std::collections::BTreeMap;

/// The schedule of `sharded`, into which passes have brought `logical`.
///
/// # Errors
/// `S101` at another level, `S104` where the program is no lowering of `logical` operator by
/// operator.
pub fn extract(logical: &Module, sharded: &Module) -> Result<Schedule> {
    precondition::level(sharded, "extract-schedule", Level::Sharded)?;
    let mesh = precondition::mesh(sharded, "extract-schedule")?;
    let mut out = Schedule::empty(mesh.clone());
    for func in logical.funcs.values() {
        let Some(id) = sharded.func(&func.name) else { continue };
        let pair = Pair { func, sharded: &sharded.funcs[id], mesh: &mesh };
        out.funcs.insert(func.name.clone(), pair.decisions()?);
    }
    Ok(out)
}

/// A function before and after.
struct Pair<'a> {
    func: &'a Func,
    sharded: &'a Func,
    mesh: &'a Mesh,
}

impl Pair<'_> {
    fn decisions(&self) -> Result<FuncSchedule> {
        let mut out = FuncSchedule::default();
        for (&old, &new) in self.func.params.iter().zip(&self.sharded.params) {
            out.params.insert(old, self.layout(new));
        }
        let makers = self.makers();
        for &inst in &self.func.body {
            let data = &self.func.insts[inst];
            let name = data.results.first().map_or("", |&v| self.func.values[v].name.as_str());
            let Some(&made) = makers.get(name) else {
                return Err(self.refused(name, "it is not in the program"));
            };
            self.operator(inst, made, &mut out)?;
        }
        Ok(out)
    }

    fn layout(&self, new: Value) -> Layout {
        let rank = self.sharded.ty(new).rank();
        let found = self.sharded.layout(new).cloned();
        found.unwrap_or_else(|| Layout::replicated(rank)).normalise(self.mesh)
    }

    /// Instructions of the program that are not moves, by the name of what they compute.
    fn makers(&self) -> BTreeMap<&str, Inst> {
        let made = |&inst: &Inst| {
            let result = self.sharded.insts[inst].results.first()?;
            (!self.is_move(inst)).then(|| (self.sharded.values[*result].name.as_str(), inst))
        };
        self.sharded.body.iter().filter_map(made).collect()
    }

    fn is_move(&self, inst: Inst) -> bool {
        matches!(self.sharded.insts[inst].op, Op::Reshard(_) | Op::ToPartial(_))
    }

    fn operator(&self, inst: Inst, made: Inst, out: &mut FuncSchedule) -> Result<()> {
        let (old, new) = (&self.func.insts[inst], &self.sharded.insts[made]);
        for (position, &operand) in new.operands.iter().enumerate() {
            let way = self.way(operand);
            if !way.is_empty() {
                out.ways.insert((inst, position), way);
            }
        }
        let types = (self.func.operand_types(inst), self.func.result_types(inst));
        let (Some(rule), false) =
            (old.op.rule(&types.0, &types.1), matches!(old.op, Op::Repeat(_)))
        else {
            return Ok(());
        };
        let layouts = |values: &[Value]| values.iter().map(|&v| self.layout(v)).collect();
        let (operands, results): (Vec<Layout>, Vec<Layout>) =
            (layouts(&new.operands), layouts(&new.results));
        let (operands, results): (Vec<&Layout>, Vec<&Layout>) =
            (operands.iter().collect(), results.iter().collect());
        let found = flow::assign(&rule, self.mesh, &operands, &results).map_err(|e| {
            let name = old.results.first().map_or("", |&v| self.func.values[v].name.as_str());
            self.refused(name, &e.describe(&rule, self.mesh))
        })?;
        out.assignments.insert(inst, found);
        Ok(())
    }

    /// The layouts of the moves that end in a value, first to last.
    fn way(&self, mut value: Value) -> Vec<Layout> {
        let mut way = Vec::new();
        while let Def::Result(inst, _) = self.sharded.values[value].def {
            if !self.is_move(inst) {
                break;
            }
            // Making a value pend begins where the move before it ends: one layout says both.
            way.push(self.layout(value));
            value = self.sharded.insts[inst].operands[0];
        }
        way.reverse();
        way
    }

    fn refused(&self, name: &str, cause: &str) -> Box<Diagnostic> {
        let message = format!("%{name} in @{} has no schedule: {cause}", self.func.name);
        Box::new(Diagnostic::error(codes::NO_ASSIGNMENT, message))
    }
}
