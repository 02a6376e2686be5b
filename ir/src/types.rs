//! Types of values: tensors, weights, caches and routed rows.

use crate::dim::{Bindings, Dim};
use crate::dtype::{DType, Elem};

/// What a value is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// An activation or an input.
    Tensor,
    /// A parameter of the model.
    Weight,
    /// A KV cache; above plan level a value like any other, at plan level updated in place.
    Cache,
    /// Rows routed to experts: dimension 0 numbers the experts, and of every token only `top_k`
    /// experts hold a row. Absent rows are neither stored nor computed.
    Routed {
        /// Experts that hold a row of one token.
        top_k: u64,
    },
}

impl Kind {
    /// Whether values of this kind are stored between steps.
    pub fn is_stored(self) -> bool {
        matches!(self, Kind::Weight | Kind::Cache)
    }
}

/// The type of a value: what it is for, its extents (global above local level) and its elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Type {
    /// What it is for.
    pub kind: Kind,
    /// Extents, outermost first.
    pub dims: Vec<Dim>,
    /// Element format.
    pub elem: Elem,
}

impl Type {
    /// A plain tensor.
    pub fn tensor(dims: Vec<Dim>, elem: impl Into<Elem>) -> Self {
        Type { kind: Kind::Tensor, dims, elem: elem.into() }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The same type with other extents.
    pub fn with_dims(&self, dims: Vec<Dim>) -> Self {
        Type { dims, ..self.clone() }
    }

    /// The same extents and elements as an activation.
    pub fn as_tensor(&self) -> Self {
        Type { kind: Kind::Tensor, dims: self.dims.clone(), elem: Elem::plain(self.elem.dtype) }
    }

    /// The same extents with another element format.
    pub fn with_dtype(&self, dtype: DType) -> Self {
        Type { elem: Elem::plain(dtype), ..self.clone() }
    }

    /// Stored elements under `bind`, saturating. Of routed rows, at the static worst case:
    /// `min(top_k, local experts)` rows per token.
    pub fn elements(&self, bind: &Bindings) -> u64 {
        let extent = |(i, d): (usize, &Dim)| match (i, self.kind) {
            (0, Kind::Routed { top_k }) => d.eval(bind).min(top_k),
            _ => d.eval(bind),
        };
        self.dims.iter().enumerate().map(extent).fold(1u64, u64::saturating_mul)
    }

    /// What `bytes`, counted for every element, comes to where absent rows are left out: of routed
    /// rows the part that a token's experts are of all experts here.
    pub fn present(&self, bytes: u64, bind: &Bindings) -> u64 {
        let (Kind::Routed { top_k }, Some(experts)) = (self.kind, self.dims.first()) else {
            return bytes;
        };
        let experts = experts.eval(bind).max(1);
        let present = u128::from(bytes) * u128::from(top_k.min(experts)) / u128::from(experts);
        u64::try_from(present).unwrap_or(u64::MAX)
    }

    /// Bytes of storage under `bind`, scales included, saturating.
    pub fn bytes(&self, bind: &Bindings) -> u64 {
        let bits = u128::from(self.elements(bind)) * u128::from(self.elem.dtype.bits());
        let data = u64::try_from(bits.div_ceil(8)).unwrap_or(u64::MAX);
        data.saturating_add(self.scale_bytes(bind))
    }

    /// Bytes of the scales of block-scaled storage under `bind`, with what stands beside them.
    pub fn scale_bytes(&self, bind: &Bindings) -> u64 {
        let Some(b) = self.elem.blocks else { return 0 };
        let product = |dims: &[Dim]| dims.iter().fold(1u64, |n, d| n.saturating_mul(d.eval(bind)));
        let (batch, split) = (usize::from(b.batch), usize::from(b.split).min(self.rank()));
        let batch = batch.min(split);
        let count = |extent: u64, block: u32| match block {
            0 => 1,
            block => extent.div_ceil(u64::from(block)),
        };
        let rows = count(product(&self.dims[batch..split]), b.rows);
        let cols = count(product(&self.dims[split..]), b.cols);
        product(&self.dims[..batch]).saturating_mul(b.bytes(rows.saturating_mul(cols)))
    }
}
