//! `insert-reshards`: every operator gets its operands in layouts that one assignment of axes to
//! factors admits, and every value ends in its own layout.
//!
//! Of the assignments that the layouts around an operator suggest, the one that moves fewest bytes is
//! taken; weights and caches stay where they are stored as long as any choice leaves them there.
//! Partial sums stay partial until an operator needs them complete, so that a reduction stands as
//! late, and as small, as linearity allows.

mod bypass;
mod choose;
mod entries;
mod feed;
mod mover;

use crate::codes;
use crate::precondition;
use crate::registry::{Options, Report};
use choose::{Choice, Chooser};
use feed::Lookahead;
use mover::Mover;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::flow;
use shardc_ir::graph::{Func, FuncId, Inst, Level, Module, Value};
use shardc_ir::layers::Interface;
use shardc_ir::layout::{Layout, ReduceKind};
use shardc_ir::mesh::AxisRef;
use shardc_ir::ops::Op;
use shardc_ir::rule::Rule;

/// Brings a logical module with decided layouts to sharded level; an edit is a reshard.
///
/// # Errors
/// `S101` where something is missing, `S104` where a pinned layout cannot be had.
pub fn insert_reshards(module: &mut Module, options: &Options) -> Result<Report> {
    let mesh = precondition::mesh(module, "insert-reshards")?;
    entries::check_boundaries(module)?;
    let entries = entries::agree(module, &mesh);
    let bind = module.bind(&options.sizes());
    let mut costs = mover::Costs::new(&mesh, bind);
    let models = precondition::models(module);
    let mut edits = 0;
    for id in module.funcs.keys().collect::<Vec<_>>() {
        let mut mover = Mover::new(&module.funcs[id], &mesh, &mut costs);
        entries.enter(id, &mut mover)?;
        let func = rebuild(module, id, !models.contains(&id), mover)?;
        edits += func.insts.values().filter(|i| matches!(i.op, Op::Reshard(_))).count() as u64;
        module.funcs[id] = func;
    }
    module.level = Level::Sharded;
    Ok(Report::of(edits))
}

fn rebuild<'a>(
    module: &'a Module,
    id: FuncId,
    is_layer: bool,
    mover: Mover<'a, '_>,
) -> Result<Func> {
    let func = &module.funcs[id];
    let mut pass = Inserter { module, func, is_layer, look: Lookahead::new(func), mover };
    for &inst in &func.body {
        match &func.insts[inst].op {
            Op::Constraint(_) => pass.constraint(inst)?,
            Op::Constant(_) => pass.constant(inst)?,
            Op::ToPartial(to) => pass.made_partial(inst, &to.axes.0)?,
            Op::Repeat(repeat) => {
                let interface = Interface::of(module, repeat)
                    .map_err(|e| Box::new(Diagnostic::error(codes::PRECONDITION, e)))?;
                pass.repeat(inst, &interface)?;
            }
            _ => match pass.rule(inst) {
                Some(rule) => pass.operator(inst, &rule)?,
                None => pass.whole(inst)?,
            },
        }
        pass.look.pass(inst);
    }
    pass.returns()?;
    Ok(bypass::bypass(pass.mover.finish()))
}

/// One function while it is rebuilt.
struct Inserter<'a, 'm> {
    module: &'a Module,
    func: &'a Func,
    is_layer: bool,
    look: Lookahead<'a>,
    mover: Mover<'a, 'm>,
}

impl Inserter<'_, '_> {
    fn rule(&self, inst: Inst) -> Option<Rule> {
        let (from, to) = (self.func.operand_types(inst), self.func.result_types(inst));
        self.func.insts[inst].op.rule(&from, &to)
    }

    /// The layout that a value of the old function is to have.
    fn wanted(&self, old: Value) -> Layout {
        let replicated = || Layout::replicated(self.func.ty(old).rank());
        self.func.layout(old).cloned().unwrap_or_else(replicated).normalise(self.mover.mesh)
    }

    fn operands(&self, inst: Inst) -> Vec<Value> {
        self.func.insts[inst].operands.iter().map(|&v| self.mover.rewriter.get(v)).collect()
    }

    /// Copies an instruction whose results leave it in `layouts`, and binds each old result to its
    /// value in the layout wanted; what merely pends still does so until somebody needs it.
    fn produce(&mut self, inst: Inst, operands: Vec<Value>, layouts: Vec<Layout>) -> Result<()> {
        let new = self.mover.rewriter.copy_with(inst, operands);
        let results = self.mover.rewriter.new_func().insts[new].results.clone();
        let old_results = &self.func.insts[inst].results;
        for ((&old, result), natural) in old_results.iter().zip(results).zip(layouts) {
            let wanted = self.wanted(old);
            let late = Layout { unreduced: natural.unreduced.clone(), ..wanted.clone() };
            let stays = natural == late && wanted.unreduced.is_empty();
            self.mover.set_layout(result, natural);
            if !stays {
                let moved = self.mover.bring(result, &wanted)?;
                self.mover.rewriter.bind(old, moved);
            }
        }
        Ok(())
    }

    /// Any operator with a rule.
    fn operator(&mut self, inst: Inst, rule: &Rule) -> Result<()> {
        let operands = self.operands(inst);
        let data = &self.func.insts[inst];
        let chooser = Chooser {
            rule,
            mesh: self.mover.mesh,
            operands: operands.iter().map(|&v| self.mover.typed(v)).collect(),
            results: data
                .results
                .iter()
                .map(|&v| (self.func.ty(v).clone(), self.wanted(v)))
                .collect(),
            look: self.look.around(inst, &self.mover),
        };
        let Choice { assignment, targets } = chooser.choose(self.mover.costs);
        let mut fed = Vec::with_capacity(operands.len());
        for (&value, target) in operands.iter().zip(&targets) {
            fed.push(self.mover.bring(value, target)?);
        }
        let layouts: Vec<&Layout> = targets.iter().collect();
        let passed = flow::passed_partials(rule, self.mover.mesh, &assignment, &layouts)
            .map_err(|e| self.no_assignment(inst, &e.describe(rule, self.mover.mesh)))?;
        let leaves = |i| flow::result_layout(rule, &assignment, i, &passed);
        let leaves = (0..data.results.len()).map(|i| leaves(i).normalise(self.mover.mesh));
        let leaves = leaves.collect();
        self.produce(inst, fed, leaves)
    }

    fn no_assignment(&self, inst: Inst, cause: &str) -> Box<Diagnostic> {
        let data = &self.func.insts[inst];
        let name = data.results.first().map_or("", |&v| &self.func.values[v].name);
        let op = data.op.info().name;
        let message = format!("`{op}` for %{name} in @{}: {cause}", self.func.name);
        Box::new(Diagnostic::error(codes::NO_ASSIGNMENT, message))
    }

    /// An operator without factors works on whole, complete values.
    fn whole(&mut self, inst: Inst) -> Result<()> {
        let mut fed = Vec::new();
        for value in self.operands(inst) {
            let target = Layout::replicated(self.mover.typed(value).0.rank());
            fed.push(self.mover.bring(value, &target)?);
        }
        let results = self.func.result_types(inst).into_iter();
        let layouts = results.map(|ty| Layout::replicated(ty.rank())).collect();
        self.produce(inst, fed, layouts)
    }

    /// A constant is made where it is wanted.
    fn constant(&mut self, inst: Inst) -> Result<()> {
        let results = &self.func.insts[inst].results;
        let complete = |&v: &Value| Layout { unreduced: Vec::new(), ..self.wanted(v) };
        let layouts = results.iter().map(complete).collect();
        self.produce(inst, Vec::new(), layouts)
    }

    /// A constraint becomes the layout of what it names.
    fn constraint(&mut self, inst: Inst) -> Result<()> {
        let result = self.func.insts[inst].results[0];
        let (operand, wanted) = (self.operands(inst)[0], self.wanted(result));
        let name = &self.func.values[result].name;
        let moved = self.mover.bring_pinned(operand, &wanted, name)?;
        self.mover.rewriter.bind(result, moved);
        Ok(())
    }

    /// `to_partial` takes a value that neither is split nor pends along its axes.
    fn made_partial(&mut self, inst: Inst, axes: &[AxisRef]) -> Result<()> {
        let operand = self.operands(inst)[0];
        let layout = self.mover.layout(operand).without_axes(self.mover.mesh, axes);
        let moved = self.mover.bring(operand, &layout)?;
        let layout = layout.with_pending(self.mover.mesh, ReduceKind::Sum, axes);
        self.produce(inst, vec![moved], vec![layout])
    }

    /// Operands of `repeat` arrive, and results leave, as the layer functions have them.
    fn repeat(&mut self, inst: Inst, interface: &Interface) -> Result<()> {
        let mut fed = Vec::new();
        for (value, slot) in self.operands(inst).into_iter().zip(&interface.operands) {
            fed.push(match slot.outer_layout(self.module) {
                Some(layout) => self.mover.bring(value, &layout)?,
                None => value,
            });
        }
        let results = &self.func.insts[inst].results;
        let leaves = results.iter().zip(&interface.results).map(|(&old, slot)| {
            let layout = slot.outer_layout(self.module).unwrap_or_else(|| self.wanted(old));
            layout.normalise(self.mover.mesh)
        });
        let leaves = leaves.collect();
        self.produce(inst, fed, leaves)
    }

    /// What a layer carries and every cache leaves as it entered; all else leaves complete.
    fn returns(&mut self) -> Result<()> {
        let signature = self.func.layer_signature();
        let carried = signature.carried.len();
        for (i, &old) in self.func.returns.iter().enumerate() {
            let entry = match i.checked_sub(carried) {
                None => signature.carried.get(i).filter(|_| self.is_layer),
                Some(cache) => signature.caches.get(cache),
            };
            let value = self.mover.rewriter.get(old);
            let same = entry.filter(|&&p| self.func.ty(p) == self.func.ty(old));
            let target = match same {
                Some(&param) => self.mover.entry_layout(param),
                None => Layout { unreduced: Vec::new(), ..self.mover.layout(value) },
            };
            let moved = self.mover.bring(value, &target)?;
            self.mover.returns.push(moved);
        }
        Ok(())
    }
}
