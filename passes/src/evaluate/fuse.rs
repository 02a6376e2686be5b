//! Which operators are kernels of their own: the fusions that engines make.
//!
//! - products of one operand with several weights of one format are one kernel;
//! - additions join the norm that follows, which then reads and writes one value more; where a
//!   collective stands between, they are kernels of their own;
//! - activations, scales, biases, casts and changes of shape join their neighbours;
//! - a rotation of keys joins that of queries;
//! - of routed experts, all products and what stands between them are priced as one.

use shardc_ir::graph::{Func, Inst};
use shardc_ir::ops::{Family, Op};
use shardc_ir::types::Kind;

/// How an instruction is priced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    /// Part of a neighbour.
    Fused,
    /// A dense product.
    Product,
    /// The last product of routed experts stands for them all.
    Experts,
    /// Attention.
    Attention,
    /// Memory traffic: operands and results once each, `extra` values of the result's size more.
    Stream {
        /// Further passes over a value of the size of the first result.
        extra: u64,
    },
    /// Choosing a token.
    Sampling,
    /// Communication.
    Communication,
}

/// How an instruction of `func` is priced.
pub(super) fn kernel(func: &Func, inst: Inst) -> Kernel {
    let data = &func.insts[inst];
    let first = data.operands.first().map(|&v| func.ty(v));
    let routed = first.is_some_and(|t| matches!(t.kind, Kind::Routed { .. }));
    match (&data.op, data.op.info().family) {
        (Op::Dot(_), _) => Kernel::Product,
        (Op::GroupedDot(_), _) if combined(func, inst) => Kernel::Experts,
        (Op::GroupedDot(_), _) => Kernel::Fused,
        (Op::Attention(_), _) => Kernel::Attention,
        (Op::SparseIndex(_), _) => Kernel::Stream { extra: 0 },
        (Op::KvWrite(_), _) => Kernel::Stream { extra: 0 },
        (Op::Mul(mul), _) if !routed && mul.dims.is_empty() => Kernel::Stream { extra: 0 },
        (Op::Rope(_), _) if first.is_some_and(|t| t.rank() >= 5) => Kernel::Stream { extra: 0 },
        (Op::ArgMax(_), _) => Kernel::Sampling,
        (Op::Router(_) | Op::Embedding(_), _) => Kernel::Stream { extra: 0 },
        (Op::Add(add), _) if !routed && add.dims.is_empty() && apart_from_norm(func, inst) => {
            Kernel::Stream { extra: 0 }
        }
        (Op::Softmax(_) | Op::Reduce(_), _) => Kernel::Stream { extra: 0 },
        (_, Family::Norm) => {
            Kernel::Stream { extra: if after_addition(func, inst) { 2 } else { 0 } }
        }
        (_, Family::Collective) => Kernel::Communication,
        _ => Kernel::Fused,
    }
}

/// Whether the rows of a grouped product are combined next: linear steps may stand between.
fn combined(func: &Func, inst: Inst) -> bool {
    let mut value = func.insts[inst].results[0];
    for &next in &func.body {
        let data = &func.insts[next];
        if data.operands.first() != Some(&value) {
            continue;
        }
        match &data.op {
            Op::Combine(_) => return true,
            Op::GroupedDot(_) => return false,
            _ => value = data.results.first().copied().unwrap_or(value),
        }
    }
    false
}

/// Whether the normalised value is a sum of equal shapes.
fn after_addition(func: &Func, inst: Inst) -> bool {
    let operand = func.insts[inst].operands[0];
    func.body.iter().any(|&i| {
        let data = &func.insts[i];
        data.results.contains(&operand) && matches!(&data.op, Op::Add(add) if add.dims.is_empty())
    })
}

/// Whether a norm reads the sum, and only after a collective: no kernel does both.
fn apart_from_norm(func: &Func, inst: Inst) -> bool {
    let sum = func.insts[inst].results[0];
    let (mut moved, mut apart) = (vec![sum], false);
    for data in func.body.iter().map(|&i| &func.insts[i]) {
        let Some(operand) = data.operands.first().filter(|v| moved.contains(v)) else { continue };
        match data.op.info().family {
            Family::Collective => moved.extend(&data.results),
            Family::Norm if *operand == sum => return false,
            Family::Norm => apart = true,
            _ => {}
        }
    }
    apart
}
