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
        let live = live(func, &mut edits);
        if live.len() < func.body.len() {
            *func = keep(func, &live);
        }
    }
    Ok(Report::of(edits.made()))
}

/// Instructions that the returned values or another stage need, in order.
fn live(func: &Func, edits: &mut Edits) -> Vec<Inst> {
    let mut needed: SecondaryMap<Value, bool> = SecondaryMap::default();
    func.returns.iter().for_each(|&v| needed[v] = true);
    let mut out = Vec::new();
    for &inst in func.body.iter().rev() {
        let data = &func.insts[inst];
        let effect = matches!(data.op, Op::Send(_) | Op::Recv(_));
        if effect || data.results.iter().any(|&v| needed[v]) || !edits.grant() {
            data.operands.iter().for_each(|&v| needed[v] = true);
            out.push(inst);
        }
    }
    out.reverse();
    out
}

fn keep(func: &Func, live: &[Inst]) -> Func {
    let mut rewriter = Rewriter::new(func);
    live.iter().for_each(|&inst| {
        rewriter.copy(inst);
    });
    rewriter.finish()
}
