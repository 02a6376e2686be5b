//! What becomes of partial operands: which consumers wait, and which complete them anyway.

use super::mover::Mover;
use shardc_ir::entity::SecondaryMap;
use shardc_ir::graph::{Func, Inst, Value};
use shardc_ir::layout::{ReduceKind, axes};
use shardc_ir::mesh::AxisRef;
use shardc_ir::ops::Op;
use shardc_ir::rule::{PartialRule, Rule};

/// Knows the consumers of every value of a function.
pub(super) struct Lookahead<'a> {
    func: &'a Func,
    consumers: SecondaryMap<Value, Vec<Consumer>>,
    /// Values that exist in the new function.
    ready: SecondaryMap<Value, bool>,
}

/// Who reads a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Consumer {
    /// An instruction that passes partial sums of this operand on.
    Linear(Inst),
    /// An instruction that adds this operand to others.
    Sum(Inst),
    /// Anything that needs it complete.
    Complete,
}

/// What an instruction needs to know about its operands.
#[derive(Debug, Default)]
pub(super) struct Around {
    /// Per operand, whether another consumer needs it complete.
    pub(super) completed_anyway: Vec<bool>,
    /// Axes along which the other terms pend where the result goes, if it goes nowhere else.
    pub(super) joins: Vec<AxisRef>,
}

impl<'a> Lookahead<'a> {
    pub(super) fn new(func: &'a Func) -> Self {
        let mut consumers: SecondaryMap<Value, Vec<Consumer>> = SecondaryMap::default();
        for &inst in &func.body {
            let data = &func.insts[inst];
            let rule = func.rule(inst);
            for (i, &operand) in data.operands.iter().enumerate() {
                consumers[operand].push(consumer(inst, &data.op, rule.as_ref(), i));
            }
        }
        func.returns.iter().for_each(|&v| consumers[v].push(Consumer::Complete));
        let mut ready: SecondaryMap<Value, bool> = SecondaryMap::default();
        func.params.iter().for_each(|&v| ready[v] = true);
        Lookahead { func, consumers, ready }
    }

    /// Notes that an instruction has been rebuilt.
    pub(super) fn pass(&mut self, inst: Inst) {
        self.func.insts[inst].results.iter().for_each(|&v| self.ready[v] = true);
    }

    pub(super) fn around(&self, inst: Inst, mover: &Mover<'_, '_>) -> Around {
        let data = &self.func.insts[inst];
        let anyway = |v: &Value| {
            let others = self.consumers[*v].iter().filter(|c| !c.is(inst));
            others.into_iter().any(|c| !matches!(c, Consumer::Linear(_)))
        };
        let completed_anyway = data.operands.iter().map(anyway).collect();
        Around { completed_anyway, joins: self.joins(inst, mover) }
    }

    /// The axes along which all other terms of the sum that alone reads the result pend already.
    fn joins(&self, inst: Inst, mover: &Mover<'_, '_>) -> Vec<AxisRef> {
        let [result] = self.func.insts[inst].results[..] else { return Vec::new() };
        let [Consumer::Sum(sum)] = self.consumers[result][..] else { return Vec::new() };
        let others = self.func.insts[sum].operands.iter().filter(|&&v| v != result);
        let mut common: Option<Vec<AxisRef>> = None;
        for &other in others {
            if !self.ready[other] {
                return Vec::new();
            }
            let layout = mover.layout(mover.rewriter.get(other));
            let pending = layout.pending(ReduceKind::Sum);
            common = Some(match common {
                None => pending,
                Some(axes) => axes::intersect(mover.mesh, &axes, &pending),
            });
        }
        common.unwrap_or_default()
    }
}

impl Consumer {
    fn is(self, inst: Inst) -> bool {
        matches!(self, Consumer::Linear(i) | Consumer::Sum(i) if i == inst)
    }
}

fn consumer(inst: Inst, op: &Op, rule: Option<&Rule>, operand: usize) -> Consumer {
    match rule.map(|r| &r.partial) {
        Some(PartialRule::OneOf(linear)) if linear.contains(&operand) => Consumer::Linear(inst),
        Some(PartialRule::AllAlike) => Consumer::Sum(inst),
        _ if matches!(op, Op::ToPartial(_)) => Consumer::Linear(inst),
        _ => Consumer::Complete,
    }
}
