//! `canonicalize`: operators that do nothing vanish, and pairs that undo each other meet.
//!
//! | form | becomes |
//! |---|---|
//! | reshape to the same extents, identity transpose, cast to the same type, slice of all, pad by nothing, scale by 1, offset by 0 | the operand |
//! | transpose of a transpose | one transpose |
//! | reshape of a reshape | one reshape |
//! | scale of a scale | one scale |

use shardc_ir::attr::F64;
use shardc_ir::diag::Result;
use shardc_ir::graph::{Def, Func, Inst, InstData, Module, Value};
use shardc_ir::ops::Op;
use shardc_ir::ops::elementwise::Scale;
use shardc_ir::ops::shape::Transpose;
use shardc_ir::rewrite::Rewriter;

/// Simplifies every function; returns the number of edits.
///
/// # Errors
/// None; the signature is that of every pass.
pub fn canonicalize(module: &mut Module) -> Result<u64> {
    let mut count = 0;
    for func in module.funcs.values_mut() {
        loop {
            let (edits, new) = once(func);
            *func = new;
            count += edits;
            if edits == 0 {
                break;
            }
        }
    }
    Ok(count)
}

fn once(func: &Func) -> (u64, Func) {
    let mut rewriter = Rewriter::new(func);
    let mut edits = 0;
    for &inst in &func.body {
        let data = &func.insts[inst];
        if does_nothing(func, data) {
            let operand = rewriter.get(data.operands[0]);
            rewriter.bind(data.results[0], operand);
            edits += 1;
        } else if let Some((op, operand)) = merged(func, data) {
            let operand = rewriter.get(operand);
            replace(&mut rewriter, inst, op, operand);
            edits += 1;
        } else {
            rewriter.copy(inst);
        }
    }
    (edits, rewriter.finish())
}

fn replace(rewriter: &mut Rewriter<'_>, inst: Inst, op: Op, operand: Value) {
    let result = rewriter.old().insts[inst].results[0];
    let data = rewriter.old().values[result].clone();
    let value = rewriter.emit(&data.name, op, vec![operand], data.ty, data.sharding);
    rewriter.bind(result, value);
}

/// Whether a unary operator returns its operand: same type, same layout, same elements.
fn does_nothing(func: &Func, data: &InstData) -> bool {
    let ([operand], [result]) = (&data.operands[..], &data.results[..]) else { return false };
    let (from, to) = (&func.values[*operand], &func.values[*result]);
    let unpinned = to.sharding.is_none() || to.sharding == from.sharding;
    let same = from.ty == to.ty && unpinned;
    same && match &data.op {
        Op::Reshape(_) | Op::Cast(_) | Op::Slice(_) => true,
        Op::Pad(pad) => pad.lo == 0 && pad.hi == 0,
        Op::Transpose(t) => t.perm.is_sorted(),
        Op::Scale(s) => s.by.0 == 1.0,
        Op::Offset(o) => o.by.0 == 0.0,
        _ => false,
    }
}

/// One operator for this one and the one before it, with its operand.
fn merged(func: &Func, data: &InstData) -> Option<(Op, Value)> {
    let [operand] = data.operands[..] else { return None };
    let Def::Result(inst, _) = func.values[operand].def else { return None };
    if func.values[operand].sharding.is_some() {
        return None;
    }
    let before = &func.insts[inst];
    let op = match (&before.op, &data.op) {
        (Op::Reshape(_), Op::Reshape(_)) => data.op.clone(),
        (Op::Transpose(a), Op::Transpose(b)) => {
            let perm = b.perm.iter().map(|&p| a.perm[p]).collect();
            Op::Transpose(Transpose { perm })
        }
        (Op::Scale(a), Op::Scale(b)) => Op::Scale(Scale { by: F64(a.by.0 * b.by.0) }),
        _ => return None,
    };
    Some((op, before.operands[0]))
}
