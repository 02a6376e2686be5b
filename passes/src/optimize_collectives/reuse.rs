//! Values that exist already are used again: a chain of movements that ends where it began, and
//! equal collectives of one value.

use super::{is_movement, producer, without_unread};
use crate::edits::Edits;
use shardc_ir::graph::{Func, Inst, Value};
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::rewrite::Rewriter;
use std::collections::HashMap;

/// One sweep; an edit is an exchange that goes.
pub(super) fn reuse(func: &Func, mesh: &Mesh, edits: &mut Edits) -> Func {
    let mut rewriter = Rewriter::new(func);
    let mut done: HashMap<(Op, Value), Vec<Value>> = HashMap::new();
    for &inst in &func.body {
        let data = &func.insts[inst];
        if !data.op.is_exchange() {
            rewriter.copy(inst);
            continue;
        }
        let (operand, result) = (rewriter.get(data.operands[0]), data.results[0]);
        let known = done.entry((data.op.clone(), operand)).or_default();
        let placement = func.layout(result);
        let equal = known.iter().copied().find(|&v| rewriter.new_func().layout(v) == placement);
        let found = equal.or_else(|| ancestor(func, mesh, inst).map(|v| rewriter.get(v)));
        match found.filter(|_| edits.grant()) {
            Some(value) => rewriter.bind(result, value),
            None => {
                let new = rewriter.copy(inst);
                known.push(rewriter.new_func().insts[new].results[0]);
            }
        }
    }
    without_unread(&rewriter.finish())
}

/// The value, reached back through movements only, that already is where `inst` leaves it.
fn ancestor(func: &Func, mesh: &Mesh, inst: Inst) -> Option<Value> {
    let target = func.layout(func.insts[inst].results[0])?;
    let mut at = inst;
    while is_movement(&func.insts[at].op) {
        let source = func.insts[at].operands[0];
        if func.layout(source)?.same_placement(target, mesh) {
            return Some(source);
        }
        (at, _) = producer(func, source)?;
    }
    None
}
