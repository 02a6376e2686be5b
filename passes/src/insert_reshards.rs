//! `insert-reshards`: every operator gets its operands in layouts that one assignment of axes to
//! factors admits, and every value ends in its own layout.
//!
//! Partial sums stay partial until an operator needs them complete, so that a reduction stands as
//! late, and as small, as linearity allows.

use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::flow::{self, Assignment, Side};
use shardc_ir::graph::{Func, FuncId, Inst, InstData, Level, Module, Value};
use shardc_ir::layers::Interface;
use shardc_ir::layout::{Layout, Partial, ReduceKind, Sharding, axes};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;
use shardc_ir::ops::placement::Reshard;
use shardc_ir::rewrite::Rewriter;
use shardc_ir::rule::{DimFactors, FactorId, FactorKind, PartialRule, Rule};
use shardc_ir::types::Kind;

/// Brings a propagated logical module to sharded level.
///
/// # Errors
/// `S101` where a value has no layout.
pub fn insert_reshards(module: &mut Module) -> Result<()> {
    let mesh = crate::precondition::mesh(module, "insert-reshards")?;
    crate::precondition::all_decided(module, "insert-reshards")?;
    for id in module.funcs.keys().collect::<Vec<_>>() {
        let func = rebuild(module, id, &mesh)?;
        module.funcs[id] = func;
    }
    module.level = Level::Sharded;
    Ok(())
}

fn rebuild(module: &Module, id: FuncId, mesh: &Mesh) -> Result<Func> {
    let func = &module.funcs[id];
    let mut pass = Inserter { rewriter: Rewriter::new(func), mesh, done: Vec::new() };
    for &inst in &func.body {
        let data = &func.insts[inst];
        match &data.op {
            Op::Constraint(_) => pass.constraint(data),
            Op::Repeat(repeat) => {
                let interface = Interface::of(module, repeat)
                    .map_err(|e| Box::new(Diagnostic::error(codes::PRECONDITION, e)))?;
                pass.repeat(module, inst, &interface);
            }
            _ => pass.operator(inst)?,
        }
    }
    pass.finish_returns(func);
    Ok(pass.rewriter.finish())
}

struct Inserter<'a> {
    rewriter: Rewriter<'a>,
    mesh: &'a Mesh,
    /// Reshards made so far: (value, target layout, result), so that no value is moved twice.
    done: Vec<(Value, Layout, Value)>,
}

impl Inserter<'_> {
    fn layout(&self, new: Value) -> Layout {
        let func = self.rewriter.new_func();
        func.layout(new).cloned().unwrap_or_else(|| Layout::replicated(func.ty(new).rank()))
    }

    /// `value` in layout `target`.
    fn moved(&mut self, value: Value, target: Layout) -> Value {
        let target = target.normalise(self.mesh);
        if self.layout(value).normalise(self.mesh) == target {
            return value;
        }
        let known = self.done.iter().find(|(v, l, _)| *v == value && *l == target);
        if let Some((_, _, result)) = known {
            return *result;
        }
        let data = &self.rewriter.new_func().values[value];
        let (name, ty) = (format!("{}.moved", data.name), data.ty.clone());
        let sharding = Some(Sharding::decided(target.clone()));
        let result = self.rewriter.emit(&name, Op::Reshard(Reshard {}), vec![value], ty, sharding);
        self.done.push((value, target, result));
        result
    }

    /// A constraint becomes the layout of what it names.
    fn constraint(&mut self, data: &InstData) {
        let target = self.rewriter.old().layout(data.results[0]).cloned();
        let operand = self.rewriter.get(data.operands[0]);
        let target = target.unwrap_or_else(|| self.layout(operand));
        let moved = self.moved(operand, target);
        self.rewriter.bind(data.results[0], moved);
    }

    /// Operands of `repeat` arrive, and results leave, as the layer functions have them.
    fn repeat(&mut self, module: &Module, inst: Inst, interface: &Interface) {
        let old = self.rewriter.old();
        let data = &old.insts[inst];
        let operands = data.operands.iter().zip(&interface.operands).map(|(&v, slot)| {
            let value = self.rewriter.get(v);
            match slot.outer_layout(module) {
                Some(layout) => self.moved(value, layout),
                None => value,
            }
        });
        let operands = operands.collect();
        let new = self.rewriter.copy_with(inst, operands);
        let results = self.rewriter.new_func().insts[new].results.clone();
        for ((&old_result, result), slot) in
            data.results.iter().zip(results).zip(&interface.results)
        {
            let Some(produced) = slot.outer_layout(module) else { continue };
            let wanted = self.layout(result);
            self.set_layout(result, produced);
            let moved = self.moved(result, wanted);
            self.rewriter.bind(old_result, moved);
        }
    }

    fn set_layout(&mut self, value: Value, layout: Layout) {
        self.rewriter.new_func_mut().values[value].sharding = Some(Sharding::decided(layout));
    }

    /// Any operator with a rule; those without keep the layouts they were given.
    fn operator(&mut self, inst: Inst) -> Result<()> {
        let old = self.rewriter.old();
        let data = &old.insts[inst];
        let Some(rule) = data.op.rule(&old.operand_types(inst), &old.result_types(inst)) else {
            self.rewriter.copy(inst);
            return Ok(());
        };
        let operands: Vec<Value> = data.operands.iter().map(|&v| self.rewriter.get(v)).collect();
        let assignment = self.choose(&rule, data, &operands);
        let operands = self.feed(&rule, &assignment, &operands);
        let layouts: Vec<Layout> = operands.iter().map(|&v| self.layout(v)).collect();
        let layouts: Vec<&Layout> = layouts.iter().collect();
        let passed = flow::passed_partials(&rule, self.mesh, &assignment, &layouts)
            .map_err(|e| self.no_assignment(inst, &e.describe(&rule, self.mesh)))?;
        let new = self.rewriter.copy_with(inst, operands);
        let results = self.rewriter.new_func().insts[new].results.clone();
        for (i, (&old_result, result)) in data.results.iter().zip(results).enumerate() {
            let natural = flow::result_layout(&rule, &assignment, i, &passed).normalise(self.mesh);
            let wanted = self.layout(result);
            let late = Layout { dims: wanted.dims.clone(), unreduced: natural.unreduced.clone() };
            let keeps = late.normalise(self.mesh) == natural && wanted.unreduced.is_empty();
            self.set_layout(result, natural);
            if !keeps {
                let moved = self.moved(result, wanted);
                self.rewriter.bind(old_result, moved);
            }
        }
        Ok(())
    }

    fn no_assignment(&self, inst: Inst, cause: &str) -> Box<Diagnostic> {
        let old = self.rewriter.old();
        let data = &old.insts[inst];
        let name = data.results.first().map_or("", |&v| &old.values[v].name);
        let message = format!("`{}` for %{name} in @{}: {cause}", data.op.info().name, old.name);
        Box::new(Diagnostic::error(codes::NO_ASSIGNMENT, message))
    }

    /// The assignment: what results want first, then what operands bring, where it is free.
    fn choose(&self, rule: &Rule, data: &InstData, operands: &[Value]) -> Assignment {
        let old = self.rewriter.old();
        let mut chooser = Chooser {
            rule,
            mesh: self.mesh,
            assignment: Assignment { axes: vec![Vec::new(); rule.factors.len()] },
        };
        for (dims, &value) in rule.results.iter().zip(&data.results) {
            if let Some(layout) = old.layout(value) {
                chooser.reserve(&layout.unreduced_axes());
                chooser.offer(dims, layout);
            }
        }
        let is_weight = |v: &Value| self.rewriter.new_func().ty(*v).kind == Kind::Weight;
        let of = |weights: bool| {
            let pairs = rule.operands.iter().zip(operands);
            pairs.filter(move |(_, v)| is_weight(v) == weights)
        };
        for (dims, &value) in of(true).chain(of(false)) {
            chooser.offer(dims, &self.layout(value));
        }
        chooser.assignment
    }

    /// Operands moved into the layouts of the assignment; partial sums stay where they may.
    fn feed(&mut self, rule: &Rule, assignment: &Assignment, operands: &[Value]) -> Vec<Value> {
        let used: Vec<AxisRef> = assignment.axes.concat();
        let all_alike = operands.windows(2).all(|w| {
            self.layout(w[0]).normalise(self.mesh).unreduced
                == self.layout(w[1]).normalise(self.mesh).unreduced
        });
        let mut passing = false;
        let mut fed = Vec::with_capacity(operands.len());
        for (i, &value) in operands.iter().enumerate() {
            let mut target = flow::operand_layout(rule, assignment, i);
            let may_pass = match &rule.partial {
                PartialRule::Complete => false,
                PartialRule::OneOf(linear) => linear.contains(&i) && !passing,
                PartialRule::AllAlike => all_alike,
            };
            let pending = self.layout(value).unreduced;
            if may_pass && self.passes(&pending, &used) {
                passing |= !pending.is_empty();
                target.unreduced = pending;
            }
            fed.push(self.moved(value, target));
        }
        fed
    }

    /// Whether pending sums may stay: sums along axes that split nothing in the operator.
    fn passes(&self, pending: &[Partial], used: &[AxisRef]) -> bool {
        pending.iter().all(|p| {
            let free = |a: &AxisRef| !used.iter().any(|u| axes::overlap(self.mesh, *a, *u));
            p.kind == ReduceKind::Sum && p.axes.iter().all(free)
        })
    }

    /// Carried values and caches leave as they entered; everything else leaves complete.
    fn finish_returns(&mut self, func: &Func) {
        let signature = func.layer_signature();
        let carried = signature.carried.len();
        for (i, &old) in func.returns.iter().enumerate() {
            let entry = match i.checked_sub(carried) {
                None => signature.carried.get(i),
                Some(cache) => signature.caches.get(cache),
            };
            let value = self.rewriter.get(old);
            let same_type = entry.filter(|&&p| func.ty(p) == self.rewriter.new_func().ty(value));
            let target = match same_type.and_then(|&p| func.layout(p)) {
                Some(layout) => layout.clone(),
                None => Layout { unreduced: Vec::new(), ..self.layout(value) },
            };
            let moved = self.moved(value, target);
            self.rewriter.bind(old, moved);
        }
    }
}

/// Builds an assignment from offers in order of precedence.
struct Chooser<'a> {
    rule: &'a Rule,
    mesh: &'a Mesh,
    assignment: Assignment,
}

impl Chooser<'_> {
    /// Nothing to keep free yet: axes pending on a result belong to its reduction factors.
    fn reserve(&mut self, pending: &[AxisRef]) {
        let reduction =
            |f: &&FactorId| matches!(self.rule.factors[**f].kind, FactorKind::Reduction(_));
        let ids: Vec<FactorId> = (0..self.rule.factors.len()).collect();
        if let ([only], false) =
            (&ids.iter().filter(reduction).collect::<Vec<_>>()[..], pending.is_empty())
        {
            self.take(**only, pending);
        }
    }

    /// Takes what the dimensions of a layout offer to their factors.
    fn offer(&mut self, dims: &DimFactors, layout: &Layout) {
        for (d, factors) in dims.iter().enumerate() {
            let at = (Side::Operand(0), d);
            let Ok(dealt) = flow::deal(self.rule, self.mesh, factors, &layout.dims[d], at) else {
                continue;
            };
            for (factor, list) in dealt {
                self.take(factor, &list);
            }
        }
    }

    /// Extends a factor by the axes of `list` that are free, as far as the split stays legal.
    fn take(&mut self, factor: FactorId, list: &[AxisRef]) {
        let data = &self.rule.factors[factor];
        let now = &self.assignment.axes[factor];
        if data.kind == FactorKind::NeedReplication {
            return;
        }
        let Some(gain) = axes::strip_prefix(self.mesh, list, now) else { return };
        let others = self.assignment.axes.iter().enumerate().filter(|(f, _)| *f != factor);
        let used: Vec<AxisRef> = others.flat_map(|(_, a)| a.clone()).collect();
        let mut wanted = now.clone();
        wanted.extend(axes::subtract(self.mesh, &gain, &used));
        let mut wanted = axes::normalise(self.mesh, &wanted);
        while wanted.len() > now.len() && flow::check_split(data, self.mesh, &wanted).is_err() {
            wanted.pop();
        }
        self.assignment.axes[factor] = wanted;
    }
}
