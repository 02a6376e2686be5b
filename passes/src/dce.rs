//! `dce`: removes instructions whose results nothing uses. Transfers between stages stay, and so do
//! parameters, which are the function's interface.

use crate::edits::Edits;
use crate::registry::{Options, Report};
use shardc_ir::diag::Result;
use shardc_ir::entity::SecondaryMap;
use shardc_ir::graph::{Func, Inst, Module, Value};
use shardc_ir::ops::Op;
use shardc_ir::rewrite::Rewriter;

/// Removes dead instructions; an edit is an instruction that went.
///
/// # Errors
/// None; the signature is that of every pass.
pub fn dce(module: &mut Module, options: &Options) -> Result<Report> {
    let mut edits = Edits::new(options);
    for func in module.funcs.values_mut() {
        let transfers = |op: &Op| matches!(op, Op::Send(_) | Op::Recv(_));
        let new = without_unread(func, |op| !transfers(op) && edits.grant());
        if new.body.len() < func.body.len() {
            *func = new;
        }
    }
    Ok(Report::of(edits.made()))
}

/// The function without those instructions whose results nothing uses and that may go.
pub(crate) fn without_unread(func: &Func, mut may_go: impl FnMut(&Op) -> bool) -> Func {
    let mut needed: SecondaryMap<Value, bool> = SecondaryMap::default();
    func.returns.iter().for_each(|&v| needed[v] = true);
    let mut live: Vec<Inst> = Vec::new();
    for &inst in func.body.iter().rev() {
        let data = &func.insts[inst];
        if data.results.iter().any(|&v| needed[v]) || !may_go(&data.op) {
            data.operands.iter().for_each(|&v| needed[v] = true);
            live.push(inst);
        }
    }
    let mut rewriter = Rewriter::new(func);
    live.iter().rev().for_each(|&inst| {
        rewriter.copy(inst);
    });
    rewriter.finish()
}
