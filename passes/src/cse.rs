//! `cse`: one instruction for equal operators on equal operands with equal results.

use shardc_ir::diag::Result;
use shardc_ir::graph::{Func, InstData, Module, Value};
use shardc_ir::ops::Op;
use shardc_ir::rewrite::Rewriter;
use std::collections::HashMap;

/// Merges equal instructions; returns how many went.
///
/// # Errors
/// None; the signature is that of every pass.
pub fn cse(module: &mut Module) -> Result<u64> {
    let mut count = 0;
    for func in module.funcs.values_mut() {
        let (merged, new) = merge(func);
        count += merged;
        *func = new;
    }
    Ok(count)
}

fn merge(func: &Func) -> (u64, Func) {
    let mut rewriter = Rewriter::new(func);
    let mut seen: HashMap<(Op, Vec<Value>), Vec<Vec<Value>>> = HashMap::new();
    let mut count = 0;
    for &inst in &func.body {
        let data = &func.insts[inst];
        let operands: Vec<Value> = data.operands.iter().map(|&v| rewriter.get(v)).collect();
        if matches!(data.op, Op::Send(_) | Op::Recv(_)) {
            rewriter.copy(inst);
            continue;
        }
        let known = seen.entry((data.op.clone(), operands)).or_default();
        let equal = known.iter().find(|results| same(func, data, rewriter.new_func(), results));
        if let Some(results) = equal {
            count += 1;
            data.results
                .iter()
                .zip(results.clone())
                .for_each(|(&old, new)| rewriter.bind(old, new));
        } else {
            let new = rewriter.copy(inst);
            known.push(rewriter.new_func().insts[new].results.clone());
        }
    }
    (count, rewriter.finish())
}

/// Whether results have the types and layouts of those that exist already.
fn same(func: &Func, data: &InstData, new: &Func, results: &[Value]) -> bool {
    let equal = |(old, new_value): (&Value, &Value)| {
        let (a, b) = (&func.values[*old], &new.values[*new_value]);
        a.ty == b.ty && a.sharding == b.sharding
    };
    data.results.len() == results.len() && data.results.iter().zip(results).all(equal)
}
