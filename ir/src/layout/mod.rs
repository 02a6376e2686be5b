//! Layouts: how a tensor is spread over a mesh, decided or annotated.
//!
//! Submodules: [`axes`] is the algebra of axis lists, [`codes`] the errors; the rest adds methods
//! to [`Layout`] and [`Sharding`]: normal form and edits, validity, extents and index sets per
//! device, text.

pub mod axes;
pub mod codes;
mod edit;
mod extent;
mod parse;
mod show;
mod validate;

pub use extent::{Digit, block, gcd, local_extent, primes};
pub use validate::{MAX_PROBLEMS, follows_primes, refines};

use crate::mesh::AxisRef;

/// How a partial value is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReduceKind {
    /// Addition.
    Sum,
    /// Element-wise maximum.
    Max,
    /// (value, index) pairs; the lowest index wins a tie.
    ArgMax,
    /// Attention over part of the keys: (accumulator, running maximum, running sum).
    Lse,
}

/// Axes along which a value still has to be reduced.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partial {
    /// The pending reduction.
    pub kind: ReduceKind,
    /// The axes, major first.
    pub axes: Vec<AxisRef>,
}

/// A decided layout: per dimension the axes that split it (major to minor), and pending reductions.
///
/// Axes named nowhere replicate the value. An axis stands for its prime factors, largest first,
/// split one after another; each prime `p` splits evenly but for the remainder, of which the first
/// parts get one more each. Equal placement is `==` of [normalised](Self::normalise) layouts.
/// Pending reductions of different kinds complete in the order listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Layout {
    /// One axis list per dimension, major to minor.
    pub dims: Vec<Vec<AxisRef>>,
    /// Pending reductions; empty for a complete value.
    pub unreduced: Vec<Partial>,
}

/// A user's annotation of one dimension, beyond its axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DimAnnotation {
    /// Propagation may append axes (`?` in text).
    pub open: bool,
    /// Smaller propagates first (`p1` in text); `None` is 0.
    pub priority: Option<u32>,
}

/// A layout as written in a program: decided when every dimension is closed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharding {
    /// The axes.
    pub layout: Layout,
    /// One per dimension; empty means all closed without priority.
    pub dims: Vec<DimAnnotation>,
    /// Axes along which the value must stay replicated.
    pub replicated: Vec<AxisRef>,
}

impl ReduceKind {
    /// Every kind with its name in the text.
    pub const NAMES: [(ReduceKind, &'static str); 4] = [
        (ReduceKind::Sum, "sum"),
        (ReduceKind::Max, "max"),
        (ReduceKind::ArgMax, "argmax"),
        (ReduceKind::Lse, "lse"),
    ];

    /// Name in the text.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, n)| *n == name).map(|(k, _)| *k)
    }
}

impl Layout {
    /// The layout that replicates a tensor of `rank` dimensions everywhere.
    pub fn replicated(rank: usize) -> Self {
        Layout { dims: vec![Vec::new(); rank], unreduced: Vec::new() }
    }

    /// Whether nothing is split and nothing pends.
    pub fn is_replicated(&self) -> bool {
        self.unreduced.is_empty() && self.dims.iter().all(Vec::is_empty)
    }
}

impl Sharding {
    /// A decided sharding.
    pub fn decided(layout: Layout) -> Self {
        Sharding { layout, dims: Vec::new(), replicated: Vec::new() }
    }

    /// The annotation of dimension `dim`.
    pub fn annotation(&self, dim: usize) -> DimAnnotation {
        self.dims.get(dim).copied().unwrap_or_default()
    }

    /// Whether every dimension is closed and no replication is pinned.
    pub fn is_decided(&self) -> bool {
        self.replicated.is_empty() && self.dims.iter().all(|d| *d == DimAnnotation::default())
    }
}

#[cfg(test)]
mod tests;
