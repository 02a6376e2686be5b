//! Where the entities of a module stand in its text: a side table, outside equality.

use crate::diag::Span;
use crate::dim::Sym;
use crate::entity::{PrimaryMap, SecondaryMap};
use crate::graph::{FuncId, Inst, Value};

/// The places of a module's entities.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// The name in the module header; empty where there is no header.
    pub module: Span,
    /// The mesh declaration; empty where there is none.
    pub mesh: Span,
    /// The `dim` declarations.
    pub syms: SecondaryMap<Sym, Span>,
    /// One per function.
    pub funcs: PrimaryMap<FuncId, FuncSpans>,
}

/// The places of a function's entities.
#[derive(Clone, Debug, Default)]
pub struct FuncSpans {
    /// The name after `func` or `program`.
    pub name: Span,
    /// The names of values, where they are defined.
    pub values: SecondaryMap<Value, Span>,
    /// The types of values with their layouts; empty where the text leaves them out.
    pub types: SecondaryMap<Value, Span>,
    /// Instructions, from the first result or the operator to the last type.
    pub insts: SecondaryMap<Inst, Span>,
    /// The `return` instruction.
    pub returns: Span,
}
