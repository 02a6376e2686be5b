//! Reductions of all terms of a sum become one reduction of the sum: `Σa + Σb = Σ(a + b)`.

use super::{producer, without_unread};
use crate::edits::Edits;
use shardc_ir::entity::SecondaryMap;
use shardc_ir::graph::{Func, Inst, Value};
use shardc_ir::layout::{Layout, ReduceKind, Sharding};
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::rewrite::Rewriter;
use shardc_ir::rule::PartialRule;

/// One sweep; an edit is a sum.
pub(super) fn sums(func: &Func, mesh: &Mesh, edits: &mut Edits) -> Func {
    let uses = func.uses();
    let mut rewriter = Rewriter::new(func);
    for &inst in &func.body {
        match Sum::at(func, mesh, inst, &uses).filter(|_| edits.grant()) {
            Some(sum) => sum.reduce_once(&mut rewriter, inst),
            None => {
                rewriter.copy(inst);
            }
        }
    }
    without_unread(&rewriter.finish())
}

/// A sum of terms that are all reduced alike.
struct Sum {
    reduction: Op,
    sources: Vec<Value>,
    /// What the sum of the sources leaves.
    partial: Layout,
}

impl Sum {
    fn at(func: &Func, mesh: &Mesh, inst: Inst, uses: &SecondaryMap<Value, u32>) -> Option<Self> {
        let data = &func.insts[inst];
        let rule = func.rule(inst)?;
        if rule.partial != PartialRule::AllAlike || data.operands.len() < 2 {
            return None;
        }
        let mut reduction: Option<&Op> = None;
        let mut sources = Vec::new();
        for &operand in &data.operands {
            let (_, by) = producer(func, operand).filter(|_| uses[operand] == 1)?;
            let alike = reduction.is_none_or(|op| *op == by.op);
            if !is_sum(&by.op)
                || !alike
                || func.ty(operand).rank() != func.ty(data.operands[0]).rank()
            {
                return None;
            }
            reduction = Some(&by.op);
            sources.push(by.operands[0]);
        }
        let layouts = |v: &Value| func.layout(*v).map(|l| l.normalise(mesh));
        let pending: Vec<Layout> = sources.iter().map(layouts).collect::<Option<_>>()?;
        let alike = pending.iter().all(|l| l.unreduced == pending[0].unreduced);
        let result = layouts(data.results.first()?)?;
        let partial = before(reduction?, &result, &pending[0], mesh)?;
        alike.then(|| Sum {
            reduction: reduction.cloned().unwrap_or(data.op.clone()),
            sources,
            partial,
        })
    }

    fn reduce_once(&self, rewriter: &mut Rewriter<'_>, inst: Inst) {
        let old = rewriter.old();
        let result = old.insts[inst].results[0];
        let data = old.values[result].clone();
        let operands = self.sources.iter().map(|&v| rewriter.get(v)).collect();
        let (op, sharding) = (old.insts[inst].op.clone(), Sharding::decided(self.partial.clone()));
        let name = format!("{}.partial", data.name);
        let sum = rewriter.emit(&name, op, operands, data.ty.clone(), Some(sharding));
        let reduced =
            rewriter.emit(&data.name, self.reduction.clone(), vec![sum], data.ty, data.sharding);
        rewriter.bind(result, reduced);
    }
}

fn is_sum(op: &Op) -> bool {
    match op {
        Op::AllReduce(r) => r.kind == ReduceKind::Sum,
        Op::ReduceScatter(r) => r.kind == ReduceKind::Sum,
        _ => false,
    }
}

/// The layout of the sum before its reduction, which leaves `result`; terms pend as `term` does.
fn before(reduction: &Op, result: &Layout, term: &Layout, mesh: &Mesh) -> Option<Layout> {
    let mut layout = result.clone();
    if let Op::ReduceScatter(scatter) = reduction {
        for (dim, list) in scatter.axes.iter().enumerate() {
            let has = layout.dims.get(dim)?;
            layout.dims[dim] = shardc_ir::layout::axes::strip_suffix(mesh, has, &list.0)?;
        }
    }
    layout.unreduced.clone_from(&term.unreduced);
    Some(layout.normalise(mesh))
}
