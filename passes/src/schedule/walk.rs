//! The walk through one function that applies decisions, defaults where there are none.

use super::FuncSchedule;
use crate::codes;
use crate::offers::Offers;
use shardc_ir::attr::AxisList;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::flow::{self, Assignment};
use shardc_ir::graph::{Func, FuncId, Inst, InstData, Module, Value};
use shardc_ir::layers::Interface;
use shardc_ir::layout::{Layout, Partial, ReduceKind, Sharding, axes};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;
use shardc_ir::ops::placement::{Reshard, ToPartial};
use shardc_ir::rewrite::Rewriter;
use shardc_ir::rule::{PartialRule, Rule};
use std::collections::BTreeMap;

/// What an operator does that no decision names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// It splits nothing.
    Whole,
    /// It splits what its operands offer.
    Follow,
}

/// What was decided on the way through the functions, by name.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// All of it.
    pub full: BTreeMap<String, FuncSchedule>,
    /// What is not a default.
    pub stated: BTreeMap<String, FuncSchedule>,
    /// The last layout of parameters that are not stored, by name.
    entered: BTreeMap<String, Layout>,
}

/// One function on its way to sharded level.
pub(super) struct Walk<'a> {
    module: &'a Module,
    mesh: &'a Mesh,
    decided: &'a FuncSchedule,
    /// Parameters that are decided elsewhere.
    given: &'a FuncSchedule,
    rest: Rest,
    rewriter: Rewriter<'a>,
    /// Moves made so far: value, layout, moved value.
    done: Vec<(Value, Layout, Value)>,
    /// Weights and caches that nobody has read, by their new value.
    unread: BTreeMap<Value, Value>,
    full: FuncSchedule,
    stated: FuncSchedule,
}

impl<'a> Walk<'a> {
    /// A walk through a function by what is decided of it, and of its parameters elsewhere.
    pub fn new(
        module: &'a Module,
        id: FuncId,
        mesh: &'a Mesh,
        (decided, given): (&'a FuncSchedule, &'a FuncSchedule),
        rest: Rest,
    ) -> Self {
        Walk {
            module,
            mesh,
            decided,
            given,
            rest,
            rewriter: Rewriter::new(&module.funcs[id]),
            done: Vec::new(),
            unread: BTreeMap::new(),
            full: FuncSchedule::default(),
            stated: FuncSchedule::default(),
        }
    }

    /// The function at sharded level; what was decided goes into `trace`.
    pub fn run(mut self, trace: &mut Trace) -> Result<Func> {
        let func = self.rewriter.old();
        self.enter(func, trace);
        for &inst in &func.body {
            match &func.insts[inst].op {
                Op::Repeat(repeat) => {
                    let interface = Interface::of(self.module, repeat)
                        .map_err(|e| Box::new(Diagnostic::error(codes::PRECONDITION, e)))?;
                    self.repeat(inst, &interface);
                }
                _ => self.operator(inst)?,
            }
        }
        self.leave(func);
        for (&new, &old) in &self.unread {
            let layout = self.layout(new);
            if !layout.is_replicated() && !self.given.params.contains_key(&old) {
                self.stated.params.insert(old, layout);
            }
        }
        trace.full.insert(func.name.clone(), self.full);
        trace.stated.insert(func.name.clone(), self.stated);
        Ok(self.rewriter.finish())
    }

    fn layout(&self, new: Value) -> Layout {
        let func = self.rewriter.new_func();
        func.layout(new).cloned().unwrap_or_else(|| Layout::replicated(func.ty(new).rank()))
    }

    fn set_layout(&mut self, new: Value, layout: Layout) {
        let sharding = Sharding::decided(layout.normalise(self.mesh));
        self.rewriter.new_func_mut().values[new].sharding = Some(sharding);
    }

    /// Parameters lie as decided; what `repeat` takes slices of lies as its layers want it.
    fn enter(&mut self, func: &Func, trace: &mut Trace) {
        for &param in &func.params {
            let ty = func.ty(param);
            let name = &func.values[param].name;
            let new = self.rewriter.get(param);
            let before = trace.entered.get(name).filter(|l| l.dims.len() == ty.rank());
            let default = match (self.rest, before) {
                (Rest::Follow, Some(before)) if !ty.kind.is_stored() => before.clone(),
                _ => Layout::replicated(ty.rank()),
            };
            let layout = self.decided.params.get(&param).unwrap_or(&default).normalise(self.mesh);
            self.set_layout(new, layout.clone());
            if ty.kind.is_stored() {
                self.unread.insert(new, param);
            } else {
                let default = before.cloned().unwrap_or_else(|| Layout::replicated(ty.rank()));
                if layout != default {
                    self.stated.params.insert(param, layout.clone());
                }
                trace.entered.insert(name.clone(), layout.clone());
            }
            self.full.params.insert(param, layout);
        }
        self.enter_stacks(func);
    }

    fn enter_stacks(&mut self, func: &Func) {
        for inst in func.body.iter().map(|&i| &func.insts[i]) {
            let Op::Repeat(repeat) = &inst.op else { continue };
            let Ok(interface) = Interface::of(self.module, repeat) else { continue };
            for (&operand, slot) in inst.operands.iter().zip(&interface.operands) {
                let layout = slot.outer_layout(self.module).filter(|_| slot.stacked.is_some());
                if let Some(layout) = layout.filter(|_| func.params.contains(&operand)) {
                    let new = self.rewriter.get(operand);
                    self.unread.remove(&new);
                    self.full.params.insert(operand, layout.normalise(self.mesh));
                    self.set_layout(new, layout);
                }
            }
        }
    }

    /// `value` in a layout.
    fn moved(&mut self, value: Value, target: Layout) -> Value {
        let target = target.normalise(self.mesh);
        let now = self.layout(value).normalise(self.mesh);
        if now == target {
            return value;
        }
        let known = self.done.iter().find(|(v, l, _)| *v == value && *l == target);
        if let Some((_, _, moved)) = known {
            return *moved;
        }
        let pending = axes::subtract(self.mesh, &target.unreduced_axes(), &now.unreduced_axes());
        let sums = target.unreduced.iter().all(|p| p.kind == ReduceKind::Sum);
        let moved = match pending.is_empty() || !sums {
            true => self.emit(value, Op::Reshard(Reshard {}), "moved", &target),
            false => {
                let complete = target.clone().without_pending(self.mesh, &pending);
                let source = self.moved(value, complete.without_axes(self.mesh, &pending));
                let op = Op::ToPartial(ToPartial { axes: AxisList(pending) });
                self.emit(source, op, "partial", &target)
            }
        };
        self.done.push((value, target, moved));
        moved
    }

    fn emit(&mut self, source: Value, op: Op, suffix: &str, target: &Layout) -> Value {
        let data = &self.rewriter.new_func().values[source];
        let base = data.name.strip_suffix(".moved").unwrap_or(&data.name);
        let (name, ty) = (format!("{base}.{suffix}"), data.ty.clone());
        let sharding = Some(Sharding::decided(target.clone()));
        self.rewriter.emit(&name, op, vec![source], ty, sharding)
    }

    /// An operand after the layouts through which it passes.
    fn on_its_way(&mut self, inst: Inst, position: usize, old: Value) -> Value {
        let mut value = self.rewriter.get(old);
        for layout in self.decided.ways.get(&(inst, position)).into_iter().flatten() {
            value = self.moved(value, layout.clone());
        }
        value
    }

    fn operator(&mut self, inst: Inst) -> Result<()> {
        let old = self.rewriter.old();
        let data = &old.insts[inst];
        let Some(rule) = old.rule(inst) else {
            self.whole(inst, data);
            return Ok(());
        };
        let starts: Vec<Value> = data.operands.iter().map(|&v| self.rewriter.get(v)).collect();
        let values = data.operands.iter().enumerate();
        let values: Vec<Value> = values.map(|(i, &v)| self.on_its_way(inst, i, v)).collect();
        let assignment = self.assignment(inst, &rule, &starts);
        let targets = self.targets(&rule, &assignment, &values);
        self.keep_ways(inst, (&rule, &assignment), &starts, &targets);
        let pairs = values.iter().zip(&targets);
        let fed: Vec<Value> = pairs.map(|(&v, target)| self.moved(v, target.clone())).collect();
        let layouts: Vec<Layout> = fed.iter().map(|&v| self.layout(v)).collect();
        let layouts: Vec<&Layout> = layouts.iter().collect();
        let passed = flow::check(&rule, self.mesh, &assignment)
            .and_then(|()| flow::passed_partials(&rule, self.mesh, &assignment, &layouts))
            .map_err(|e| {
                let name = data.results.first().map_or("", |&v| &old.values[v].name);
                let cause = e.describe(&rule, self.mesh);
                let message =
                    format!("`{}` for %{name} in @{}: {cause}", data.op.info().name, old.name);
                Box::new(Diagnostic::error(codes::NO_ASSIGNMENT, message))
            })?;
        let new = self.rewriter.copy_with(inst, fed);
        for (i, result) in self.results(new).into_iter().enumerate() {
            self.set_layout(result, flow::result_layout(&rule, &assignment, i, &passed));
        }
        Ok(())
    }

    fn results(&self, new: Inst) -> Vec<Value> {
        self.rewriter.new_func().insts[new].results.clone()
    }

    /// The assignment that is decided for an operator, or its default from its operands before they
    /// move; weights and caches that it is the first to read lie accordingly where nothing else is
    /// decided.
    fn assignment(&mut self, inst: Inst, rule: &Rule, values: &[Value]) -> Assignment {
        let nothing = Assignment { axes: vec![Vec::new(); rule.factors.len()] };
        let first: Vec<Option<Value>> = values.iter().map(|v| self.unread.remove(v)).collect();
        let is_open = |w: &Self, i: usize, as_read: &dyn Fn(usize) -> bool| {
            let Some(param) = first[i] else { return false };
            let given = w.given.params.contains_key(&param);
            let waits = w.decided.ways.get(&(inst, i)).is_none_or(Vec::is_empty);
            waits && !given && (!w.is_decided(param) || as_read(i))
        };
        let decided = match (self.decided.assignments.get(&inst), self.rest) {
            (Some(decided), _) => Some(decided.clone()),
            (None, Rest::Whole) => Some(nothing),
            (None, Rest::Follow) => None,
        };
        let lies = |w: &Self, a: &Assignment, i: usize| {
            w.layout(values[i]) == flow::operand_layout(rule, a, i).normalise(w.mesh)
        };
        let open: Vec<bool> = (0..values.len())
            .map(|i| {
                let as_read = |i: usize| decided.as_ref().is_some_and(|a| lies(self, a, i));
                is_open(self, i, &as_read)
            })
            .collect();
        let default = self.follow(rule, values, &open);
        let assignment = decided.map_or_else(|| default.clone(), |a| self.normal(&a));
        if assignment != default {
            self.stated.assignments.insert(inst, assignment.clone());
        }
        for (i, param) in first.iter().enumerate().filter_map(|(i, p)| Some((i, (*p)?))) {
            let decided = self.is_decided(param);
            if open[i] && !decided {
                let layout = flow::operand_layout(rule, &assignment, i).normalise(self.mesh);
                self.full.params.insert(param, layout.clone());
                self.set_layout(values[i], layout);
            } else if !open[i] && decided && !self.given.params.contains_key(&param) {
                self.stated.params.insert(param, self.layout(self.rewriter.get(param)));
            }
        }
        self.full.assignments.insert(inst, assignment.clone());
        assignment
    }

    /// Whether the layout of a parameter is not for its readers to say.
    fn is_decided(&self, param: Value) -> bool {
        self.rest == Rest::Whole || self.decided.params.contains_key(&param)
    }

    fn normal(&self, assignment: &Assignment) -> Assignment {
        let axes = assignment.axes.iter().map(|list| axes::normalise(self.mesh, list));
        Assignment { axes: axes.collect() }
    }

    /// What operands offer an operator, those that are `open` left out.
    fn follow(&self, rule: &Rule, values: &[Value], open: &[bool]) -> Assignment {
        let func = self.rewriter.new_func();
        let stored = |i: &usize| func.ty(values[*i]).kind.is_stored();
        let (kept, fed): (Vec<usize>, Vec<usize>) = (0..values.len()).partition(stored);
        let mut offers = Offers::new(rule, self.mesh);
        for i in fed.into_iter().chain(kept).filter(|&i| !open[i]) {
            offers.offer(&rule.operands[i], &self.layout(values[i]));
        }
        self.normal(&offers.assignment)
    }

    /// The layouts in which an operator takes values.
    fn targets(&self, rule: &Rule, assignment: &Assignment, values: &[Value]) -> Vec<Layout> {
        let layouts: Vec<Layout> =
            values.iter().map(|&v| self.layout(v).normalise(self.mesh)).collect();
        let pending = self.pending(rule, assignment, &layouts).into_iter().enumerate();
        let target = |(i, unreduced)| {
            let layout = flow::operand_layout(rule, assignment, i);
            Layout { unreduced, ..layout }.normalise(self.mesh)
        };
        pending.map(target).collect()
    }

    /// Notes the ways of an operator's operands, and which of their layouts must be stated.
    fn keep_ways(
        &mut self,
        inst: Inst,
        (rule, assignment): (&Rule, &Assignment),
        starts: &[Value],
        targets: &[Layout],
    ) {
        let by_default = self.targets(rule, assignment, starts);
        for (position, target) in targets.iter().enumerate() {
            let alike = by_default[position] == *target;
            self.keep_way((inst, position), target, alike);
        }
    }

    /// A way whose last layout follows from what its reader wants need not state it.
    fn keep_way(&mut self, at: (Inst, usize), target: &Layout, alike: bool) {
        let Some(way) = self.decided.ways.get(&at).filter(|way| !way.is_empty()) else { return };
        let way: Vec<Layout> = way.iter().map(|l| l.normalise(self.mesh)).collect();
        let direct = alike && way.iter().all(|l| l == target);
        if !direct {
            self.stated.ways.insert(at, way.clone());
        }
        self.full.ways.insert(at, way);
    }

    /// What may stay to be reduced on each operand.
    fn pending(
        &self,
        rule: &Rule,
        assignment: &Assignment,
        layouts: &[Layout],
    ) -> Vec<Vec<Partial>> {
        let used: Vec<AxisRef> = assignment.axes.concat();
        let free = |p: &Partial| {
            let split = |a: &AxisRef| used.iter().any(|u| axes::overlap(self.mesh, *a, *u));
            p.kind == ReduceKind::Sum && !p.axes.iter().any(split)
        };
        let stays =
            |i: usize| !layouts[i].unreduced.is_empty() && layouts[i].unreduced.iter().all(free);
        let mut out = vec![Vec::new(); layouts.len()];
        match &rule.partial {
            PartialRule::Complete => {}
            PartialRule::OneOf(linear) => {
                let first = linear.iter().copied().find(|&i| i < layouts.len() && stays(i));
                if let Some(i) = first {
                    out[i].clone_from(&layouts[i].unreduced);
                }
            }
            PartialRule::AllAlike => {
                let alike = layouts.iter().all(|l| l.unreduced == layouts[0].unreduced);
                if alike && (0..layouts.len()).all(stays) {
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
                Some(layout) => {
                    let target = layout.normalise(self.mesh);
                    self.keep_way((inst, i), &target, true);
                    self.moved(value, target)
                }
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
