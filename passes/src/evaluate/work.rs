//! Pieces of work over symbolic extents.

use super::price::Category;
use shardc_cost::collective::Group;
use shardc_cost::ops::{Operands, Span};
use shardc_ir::dim::{Bindings, Dim};
use shardc_ir::types::Type;

/// A product of extents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extent(pub Vec<Dim>);

impl Extent {
    /// The value, saturating; 1 for no extents.
    pub fn eval(&self, bind: &Bindings) -> u64 {
        self.0.iter().fold(1, |n, d| n.saturating_mul(d.eval(bind)))
    }
}

/// Something that takes time.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A matrix product, or several of one operand that engines fuse into one kernel.
    Gemm {
        /// Independent products.
        batch: Extent,
        /// Rows.
        m: Extent,
        /// Columns of each fused product.
        n: Vec<Extent>,
        /// Contracted length.
        k: Extent,
        /// Types.
        operands: Operands,
    },
    /// Routed experts of one layer.
    Experts {
        /// Tokens that reach the group of devices that holds all experts.
        tokens: Extent,
        /// Experts per token.
        top_k: u64,
        /// Experts in all.
        experts: u64,
        /// Devices over which they are split.
        ep: u64,
        /// Width of a token.
        hidden: Extent,
        /// Local width of an expert.
        inter: Extent,
        /// Whether there is a gate.
        gated: bool,
        /// Types.
        operands: Operands,
    },
    /// Attention.
    Attention {
        /// Requests.
        requests: Dim,
        /// New tokens of a request; 1 is a decode step.
        new: Dim,
        /// Rows of the local cache.
        context: Dim,
        /// Local KV heads.
        kv_heads: Extent,
        /// Query heads of a KV head.
        group: Extent,
        /// Width of a query and key head.
        qk_dim: Extent,
        /// Width of a value head.
        v_dim: Extent,
        /// Whether keys and values are one latent row that all heads share.
        latent: bool,
        /// What a token sees.
        span: Span,
        /// Bits of a cached element.
        kv_bits: u32,
    },
    /// A kernel bound by memory traffic.
    Stream {
        /// Values read or written, each with how often.
        values: Vec<(Type, u64)>,
    },
    /// Choosing a token.
    Sampling {
        /// Rows.
        rows: Extent,
        /// Local vocabulary.
        vocab: Dim,
    },
    /// Communication.
    Communicate(Comm),
}

/// A collective, or a transfer between stages.
#[derive(Clone, Debug, PartialEq)]
pub struct Comm {
    /// Operator name.
    pub name: &'static str,
    /// Who takes part.
    pub group: Group,
    /// One device's operand and result; equal for transfers.
    pub before: Type,
    /// One device's result.
    pub after: Type,
    /// Rows travel to experts (`Some(true)`) or back (`Some(false)`).
    pub routed: Option<bool>,
    /// Whether a transfer leaves the node.
    pub across_nodes: bool,
}

impl Work {
    /// Every extent that its time depends on.
    pub fn dims(&self) -> Vec<Dim> {
        match self {
            Work::Gemm { batch, m, n, k, .. } => {
                [batch, m, k].into_iter().chain(n).flat_map(|e| e.0.clone()).collect()
            }
            Work::Experts { tokens, hidden, inter, .. } => {
                [tokens, hidden, inter].into_iter().flat_map(|e| e.0.clone()).collect()
            }
            Work::Attention { requests, new, context, kv_heads, group, qk_dim, v_dim, .. } => {
                let heads = [kv_heads, group, qk_dim, v_dim].into_iter().flat_map(|e| e.0.clone());
                [*requests, *new, *context].into_iter().chain(heads).collect()
            }
            Work::Stream { values } => values.iter().flat_map(|(ty, _)| ty.dims.clone()).collect(),
            Work::Sampling { rows, vocab } => rows.0.iter().copied().chain([*vocab]).collect(),
            Work::Communicate(comm) => {
                comm.before.dims.iter().chain(&comm.after.dims).copied().collect()
            }
        }
    }

    /// Where reports count it.
    pub fn category(&self) -> Category {
        match self {
            Work::Gemm { .. } => Category::Gemm,
            Work::Experts { .. } => Category::Experts,
            Work::Attention { .. } => Category::Attention,
            Work::Stream { .. } => Category::Elementwise,
            Work::Sampling { .. } => Category::Sampling,
            Work::Communicate(_) => Category::Communication,
        }
    }
}
