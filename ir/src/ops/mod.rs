//! Operators: one row each in [`op_table!`], behaviour next to the attributes in family files.
//!
//! To add one, follow `docs/add-an-op.md`.

pub mod attention;
pub mod collective;
pub mod contract;
pub mod control;
pub mod elementwise;
pub mod embed;
pub mod moe;
pub mod norm;
pub mod placement;
pub mod position;
pub mod reduce;
pub mod shape;
mod table;

pub(crate) use table::arity_problem;
pub use table::{OPS, Op};

use crate::attr::{AttrInfo, Attrs};
use crate::dim::{Dim, Sym};
use crate::graph::Level;
use crate::rule::Rule;
use crate::types::Type;

/// A family of operators; the documentation and the cost model are organised by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// General contractions.
    Contract,
    /// Element by element.
    Elementwise,
    /// Reductions over dimensions.
    Reduce,
    /// Normalisations.
    Norm,
    /// Rotary position embedding.
    Position,
    /// Attention and the KV cache.
    Attention,
    /// Routing to experts and back.
    Moe,
    /// Look-ups by token.
    Embed,
    /// Changes of shape or format.
    Shape,
    /// Annotations and conversions of layout.
    Placement,
    /// Communication.
    Collective,
    /// Control.
    Control,
}

/// Levels at which an operator may appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifespan {
    /// Logical to local.
    Always,
    /// Above local level only.
    Global,
    /// At sharded level only.
    Sharded,
    /// From collective level on.
    Communicating,
    /// At local level only.
    Local,
}

impl Lifespan {
    /// The levels in words.
    pub fn describe(self) -> &'static str {
        match self {
            Lifespan::Always => "every level",
            Lifespan::Global => "levels above local",
            Lifespan::Sharded => "sharded level",
            Lifespan::Communicating => "collective and local level",
            Lifespan::Local => "local level",
        }
    }

    /// Whether an operator with this lifespan may appear at `level`.
    pub fn allows(self, level: Level) -> bool {
        match self {
            Lifespan::Always => true,
            Lifespan::Global => level < Level::Local,
            Lifespan::Sharded => level == Level::Sharded,
            Lifespan::Communicating => level >= Level::Collective,
            Lifespan::Local => level == Level::Local,
        }
    }
}

impl Family {
    /// Name in the reference.
    pub fn name(self) -> &'static str {
        match self {
            Family::Contract => "contraction",
            Family::Elementwise => "elementwise",
            Family::Reduce => "reduction",
            Family::Norm => "normalisation",
            Family::Position => "position",
            Family::Attention => "attention",
            Family::Moe => "mixture of experts",
            Family::Embed => "look-up",
            Family::Shape => "shape and format",
            Family::Placement => "placement",
            Family::Collective => "communication",
            Family::Control => "control",
        }
    }
}

impl Op {
    /// Whether the operator leaves the value as it is and moves or completes it among the devices of a
    /// stage.
    pub fn is_exchange(&self) -> bool {
        matches!(
            self,
            Op::AllGather(_)
                | Op::AllSlice(_)
                | Op::AllReduce(_)
                | Op::ReduceScatter(_)
                | Op::AllToAll(_)
                | Op::CollectivePermute(_)
        )
    }

    /// The operator with those attributes that name extents of the first result set to `dims`: at
    /// local level they are shares, like the result.
    pub fn with_extents(&self, dims: &[Dim]) -> Op {
        let mut op = self.clone();
        match &mut op {
            Op::Reshape(reshape) => reshape.shape = dims.to_vec(),
            Op::Broadcast(broadcast) => broadcast.shape = dims.to_vec(),
            Op::Dispatch(dispatch) => dispatch.experts = dims.first().copied().unwrap_or(1.into()),
            _ => {}
        }
        op
    }
}

/// A row of the operator table.
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// Name in the text.
    pub name: &'static str,
    /// Family.
    pub family: Family,
    /// Fewest and most operands.
    pub operands: (usize, usize),
    /// Where it may appear.
    pub lifespan: Lifespan,
    /// Attribute keys, in printing order.
    pub keys: &'static [&'static str],
    /// One sentence.
    pub summary: &'static str,
    /// What it computes, in full.
    pub doc: &'static str,
    /// The attributes with their meaning.
    pub attrs: fn() -> Vec<AttrInfo>,
}

impl OpInfo {
    /// The row of that name.
    pub fn find(name: &str) -> Option<&'static OpInfo> {
        OPS.iter().find(|row| row.name == name)
    }

    /// The number of operands in words: `2`, `1 to 3`.
    pub fn arity(&self) -> String {
        let (min, max) = self.operands;
        if min == max { min.to_string() } else { format!("{min} to {max}") }
    }
}

/// What type inference says about the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inferred {
    /// Exactly these.
    Types(Vec<Type>),
    /// The text declares them; how many there must be, if that is known.
    Declared(Option<usize>),
}

impl Inferred {
    /// A single result.
    pub fn one(ty: Type) -> Result<Self, String> {
        Ok(Inferred::Types(vec![ty]))
    }
}

/// Behaviour of one operator.
pub trait Operator: Attrs {
    /// Result types from operand types (the table has checked the number of operands).
    ///
    /// # Errors
    /// Says what does not fit, naming operands by position and symbols by
    /// [number](crate::dim::Sym::placeholder), since the module is not known here.
    fn infer(&self, operands: &[&Type]) -> Result<Inferred, String>;

    /// The sharding rule, or `None` where layouts do not flow through factors (collectives,
    /// reshards, control).
    fn rule(&self, _operands: &[&Type], _results: &[&Type]) -> Option<Rule> {
        None
    }
}

/// `n` distinct factor letters, for dimensions without names of their own.
pub(crate) fn letters(n: usize) -> String {
    ('a'..='z').chain('A'..='Z').take(n).collect()
}

/// Checks that two extents agree. The error shows symbols by number, as [`Sym::placeholder`] does.
pub(crate) fn same_dim(what: &str, a: Dim, b: Dim) -> Result<(), String> {
    if a == b {
        return Ok(());
    }
    let show = |d: Dim| d.show(&Sym::placeholder).to_string();
    Err(format!("{what} differs: {} against {}", show(a), show(b)))
}

/// Checks the rank of an operand.
pub(crate) fn rank_is(what: &str, ty: &Type, rank: usize) -> Result<(), String> {
    if ty.rank() == rank {
        return Ok(());
    }
    Err(format!("{what} has rank {}, not {rank}", ty.rank()))
}
