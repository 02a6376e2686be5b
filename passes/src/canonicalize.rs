//! `canonicalize`: operators that do nothing vanish, and pairs that undo each other meet.
//!
//! | form | becomes |
//! |---|---|
//! | reshape or broadcast to the same extents, identity transpose, cast to the same type, slice of all, pad by nothing, concat of one, reduction over no dimension, clamp without bounds, scale by 1, offset by 0, constraint or reshard to the same layout | the operand |
//! | transpose of a transpose, reshape of a reshape, slice of a slice of the same dimension, scale of a scale | one of them |
//! | negation of a negation | the operand |
//!
//! A layout that the user pinned stays: no value with a layout of its own is bypassed.

use crate::edits::Edits;
use crate::registry::{Options, Report};
use shardc_ir::attr::F64;
use shardc_ir::diag::Result;
use shardc_ir::graph::{Def, Func, Inst, InstData, Module, Value};
use shardc_ir::ops::Op;
use shardc_ir::ops::elementwise::Scale;
use shardc_ir::ops::shape::{Slice, Transpose};
use shardc_ir::rewrite::Rewriter;

/// Simplifies every function; an edit is an operator that vanished or was replaced.
///
/// # Errors
/// None; the signature is that of every pass.
pub fn canonicalize(module: &mut Module, options: &Options) -> Result<Report> {
    let mut edits = Edits::new(options);
    for func in module.funcs.values_mut() {
        loop {
            let before = edits.made();
            let new = once(func, &mut edits);
            if edits.made() == before {
                break;
            }
            *func = new;
        }
    }
    Ok(Report::of(edits.made()))
}

/// What an operator becomes.
enum Form {
    /// A value that exists.
    Same(Value),
    /// Another operator on one operand.
    Op(Box<Op>, Value),
}

fn once(func: &Func, edits: &mut Edits) -> Func {
    let mut rewriter = Rewriter::new(func);
    for &inst in &func.body {
        match simpler(func, &func.insts[inst]).filter(|_| edits.grant()) {
            None => {
                rewriter.copy(inst);
            }
            Some(Form::Same(value)) => {
                let new = rewriter.get(value);
                rewriter.bind(func.insts[inst].results[0], new);
            }
            Some(Form::Op(op, operand)) => {
                let operand = rewriter.get(operand);
                replace(&mut rewriter, inst, *op, operand);
            }
        }
    }
    rewriter.finish()
}

fn replace(rewriter: &mut Rewriter<'_>, inst: Inst, op: Op, operand: Value) {
    let result = rewriter.old().insts[inst].results[0];
    let data = rewriter.old().values[result].clone();
    let value = rewriter.emit(&data.name, op, vec![operand], data.ty, data.sharding);
    rewriter.bind(result, value);
}

fn simpler(func: &Func, data: &InstData) -> Option<Form> {
    let ([operand], [result]) = (&data.operands[..], &data.results[..]) else { return None };
    if does_nothing(&data.op) && replaces(func, *operand, *result) {
        return Some(Form::Same(*operand));
    }
    let Def::Result(inst, _) = func.values[*operand].def else { return None };
    let before = &func.insts[inst];
    let &source = before.operands.first()?;
    if func.values[*operand].sharding.is_some() {
        return None;
    }
    if let (Op::Neg(_), Op::Neg(_)) = (&before.op, &data.op) {
        return replaces(func, source, *result).then_some(Form::Same(source));
    }
    merged(&before.op, &data.op).map(|op| Form::Op(Box::new(op), source))
}

/// Whether uses of `result` may read `value`: same type, and no layout that only `result` has.
fn replaces(func: &Func, value: Value, result: Value) -> bool {
    let (from, to) = (&func.values[value], &func.values[result]);
    from.ty == to.ty && (to.sharding.is_none() || to.sharding == from.sharding)
}

/// Whether an operator of one operand returns it, provided that the types agree.
fn does_nothing(op: &Op) -> bool {
    match op {
        Op::Reshape(_) | Op::Cast(_) | Op::Slice(_) | Op::Concat(_) => true,
        Op::Broadcast(b) => b.dims.is_sorted(),
        Op::Constraint(_) | Op::Reshard(_) => true,
        Op::Pad(pad) => pad.lo == 0 && pad.hi == 0,
        Op::Transpose(t) => t.perm.is_sorted(),
        Op::Reduce(r) => r.dims.is_empty(),
        Op::Clamp(c) => c.lo.is_none() && c.hi.is_none(),
        Op::Scale(s) => s.by.0 == 1.0,
        Op::Offset(o) => o.by.0 == 0.0,
        _ => false,
    }
}

/// One operator for two in a row.
fn merged(first: &Op, second: &Op) -> Option<Op> {
    Some(match (first, second) {
        (Op::Reshape(_), Op::Reshape(_)) => second.clone(),
        (Op::Transpose(a), Op::Transpose(b)) => {
            let perm = b.perm.iter().map(|&p| a.perm.get(p).copied());
            Op::Transpose(Transpose { perm: perm.collect::<Option<_>>()? })
        }
        (Op::Slice(a), Op::Slice(b)) if a.dim == b.dim => {
            let (lo, hi) = (a.lo.checked_add(b.lo)?, a.lo.checked_add(b.hi)?);
            Op::Slice(Slice { dim: a.dim, lo, hi })
        }
        (Op::Scale(a), Op::Scale(b)) => {
            let by = F64(a.by.0 * b.by.0);
            return by.0.is_normal().then_some(Op::Scale(Scale { by }));
        }
        _ => return None,
    })
}
