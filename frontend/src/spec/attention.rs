//! Attention, decided: heads, masks, positions, scale.

use super::{Norm, Rope};

/// How a layer mixes tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Attention {
    /// Multi-head attention with as many or fewer KV heads.
    Gqa(Gqa),
    /// Multi-head latent attention (DeepSeek).
    Mla(Mla),
    /// No attention: the branch and its norms are left out (pruned models).
    None,
}

impl From<Gqa> for Attention {
    fn from(gqa: Gqa) -> Self {
        Attention::Gqa(gqa)
    }
}

impl From<Mla> for Attention {
    fn from(mla: Mla) -> Self {
        Attention::Mla(mla)
    }
}

/// Grouped-query attention; multi-head where `kv_heads == heads`, multi-query where it is 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Gqa {
    /// Query heads.
    pub heads: u64,
    /// Key and value heads; divides `heads`.
    pub kv_heads: u64,
    /// Width of a query or key head; `heads × head_dim` need not be the hidden width.
    pub head_dim: u64,
    /// Width of a value head.
    pub v_head_dim: u64,
    /// Which projections have a bias.
    pub bias: Biases,
    /// Norm on queries and keys.
    pub qk_norm: Option<QkNorm>,
    /// Rotary positions; `None` in layers without (NoPE) and in models with other positions.
    pub rope: Option<Rope>,
    /// Slopes of scores over the distance, in place of rotation (Falcon RW, BLOOM, MPT).
    pub alibi: Option<Alibi>,
    /// Which keys a query sees.
    pub mask: Mask,
    /// Whether each query head has a learned sink logit (gpt-oss).
    pub sinks: bool,
    /// `c · tanh(scores / c)` before the softmax (Gemma 2).
    pub soft_cap: Option<f64>,
    /// Factor on `q · k`.
    pub scale: f64,
    /// Factor on queries that grows with the position (Llama 4 layers without RoPE).
    pub temperature: Option<Temperature>,
    /// Factor on values (MiMo V2).
    pub v_scale: Option<f64>,
    /// Queries, keys and values clamped to `±c` (DBRX, OLMo).
    pub clip_qkv: Option<f64>,
    /// What multiplies the output before the output projection.
    pub gate: Option<OutputGate>,
}

/// A projection of the hidden state that multiplies attention's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputGate {
    /// Whether each head has one factor instead of one per element.
    pub per_head: bool,
    /// What the projection passes through.
    pub activation: GateActivation,
}

/// The activation of an output gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateActivation {
    /// `1 / (1 + exp(−x))`.
    Sigmoid,
    /// `ln(1 + exp(x))`.
    Softplus,
}

impl Gqa {
    /// The same attention with another mask.
    pub fn masked(&self, mask: Mask) -> Self {
        Gqa { mask, ..self.clone() }
    }

    /// Plain causal attention with scale `1/√head_dim`.
    pub fn new(heads: u64, kv_heads: u64, head_dim: u64, rope: Option<Rope>) -> Self {
        Gqa {
            heads,
            kv_heads,
            head_dim,
            v_head_dim: head_dim,
            bias: Biases::NONE,
            qk_norm: None,
            rope,
            alibi: None,
            mask: Mask::Causal,
            sinks: false,
            soft_cap: None,
            scale: inverse_sqrt(head_dim),
            temperature: None,
            v_scale: None,
            clip_qkv: None,
            gate: None,
        }
    }
}

/// ALiBi (arXiv 2108.12409): score plus `slope · (key position − query position)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Alibi {
    /// Exponent of the smallest of a power of two heads' slopes; 8 but where MPT says otherwise.
    pub max_bias: f64,
    /// Factor on the slopes: 1, or that of the scores where a model scales both (Falcon).
    pub scale: f64,
}

/// `1/√n`, the usual scale of a head of width `n`.
pub(crate) fn inverse_sqrt(n: u64) -> f64 {
    1.0 / (n as f64).sqrt()
}

/// Multi-head latent attention: keys and values come from one latent row per token, which is what
/// the cache holds, next to one rotary key shared by all heads.
#[derive(Clone, Debug, PartialEq)]
pub struct Mla {
    /// Heads.
    pub heads: u64,
    /// Width of the query latent; `None` where queries are projected directly.
    pub q_lora_rank: Option<u64>,
    /// Width of the key-value latent.
    pub kv_lora_rank: u64,
    /// Width of a head's part without positions.
    pub nope_dim: u64,
    /// Width of a head's rotary part.
    pub rope_dim: u64,
    /// Width of a value head.
    pub v_dim: u64,
    /// Norm on both latents.
    pub latent_norm: Norm,
    /// Rotary positions of the rotary part.
    pub rope: Rope,
    /// Factor on `q · k`, YaRN's correction included.
    pub scale: f64,
    /// Factor on queries that grows with the position (Mistral 4).
    pub temperature: Option<Temperature>,
    /// Whether the down projections and the output projection have a bias.
    pub bias: bool,
    /// Sparse-attention indexer (DeepSeek V3.2).
    pub indexer: Option<Indexer>,
}

/// Picks the keys that sparse attention looks at: the best by
/// `Σ_h w_h · relu(q_h · k)`, with `w` a projection of the hidden state, `q` one of the query
/// latent and `k` a normed projection of the hidden state; the rotary part of `q` and `k` leads and
/// turns with the layer's frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Indexer {
    /// Heads of the indexer.
    pub heads: u64,
    /// Width of an indexer head; also what its own key cache holds per token.
    pub head_dim: u64,
    /// Keys kept per query.
    pub top_k: u64,
    /// Layer norm on the indexer's keys.
    pub key_norm: Norm,
    /// Whether neighbours turn together (GLM 5) instead of halves (DeepSeek V3.2).
    pub interleaved: bool,
}

/// Which projections have a bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Biases {
    /// Query projection.
    pub q: bool,
    /// Key projection.
    pub k: bool,
    /// Value projection.
    pub v: bool,
    /// Output projection.
    pub o: bool,
}

impl Biases {
    /// No bias.
    pub const NONE: Biases = Biases { q: false, k: false, v: false, o: false };

    /// A bias on all four, or on none.
    pub const fn all(on: bool) -> Self {
        Biases { q: on, k: on, v: on, o: on }
    }

    /// A bias on query, key and value, or on none.
    pub const fn qkv(on: bool) -> Self {
        Biases { q: on, k: on, v: on, o: false }
    }
}

/// A norm on queries and keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QkNorm {
    /// The norm.
    pub norm: Norm,
    /// What it runs over and how its weights are shared.
    pub span: QkNormSpan,
    /// Whether it comes after the rotation instead of before.
    pub after_rope: bool,
}

/// What a query-key norm runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNormSpan {
    /// Each head by itself, one weight row for all heads (Qwen 3).
    Head,
    /// Each head by itself, its own weight row (Cohere, StableLM).
    EachHead,
    /// All heads together (OLMo 2, MiniMax M2).
    Whole,
}

impl QkNorm {
    /// Each head by itself, one weight row, before the rotation.
    pub const fn per_head(norm: Norm) -> Self {
        QkNorm { norm, span: QkNormSpan::Head, after_rope: false }
    }

    /// All heads together, before the rotation.
    pub const fn whole(norm: Norm) -> Self {
        QkNorm { norm, span: QkNormSpan::Whole, after_rope: false }
    }
}

/// Which keys a query at position `q` sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// `0 ..= q`.
    Causal,
    /// `q − w + 1 ..= q`.
    Window(u64),
    /// Those of `q`'s own chunk up to `q` (Llama 4).
    Chunk(u64),
}

impl Mask {
    /// Most keys a query can see; `None` where that grows with the context.
    pub fn bound(self) -> Option<u64> {
        match self {
            Mask::Causal => None,
            Mask::Window(n) | Mask::Chunk(n) => Some(n),
        }
    }
}

/// `1 + scale · ln(⌊(position + shift) / floor⌋ + 1)` on queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature {
    /// Where positions are counted from: 1 in Llama 4, 0 in Ministral 3.
    pub shift: u64,
    /// Positions per step.
    pub floor: f64,
    /// Growth per step.
    pub scale: f64,
}
