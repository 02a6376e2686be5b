//! `optimize-collectives`: neighbouring collectives merge, and what they undo vanishes.
//!
//! Three sweeps run until nothing changes: values that exist already are used again, whether a
//! collective repeats an equal one or a chain ends where it began; reductions of all terms of a sum
//! become one reduction of the sum; and pairs in a row merge, of which nobody else reads the middle:
//!
//! | pair | becomes |
//! |---|---|
//! | gather, gather · slice, slice · reduce, reduce · scatter, scatter · permute, permute | one of them |
//! | slice, gather of its axes · gather, slice by its axes | the rest of either |
//! | gather of one dimension, slice of another by the same axes | all_to_all |
//! | reduce, slice by reduced axes | scatter, and a reduce of the rest on what is left |
//! | scatter, gather of the same axes | reduce |
//! | anything, slice · gather, reduction · reduce, scatter | the cheaper order |
//!
//! The last row moves a slice before everything, a scatter before a reduce and a gather behind all
//! of them: each then works on less. Where a size does not divide, a pair merges only if the parts
//! of each step lie inside one another. Nothing sends more than before; everything else is for the
//! e-graph.

pub(crate) mod effect;
mod merge;
mod reuse;
mod sums;

use crate::dce;
use crate::edits::Edits;
use crate::precondition;
use crate::registry::{Options, Report};
use shardc_ir::diag::Result;
use shardc_ir::graph::{Def, Func, Inst, InstData, Module, Value};
use shardc_ir::ops::Op;

/// Merges collectives; an edit is a merge.
///
/// # Errors
/// `S101` without a mesh.
pub fn optimize_collectives(module: &mut Module, options: &Options) -> Result<Report> {
    let mesh = precondition::mesh(module, "optimize-collectives")?;
    let mut edits = Edits::new(options);
    for func in module.funcs.values_mut() {
        loop {
            let before = edits.made();
            for sweep in [reuse::reuse, merge::merge, sums::sums] {
                let new = sweep(func, &mesh, &mut edits);
                *func = new;
            }
            if edits.made() == before {
                break;
            }
        }
    }
    Ok(Report::of(edits.made()))
}

/// Whether the operator only changes where the parts of a value are.
pub(crate) fn is_movement(op: &Op) -> bool {
    matches!(op, Op::AllGather(_) | Op::AllSlice(_) | Op::AllToAll(_) | Op::CollectivePermute(_))
}

/// The instruction that makes a value.
fn producer(func: &Func, value: Value) -> Option<(Inst, &InstData)> {
    match func.values[value].def {
        Def::Result(inst, _) => Some((inst, &func.insts[inst])),
        Def::Param(_) => None,
    }
}

/// The function without exchanges whose results nobody reads.
fn without_unread(func: &Func) -> Func {
    dce::without_unread(func, Op::is_exchange)
}
