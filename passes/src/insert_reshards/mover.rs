//! Values in other layouts: no value is moved twice to one layout, nor further than it must.

use crate::codes;
use crate::reshard::{Objective, OpKind, Planner, ReshardPlan};
use crate::reshard_to_collectives::STARTUP;
use shardc_ir::attr::AxisList;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dim::Bindings;
use shardc_ir::graph::{Def, Func, Inst, Value};
use shardc_ir::layout::{Layout, Partial, ReduceKind, Sharding, axes};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;
use shardc_ir::ops::placement::{Reshard, ToPartial};
use shardc_ir::rewrite::Rewriter;
use shardc_ir::types::Type;
use std::collections::{BTreeMap, BTreeSet};

/// What changes of layout cost at given sizes of the symbols, in bytes sent.
pub(super) struct Costs<'a> {
    planner: Planner<'a>,
    bind: Bindings,
}

impl<'a> Costs<'a> {
    pub(super) fn new(mesh: &'a Mesh, bind: Bindings) -> Self {
        Costs { planner: Planner::glancing(mesh, Objective::PeakThenPrice(&STARTUP)), bind }
    }

    /// Bytes that each device sends to bring a value of type `ty` from one layout to another, and
    /// what starting its collectives is worth; of routed rows only those that exist. Saturates
    /// where no sequence of collectives does it.
    pub(super) fn bytes(&mut self, ty: &Type, from: &Layout, to: &Layout) -> u64 {
        if from == to {
            return 0;
        }
        let dims: Vec<u64> = ty.dims.iter().map(|d| d.eval(&self.bind)).collect();
        let Ok(plan) = self.planner.plan(&dims, ty.elem.dtype.bits(), from, to) else {
            return u64::MAX;
        };
        let bytes = ty.present(plan.wire_bytes, &self.bind);
        bytes.saturating_add(startup(plan))
    }
}

/// What starting the collectives of a plan is worth.
fn startup(plan: &ReshardPlan) -> u64 {
    let sends = plan.steps.iter().filter(|s| s.op.kind() != OpKind::AllSlice);
    STARTUP.0.saturating_mul(sends.count() as u64)
}

/// Rebuilds a function and moves its values.
pub(super) struct Mover<'f, 'm> {
    pub(super) rewriter: Rewriter<'f>,
    pub(super) mesh: &'m Mesh,
    pub(super) costs: &'f mut Costs<'m>,
    /// Returned values, in order.
    pub(super) returns: Vec<Value>,
    /// Every value that exists in more than one layout, by the first: all layouts it exists in.
    versions: BTreeMap<Value, Vec<Value>>,
    /// The first version of a moved value.
    origin: BTreeMap<Value, Value>,
    /// Moved values whose layout the user asked for.
    pinned: BTreeSet<Value>,
}

impl<'f, 'm> Mover<'f, 'm> {
    pub(super) fn new(func: &'f Func, mesh: &'m Mesh, costs: &'f mut Costs<'m>) -> Self {
        Mover {
            rewriter: Rewriter::new(func),
            mesh,
            costs,
            returns: Vec::new(),
            versions: BTreeMap::new(),
            origin: BTreeMap::new(),
            pinned: BTreeSet::new(),
        }
    }

    /// The layout of a new value, in normal form.
    pub(super) fn layout(&self, new: Value) -> Layout {
        let func = self.rewriter.new_func();
        let replicated = || Layout::replicated(func.ty(new).rank());
        func.layout(new).cloned().unwrap_or_else(replicated).normalise(self.mesh)
    }

    /// Type and layout of a new value.
    pub(super) fn typed(&self, new: Value) -> (Type, Layout) {
        (self.rewriter.new_func().ty(new).clone(), self.layout(new))
    }

    pub(super) fn set_layout(&mut self, new: Value, layout: Layout) {
        self.rewriter.new_func_mut().values[new].sharding = Some(Sharding::decided(layout));
    }

    /// The layout in which the new function takes a parameter of the old one.
    pub(super) fn entry_layout(&self, old: Value) -> Layout {
        match self.rewriter.old().values[old].def {
            Def::Param(i) => self.layout(self.rewriter.new_func().params[i]),
            Def::Result(..) => self.layout(self.rewriter.get(old)),
        }
    }

    /// Lets a parameter of the old function enter in another layout than its own.
    pub(super) fn enter_in(&mut self, old: Value, entry: Layout) -> Result<()> {
        let new = self.rewriter.get(old);
        let own = self.layout(new);
        self.set_layout(new, entry);
        let moved = self.bring(new, &own)?;
        self.rewriter.bind(old, moved);
        Ok(())
    }

    /// `value` in a layout that the user asked for here under a name: it is kept even if it is passed
    /// through only, and what comes after starts from it.
    pub(super) fn bring_pinned(
        &mut self,
        value: Value,
        target: &Layout,
        name: &str,
    ) -> Result<Value> {
        let moved = self.bring(value, target)?;
        if moved != value && !self.pinned.contains(&moved) {
            self.pinned.insert(moved);
            self.origin.insert(moved, moved);
            self.versions.insert(moved, vec![moved]);
            self.rewriter.new_func_mut().rename(moved, name);
        }
        Ok(moved)
    }

    /// `value` in layout `target`.
    ///
    /// # Errors
    /// `S104` where something is to pend that no value can be made to.
    pub(super) fn bring(&mut self, value: Value, target: &Layout) -> Result<Value> {
        let target = target.normalise(self.mesh);
        if self.layout(value) == target {
            return Ok(value);
        }
        let origin = self.origin.get(&value).copied().unwrap_or(value);
        let versions = self.versions.entry(origin).or_insert_with(|| vec![origin]).clone();
        if let Some(&known) = versions.iter().find(|&&v| self.layout(v) == target) {
            return Ok(known);
        }
        let moved = match self.cheapest(&versions, &target) {
            Some(source) => self.emit(source, Op::Reshard(Reshard {}), "moved", target),
            None => self.make_partial(value, target)?,
        };
        self.origin.insert(moved, origin);
        self.versions.entry(origin).or_default().push(moved);
        Ok(moved)
    }

    /// The version from which the target costs least; none where the target pends along axes along
    /// which no version does.
    fn cheapest(&mut self, versions: &[Value], target: &Layout) -> Option<Value> {
        let fits = |v: &&Value| added(self.mesh, &self.layout(**v), target).is_empty();
        let fitting: Vec<Value> = versions.iter().filter(fits).copied().collect();
        if let [only] = fitting[..] {
            return Some(only);
        }
        let cost = |v: &Value| {
            let (ty, layout) = self.typed(*v);
            self.costs.bytes(&ty, &layout, target)
        };
        let costs: Vec<u64> = fitting.iter().map(cost).collect();
        fitting.into_iter().zip(costs).min_by_key(|(_, cost)| *cost).map(|(v, _)| v)
    }

    /// A complete value as a partial sum, along the axes that `target` has pending beyond its own.
    fn make_partial(&mut self, value: Value, target: Layout) -> Result<Value> {
        let pending = added(self.mesh, &self.layout(value), &target);
        let (sums, kinds) = (target.pending(ReduceKind::Sum), target.unreduced.len());
        let only_sums = axes::subtract(self.mesh, &pending, &sums).is_empty() && kinds == 1;
        if !only_sums {
            return Err(self.cannot_pend(value, &target));
        }
        let mut complete = target.clone().without_pending(self.mesh, &pending);
        for dim in &mut complete.dims {
            *dim = axes::subtract(self.mesh, dim, &pending);
        }
        let source = self.bring(value, &complete)?;
        let op = Op::ToPartial(ToPartial { axes: AxisList(pending) });
        Ok(self.emit(source, op, "partial", target))
    }

    fn cannot_pend(&self, value: Value, target: &Layout) -> Box<Diagnostic> {
        let func = self.rewriter.new_func();
        let message = format!(
            "%{} in @{} cannot become {}: the reduction that is to pend does not come from it",
            func.values[value].name,
            func.name,
            target.show(self.mesh)
        );
        let help =
            "leave `unreduced` out of the layout; reductions pend where operators leave them";
        Box::new(Diagnostic::error(codes::NO_ASSIGNMENT, message).help(help))
    }

    fn emit(&mut self, source: Value, op: Op, suffix: &str, target: Layout) -> Value {
        let origin = self.origin.get(&source).copied().unwrap_or(source);
        let func = self.rewriter.new_func();
        let (name, ty) = (&func.values[origin].name, func.ty(source).clone());
        let name = format!("{name}.{suffix}");
        self.rewriter.emit(&name, op, vec![source], ty, Some(Sharding::decided(target)))
    }

    /// The new function, and the instructions that give a pinned layout.
    pub(super) fn finish(self) -> (Func, BTreeSet<Inst>) {
        let mut func = self.rewriter.finish();
        func.returns = self.returns;
        let by = |v: Value| match func.values[v].def {
            Def::Result(inst, _) => Some(inst),
            Def::Param(_) => None,
        };
        let pinned = self.pinned.into_iter().filter_map(by).collect();
        (func, pinned)
    }
}

/// The axes along which `to` pends and `from` does not, under the same kind.
fn added(mesh: &Mesh, from: &Layout, to: &Layout) -> Vec<AxisRef> {
    let new = |p: &Partial| axes::outside(mesh, &p.axes, &from.pending(p.kind));
    to.unreduced.iter().flat_map(new).collect()
}
