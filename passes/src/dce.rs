//! `dce`: removes instructions whose results nothing uses. Transfers between stages stay.

use shardc_ir::diag::Result;
use shardc_ir::entity::SecondaryMap;
use shardc_ir::graph::{Func, Inst, Module, Value};
use shardc_ir::ops::Op;
use shardc_ir::rewrite::Rewriter;

/// Removes dead instructions; returns how many.
///
/// # Errors
/// None; the signature is that of every pass.
pub fn dce(module: &mut Module) -> Result<u64> {
    let mut count = 0;
    for func in module.funcs.values_mut() {
        let live = live(func);
        let dead = func.body.len() - live.len();
        if dead > 0 {
            count += dead as u64;
            *func = keep(func, &live);
        }
    }
    Ok(count)
}

/// Instructions that the returned values or another stage need, in order.
fn live(func: &Func) -> Vec<Inst> {
    let mut needed: SecondaryMap<Value, bool> = SecondaryMap::default();
    func.returns.iter().for_each(|&v| needed[v] = true);
    let mut out = Vec::new();
    for &inst in func.body.iter().rev() {
        let data = &func.insts[inst];
        let effect = matches!(data.op, Op::Send(_) | Op::Recv(_));
        if effect || data.results.iter().any(|&v| needed[v]) {
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
