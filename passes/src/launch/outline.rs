//! What a function does to memory, step by step, before anything has an address: which values each
//! step reads and writes, and in which steps the bytes of a value are needed.

use super::homes::{Home, Homes};
use shardc_ir::graph::{Func, FuncKind, InstData, Value};
use shardc_ir::ops::Op;
use shardc_ir::types::Kind;
use std::collections::BTreeMap;

/// First and last step in which something lives.
pub type Span = [usize; 2];

/// A step: an instruction, a copy, or the return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// What it is.
    pub doing: Doing,
    /// Position of the instruction in the body; its length for what ends the function.
    pub at: usize,
    /// Values whose bytes are read.
    pub reads: Vec<Value>,
    /// Values whose bytes are written.
    pub writes: Vec<Value>,
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// The instruction.
    Instruction,
    /// A copy to where a value must lie.
    Copy,
    /// The end.
    Return,
}

/// The steps of a function. Views are none.
pub fn outline(func: &Func, homes: &Homes<'_>) -> Vec<Outline> {
    let mut steps = Vec::new();
    let copy = |at: usize, from: Value, to: Value| Outline {
        doing: Doing::Copy,
        at,
        reads: vec![from],
        writes: vec![to],
    };
    for (at, &inst) in func.body.iter().enumerate() {
        let data = &func.insts[inst];
        if homes.is_view(data) {
            continue;
        }
        let mut reads = data.operands.clone();
        for result in brought(func, homes, data) {
            let read = &mut reads[result.0];
            steps.push(copy(at, *read, result.1));
            *read = result.1;
        }
        let (doing, writes) = (Doing::Instruction, data.results.clone());
        steps.push(Outline { doing, at, reads, writes });
    }
    let at = func.body.len();
    steps.extend(last_copies(func, homes).into_iter().map(|(from, to)| copy(at, from, to)));
    let (reads, writes) = (func.returns.clone(), Vec::new());
    steps.push(Outline { doing: Doing::Return, at, reads, writes });
    steps
}

/// Carried results of a `repeat`, with their numbers, that do not lie where their operands do: those
/// are copied there first.
fn brought(func: &Func, homes: &Homes<'_>, data: &InstData) -> Vec<(usize, Value)> {
    if !matches!(data.op, Op::Repeat(_)) {
        return Vec::new();
    }
    let away =
        |&(_, v): &(usize, Value)| func.ty(v).kind != Kind::Cache && homes.home(v) == Home::Own;
    let count = data.operands.len();
    data.results.iter().copied().enumerate().filter(|(i, _)| *i < count).filter(away).collect()
}

/// What is copied at the end: from returned values to the parameters that they are the next version
/// of, where they do not lie there.
fn last_copies(func: &Func, homes: &Homes<'_>) -> Vec<(Value, Value)> {
    let cached = |&v: &Value| func.ty(v).kind == Kind::Cache;
    let params = func.params.iter().copied().filter(cached);
    let caches = params.zip(func.returns.iter().copied().filter(cached));
    let handed = match func.kind {
        FuncKind::Func => homes.handed_on(),
        FuncKind::Program => Vec::new(),
    };
    let away = |&(param, returned): &(Value, Value)| homes.root(returned) != param;
    handed.into_iter().chain(caches).filter(away).map(|(param, v)| (v, param)).collect()
}

/// A returned value of a layer whose bytes a copy of another would overwrite first.
pub fn crosswise(func: &Func, homes: &Homes<'_>) -> Option<Value> {
    let copies = last_copies(func, homes);
    let overwritten = |from: &Value| {
        let root = homes.root(*from);
        copies.iter().any(|(_, to)| *to == root)
    };
    copies.iter().map(|(from, _)| *from).find(overwritten)
}

/// The steps that use each value by its own name; parameters are there from the start.
pub fn uses(func: &Func, steps: &[Outline]) -> BTreeMap<Value, Span> {
    let mut out: BTreeMap<Value, Span> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        for &value in step.reads.iter().chain(&step.writes) {
            out.entry(value).and_modify(|span| span[1] = at).or_insert([at, at]);
        }
    }
    for &param in &func.params {
        out.entry(param).or_insert([0, 0])[0] = 0;
    }
    out
}

/// The steps that use the bytes of each root: its own, and those of every value that lies in them.
pub fn root_uses(homes: &Homes<'_>, uses: &BTreeMap<Value, Span>) -> BTreeMap<Value, Span> {
    let mut out: BTreeMap<Value, Span> = BTreeMap::new();
    for (&value, &[first, last]) in uses {
        let span = out.entry(homes.root(value)).or_insert([first, last]);
        *span = [span[0].min(first), span[1].max(last)];
    }
    out
}

/// Whether a root lies in the scratch arena or in the frame of a layer: not what is stored, nor what
/// a caller gives.
pub fn is_scratch(func: &Func, homes: &Homes<'_>, root: Value) -> bool {
    let stored = func.ty(root).kind.is_stored();
    match func.kind {
        FuncKind::Func => !homes.is_param(root),
        FuncKind::Program => !(homes.is_param(root) && stored),
    }
}
