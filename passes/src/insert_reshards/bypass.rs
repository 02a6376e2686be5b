//! A value that is moved only to be moved on goes the whole way at once.

use shardc_ir::entity::SecondaryMap;
use shardc_ir::graph::{Def, Func, Inst, Value};
use shardc_ir::ops::Op;
use shardc_ir::rewrite::Rewriter;
use std::collections::{BTreeMap, BTreeSet};

/// Lets reshards of reshards start at the first source, and drops moved values that nobody reads;
/// `pinned` instructions give layouts that the user asked for and stay.
pub(super) fn bypass((func, pinned): (Func, BTreeSet<Inst>)) -> Func {
    let sources = sources(&func, &pinned);
    let live = live(&func, &sources);
    let mut rewriter = Rewriter::new(&func);
    for &inst in func.body.iter().filter(|i| live.contains(i)) {
        let data = &func.insts[inst];
        match sources.get(&inst) {
            None => {
                rewriter.copy(inst);
            }
            Some(&source) => {
                let (from, result) = (&func.values[source], data.results[0]);
                let operand = rewriter.get(source);
                if from.sharding == func.values[result].sharding {
                    rewriter.bind(result, operand);
                } else {
                    let data = &func.values[result];
                    let (op, sharding) = (func.insts[inst].op.clone(), data.sharding.clone());
                    let name = base_name(&data.name);
                    let moved = rewriter.emit(name, op, vec![operand], data.ty.clone(), sharding);
                    rewriter.bind(result, moved);
                }
            }
        }
    }
    rewriter.finish()
}

/// A moved value's name without the number that told it from others, which may be gone.
fn base_name(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((base, n)) if base.ends_with(".moved") && n.bytes().all(|b| b.is_ascii_digit()) => {
            base
        }
        _ => name,
    }
}

/// For each reshard the value it may start from.
fn sources(func: &Func, pinned: &BTreeSet<Inst>) -> BTreeMap<Inst, Value> {
    let uses = func.uses();
    let mut sources: BTreeMap<Inst, Value> = BTreeMap::new();
    for &inst in func.body.iter().filter(|&&i| matches!(func.insts[i].op, Op::Reshard(_))) {
        let operand = func.insts[inst].operands[0];
        let skipped = match func.values[operand].def {
            Def::Result(by, _) if uses[operand] == 1 && !pinned.contains(&by) => sources.get(&by),
            _ => None,
        };
        sources.insert(inst, skipped.copied().unwrap_or(operand));
    }
    sources
}

/// Every instruction but the moves whose results nobody reads.
fn live(func: &Func, sources: &BTreeMap<Inst, Value>) -> BTreeSet<Inst> {
    let mut needed: SecondaryMap<Value, bool> = SecondaryMap::default();
    func.returns.iter().for_each(|&v| needed[v] = true);
    let mut live = BTreeSet::new();
    for &inst in func.body.iter().rev() {
        let data = &func.insts[inst];
        let moves = matches!(data.op, Op::Reshard(_) | Op::ToPartial(_));
        if moves && !needed[data.results[0]] {
            continue;
        }
        live.insert(inst);
        match sources.get(&inst) {
            Some(&source) => needed[source] = true,
            None => data.operands.iter().for_each(|&v| needed[v] = true),
        }
    }
    live
}
