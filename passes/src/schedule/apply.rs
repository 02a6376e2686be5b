//! `apply-schedule`: from a logical program and a schedule to sharded level.

use super::{FuncSchedule, Schedule};
use crate::codes;
use crate::precondition;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::flow::{self, Assignment};
use shardc_ir::graph::{Func, FuncId, Inst, InstData, Level, Module, Value};
use shardc_ir::layers::Interface;
use shardc_ir::layout::{Layout, Partial, ReduceKind, Sharding, axes};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;
use shardc_ir::ops::placement::Reshard;
use shardc_ir::rewrite::Rewriter;
use shardc_ir::rule::{PartialRule, Rule};

/// Brings a logical module to sharded level as a schedule says: one reshard for every step of a way.
///
/// # Errors
/// `S101` at another level, `S104` where an assignment does not fit what its operands bring.
pub fn apply_schedule(module: &mut Module, schedule: &Schedule) -> Result<()> {
    precondition::level(module, "apply-schedule", Level::Logical)?;
    module.mesh = Some(schedule.mesh.clone());
    let nothing = FuncSchedule::default();
    for id in module.funcs.keys().collect::<Vec<_>>() {
        let decisions = schedule.funcs.get(&module.funcs[id].name).unwrap_or(&nothing);
        let func = rebuild(module, id, decisions, &schedule.mesh)?;
        module.funcs[id] = func;
    }
    module.level = Level::Sharded;
    Ok(())
}

fn rebuild(module: &Module, id: FuncId, decisions: &FuncSchedule, mesh: &Mesh) -> Result<Func> {
    let func = &module.funcs[id];
    let mut applier =
        Applier { module, decisions, mesh, rewriter: Rewriter::new(func), done: Vec::new() };
    applier.enter(func);
    for &inst in &func.body {
        match &func.insts[inst].op {
            Op::Repeat(repeat) => {
                let interface = Interface::of(module, repeat)
                    .map_err(|e| Box::new(Diagnostic::error(codes::PRECONDITION, e)))?;
                applier.repeat(inst, &interface);
            }
            _ => applier.operator(inst)?,
        }
    }
    applier.leave(func);
    Ok(applier.rewriter.finish())
}

struct Applier<'a> {
    module: &'a Module,
    decisions: &'a FuncSchedule,
    mesh: &'a Mesh,
    rewriter: Rewriter<'a>,
    /// Moves made so far: value, layout, moved value.
    done: Vec<(Value, Layout, Value)>,
}

impl Applier<'_> {
    fn layout(&self, new: Value) -> Layout {
        let func = self.rewriter.new_func();
        func.layout(new).cloned().unwrap_or_else(|| Layout::replicated(func.ty(new).rank()))
    }

    fn set_layout(&mut self, new: Value, layout: Layout) {
        let sharding = Sharding::decided(layout.normalise(self.mesh));
        self.rewriter.new_func_mut().values[new].sharding = Some(sharding);
    }

    /// Parameters lie as decided; what `repeat` takes slices of lies as its layers want it.
    fn enter(&mut self, func: &Func) {
        for &param in &func.params {
            let rank = func.ty(param).rank();
            let decided = self.decisions.params.get(&param).cloned();
            let new = self.rewriter.get(param);
            self.set_layout(new, decided.unwrap_or_else(|| Layout::replicated(rank)));
        }
        for inst in func.body.iter().map(|&i| &func.insts[i]) {
            let Op::Repeat(repeat) = &inst.op else { continue };
            let Ok(interface) = Interface::of(self.module, repeat) else { continue };
            for (&operand, slot) in inst.operands.iter().zip(&interface.operands) {
                let layout = slot.outer_layout(self.module).filter(|_| slot.stacked.is_some());
                if let Some(layout) = layout.filter(|_| func.params.contains(&operand)) {
                    let new = self.rewriter.get(operand);
                    self.set_layout(new, layout);
                }
            }
        }
    }

    /// `value` in a layout.
    fn moved(&mut self, value: Value, target: Layout) -> Value {
        let target = target.normalise(self.mesh);
        if self.layout(value).normalise(self.mesh) == target {
            return value;
        }
        let known = self.done.iter().find(|(v, l, _)| *v == value && *l == target);
        if let Some((_, _, moved)) = known {
            return *moved;
        }
        let data = &self.rewriter.new_func().values[value];
        let base = data.name.strip_suffix(".moved").unwrap_or(&data.name);
        let (name, ty) = (format!("{base}.moved"), data.ty.clone());
        let sharding = Some(Sharding::decided(target.clone()));
        let moved = self.rewriter.emit(&name, Op::Reshard(Reshard {}), vec![value], ty, sharding);
        self.done.push((value, target, moved));
        moved
    }

    /// An operand after the layouts through which it passes.
    fn on_its_way(&mut self, inst: Inst, position: usize, old: Value) -> Value {
        let mut value = self.rewriter.get(old);
        for layout in self.decisions.ways.get(&(inst, position)).into_iter().flatten() {
            value = self.moved(value, layout.clone());
        }
        value
    }

    fn operator(&mut self, inst: Inst) -> Result<()> {
        let old = self.rewriter.old();
        let data = &old.insts[inst];
        let Some(rule) = data.op.rule(&old.operand_types(inst), &old.result_types(inst)) else {
            self.whole(inst, data);
            return Ok(());
        };
        let nothing = Assignment { axes: vec![Vec::new(); rule.factors.len()] };
        let assignment = self.decisions.assignments.get(&inst).unwrap_or(&nothing);
        let values = data.operands.iter().enumerate();
        let values: Vec<Value> = values.map(|(i, &v)| self.on_its_way(inst, i, v)).collect();
        let pending: Vec<Vec<Partial>> = self.pending(&rule, assignment, &values);
        let mut fed = Vec::with_capacity(values.len());
        for (i, (&value, unreduced)) in values.iter().zip(pending).enumerate() {
            let target = Layout { unreduced, ..flow::operand_layout(&rule, assignment, i) };
            fed.push(self.moved(value, target));
        }
        let layouts: Vec<Layout> = fed.iter().map(|&v| self.layout(v)).collect();
        let layouts: Vec<&Layout> = layouts.iter().collect();
        let passed = flow::check(&rule, self.mesh, assignment)
            .and_then(|()| flow::passed_partials(&rule, self.mesh, assignment, &layouts))
            .map_err(|e| {
                let name = data.results.first().map_or("", |&v| &old.values[v].name);
                let cause = e.describe(&rule, self.mesh);
                let message =
                    format!("`{}` for %{name} in @{}: {cause}", data.op.info().name, old.name);
                Box::new(Diagnostic::error(codes::NO_ASSIGNMENT, message))
            })?;
        let new = self.rewriter.copy_with(inst, fed);
        for (i, result) in self.results(new).into_iter().enumerate() {
            self.set_layout(result, flow::result_layout(&rule, assignment, i, &passed));
        }
        Ok(())
    }

    fn results(&self, new: Inst) -> Vec<Value> {
        self.rewriter.new_func().insts[new].results.clone()
    }

    /// What may stay to be reduced on each operand.
    fn pending(&self, rule: &Rule, assignment: &Assignment, values: &[Value]) -> Vec<Vec<Partial>> {
        let layouts: Vec<Layout> =
            values.iter().map(|&v| self.layout(v).normalise(self.mesh)).collect();
        let used: Vec<AxisRef> = assignment.axes.concat();
        let free = |p: &Partial| {
            let split = |a: &AxisRef| used.iter().any(|u| axes::overlap(self.mesh, *a, *u));
            p.kind == ReduceKind::Sum && !p.axes.iter().any(split)
        };
        let stays =
            |i: usize| !layouts[i].unreduced.is_empty() && layouts[i].unreduced.iter().all(free);
        let mut out = vec![Vec::new(); values.len()];
        match &rule.partial {
            PartialRule::Complete => {}
            PartialRule::OneOf(linear) => {
                let first = linear.iter().copied().find(|&i| i < values.len() && stays(i));
                if let Some(i) = first {
                    out[i].clone_from(&layouts[i].unreduced);
                }
            }
            PartialRule::AllAlike => {
                let alike = layouts.iter().all(|l| l.unreduced == layouts[0].unreduced);
                if alike && (0..values.len()).all(stays) {
                    out.iter_mut().for_each(|o| o.clone_from(&layouts[0].unreduced));
                }
            }
        }
        out
    }

    /// An operator without factors works on whole, complete values.
    fn whole(&mut self, inst: Inst, data: &InstData) {
        let values = data.operands.iter().map(|&old| {
            let value = self.rewriter.get(old);
            let rank = self.rewriter.old().ty(old).rank();
            self.moved(value, Layout::replicated(rank))
        });
        let fed = values.collect();
        let new = self.rewriter.copy_with(inst, fed);
        for result in self.results(new) {
            let rank = self.rewriter.new_func().ty(result).rank();
            self.set_layout(result, Layout::replicated(rank));
        }
    }

    /// Operands of `repeat` arrive, and results leave, as the layer functions have them.
    fn repeat(&mut self, inst: Inst, interface: &Interface) {
        let data = &self.rewriter.old().insts[inst];
        let mut fed = Vec::new();
        for (i, (&old, slot)) in data.operands.iter().zip(&interface.operands).enumerate() {
            let value = self.on_its_way(inst, i, old);
            fed.push(match slot.outer_layout(self.module) {
                Some(layout) => self.moved(value, layout),
                None => value,
            });
        }
        let new = self.rewriter.copy_with(inst, fed);
        for (result, slot) in self.results(new).into_iter().zip(&interface.results) {
            if let Some(layout) = slot.outer_layout(self.module) {
                self.set_layout(result, layout);
            }
        }
    }

    /// What a layer carries and every cache leaves as it entered; all else leaves complete.
    fn leave(&mut self, func: &Func) {
        let signature = func.layer_signature();
        let carried = signature.carried.len();
        let is_layer = !func.insts.values().any(|i| matches!(i.op, Op::Repeat(_)));
        for (i, &old) in func.returns.iter().enumerate() {
            let entry = match i.checked_sub(carried) {
                None => signature.carried.get(i).filter(|_| is_layer),
                Some(cache) => signature.caches.get(cache),
            };
            let value = self.rewriter.get(old);
            let same = entry.filter(|&&p| func.ty(p) == func.ty(old));
            let target = match same {
                Some(&param) => self.layout(self.rewriter.get(param)),
                None => Layout { unreduced: Vec::new(), ..self.layout(value) },
            };
            let moved = self.moved(value, target);
            self.rewriter.bind(old, moved);
        }
    }
}
