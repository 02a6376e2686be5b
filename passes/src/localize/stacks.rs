//! Stacks of layers that change their layout between a parameter and the layers, or between the
//! layers and what the model returns.
//!
//! Collectives that leave the dimension of layers alone move every layer by itself, so that each
//! stage can move the layers it has.

use crate::optimize_collectives::is_movement;
use shardc_ir::graph::{Def, Func, Inst, Value};

/// A stack and the collectives that lead to it.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    /// The stack as it was first.
    pub(super) origin: Value,
    /// What moves it, in order.
    pub(super) moves: Vec<Inst>,
}

/// Follows a stack back through collectives that move every layer by itself.
pub(super) fn origin(func: &Func, stack: Value) -> Moved {
    let mut moved = Moved { origin: stack, moves: Vec::new() };
    while let Def::Result(inst, _) = func.values[moved.origin].def {
        let [operand] = func.insts[inst].operands[..] else { break };
        if !is_movement(&func.insts[inst].op)
            || [operand, moved.origin].iter().any(|&v| cuts(func, v))
        {
            break;
        }
        moved.moves.push(inst);
        moved.origin = operand;
    }
    moved.moves.reverse();
    moved
}

/// Whether axes of the mesh split the layers of a stack.
fn cuts(func: &Func, stack: Value) -> bool {
    let layout = func.layout(stack);
    !layout.is_some_and(|layout| layout.dims.first().is_some_and(Vec::is_empty))
}
