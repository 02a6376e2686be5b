//! `cse`: one instruction for equal operators on equal operands with equal results.
//!
//! Results are equal if types and layouts are: two constraints of one value to two layouts stay, and
//! so do transfers between stages.

use crate::edits::Edits;
use crate::registry::{Options, Report};
use shardc_ir::diag::Result;
use shardc_ir::graph::{Func, InstData, Module, Value};
use shardc_ir::ops::Op;
use shardc_ir::rewrite::Rewriter;
use std::collections::HashMap;

/// Merges equal instructions; an edit is an instruction that went.
///
/// # Errors
/// None; the signature is that of every pass.
pub fn cse(module: &mut Module, options: &Options) -> Result<Report> {
    let mut edits = Edits::new(options);
    for func in module.funcs.values_mut() {
        *func = merge(func, &mut edits);
    }
    Ok(Report::of(edits.made()))
}

fn merge(func: &Func, edits: &mut Edits) -> Func {
    let mut rewriter = Rewriter::new(func);
    let mut seen: HashMap<(Op, Vec<Value>), Vec<Vec<Value>>> = HashMap::new();
    for &inst in &func.body {
        let data = &func.insts[inst];
        if matches!(data.op, Op::Send(_) | Op::Recv(_)) {
            rewriter.copy(inst);
            continue;
        }
        let operands: Vec<Value> = data.operands.iter().map(|&v| rewriter.get(v)).collect();
        let known = seen.entry((data.op.clone(), operands)).or_default();
        let equal = known.iter().find(|results| same(func, data, rewriter.new_func(), results));
        match equal.filter(|_| edits.grant()) {
            Some(results) => {
                for (&old, &new) in data.results.iter().zip(results) {
                    rewriter.bind(old, new);
                }
            }
            None => {
                let new = rewriter.copy(inst);
                known.push(rewriter.new_func().insts[new].results.clone());
            }
        }
    }
    rewriter.finish()
}

/// Whether results have the types and layouts of those that exist already.
fn same(func: &Func, data: &InstData, new: &Func, results: &[Value]) -> bool {
    let equal = |(old, new_value): (&Value, &Value)| {
        let (a, b) = (&func.values[*old], &new.values[*new_value]);
        a.ty == b.ty && a.sharding == b.sharding
    };
    data.results.len() == results.len() && data.results.iter().zip(results).all(equal)
}
