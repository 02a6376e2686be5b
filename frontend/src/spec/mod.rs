//! A fully decided description of a decoder-only language model.
//!
//! Nothing is left to defaults: a [`ModelSpec`] says for every layer which attention, which
//! feed-forward block and which norms it has, so that a graph follows from it mechanically and
//! [`weights`](ModelSpec::weights) lists every parameter.

pub(crate) mod attention;
mod count;
mod ffn;
pub(crate) mod names;
mod quantise;
mod rope;
mod storage;
mod weights;

pub use attention::{
    Alibi, Attention, Biases, GateActivation, Gqa, Indexer, Mask, Mla, OutputGate, QkNorm,
    QkNormSpan, Temperature,
};
pub use count::KvCache;
pub use ffn::{
    Activation, Correction, Ffn, GroupLimit, GroupScore, Mlp, Moe, Router, Scoring, Shared,
};
pub use names::{Fusion, NameRow, Names, Packing, Part};
pub use quantise::{Pattern, Quantisation, Scheme};
pub use rope::{Rope, RopeScaling};
pub use storage::{DType, Scales, Storage};
pub use weights::{Role, Weight};

/// A model, every choice made.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Name for people; not part of the model.
    pub name: String,
    /// Family that read it, such as `llama`.
    pub family: &'static str,
    /// First entry of `architectures`, or the model type where there is none.
    pub architecture: String,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Rows of the embedding, unpadded.
    pub vocab: u64,
    /// Longest context the configuration allows; `None` where it names none.
    pub max_positions: Option<u64>,
    /// Format of activations and of unquantised weights.
    pub dtype: DType,
    /// How token ids become the first hidden state.
    pub embedding: Embedding,
    /// The layers in order; at least one.
    pub layers: Vec<LayerSpec>,
    /// Norm before the head; `None` where the model has none.
    pub final_norm: Option<Norm>,
    /// How the last hidden state becomes logits.
    pub head: Head,
    /// How weights are stored.
    pub quantisation: Quantisation,
    /// Tensor names in a checkpoint.
    pub names: Names,
}

/// The token embedding.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embedding {
    /// Factor on the embedding (Gemma: √hidden; Granite: `embedding_multiplier`).
    pub scale: Option<f64>,
    /// A learned position embedding, added to the token embedding.
    pub positions: Option<Positions>,
    /// Norm right after the embedding.
    pub norm: Option<Norm>,
}

/// A learned position embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positions {
    /// Its rows.
    pub rows: u64,
    /// The row of position 0 (OPT: 2).
    pub first: u64,
}

/// The language-model head: `logits = soft_cap(scale · (x · W [+ b]))`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Head {
    /// Whether `W` is the embedding.
    pub tied: bool,
    /// Whether a bias is added.
    pub bias: bool,
    /// Factor on the logits (Granite: 1 / `logits_scaling`; Cohere: `logit_scale`).
    pub scale: Option<f64>,
    /// `c · tanh(logits / c)`.
    pub soft_cap: Option<f64>,
}

/// One decoder layer.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSpec {
    /// Token mixing.
    pub attention: Attention,
    /// Feed-forward block.
    pub ffn: Ffn,
    /// Norms and residual connections around both.
    pub block: Block,
    /// Factor on what each branch adds to the residual stream (Granite).
    pub residual_scale: Option<f64>,
}

impl LayerSpec {
    /// A layer whose branches join the residual stream as they are.
    pub fn new(attention: impl Into<Attention>, ffn: impl Into<Ffn>, block: Block) -> Self {
        LayerSpec { attention: attention.into(), ffn: ffn.into(), block, residual_scale: None }
    }
}

/// Where norms stand and how branches join the residual stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// `x += attn_out(attention(attn_in(x)))`, then `x += ffn_out(ffn(ffn_in(x)))`; an absent norm
    /// is the identity. Pre-norm, post-norm and sandwich models differ only in which are there.
    Sequential {
        /// Before attention.
        attn_in: Option<Norm>,
        /// On attention's output, before the residual addition.
        attn_out: Option<Norm>,
        /// Before the feed-forward block.
        ffn_in: Option<Norm>,
        /// On the feed-forward block's output, before the residual addition.
        ffn_out: Option<Norm>,
    },
    /// `x += attention(attn_in(x)) + ffn(ffn_in(x))`.
    Parallel {
        /// Before attention.
        attn_in: Norm,
        /// Before the feed-forward block; `None` where it shares `attn_in`'s output.
        ffn_in: Option<Norm>,
    },
}

impl Block {
    /// A norm before each branch, as in Llama.
    pub fn pre(norm: Norm) -> Self {
        Block::Sequential { attn_in: Some(norm), attn_out: None, ffn_in: Some(norm), ffn_out: None }
    }

    /// A norm on each branch's output, as in OLMo 2.
    pub fn post(norm: Norm) -> Self {
        Block::Sequential { attn_in: None, attn_out: Some(norm), ffn_in: None, ffn_out: Some(norm) }
    }

    /// Norms on both sides of each branch, as in Gemma 2.
    pub fn sandwich(norm: Norm) -> Self {
        Block::Sequential {
            attn_in: Some(norm),
            attn_out: Some(norm),
            ffn_in: Some(norm),
            ffn_out: Some(norm),
        }
    }
}

/// A normalisation over the last dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Which statistic is taken.
    pub kind: NormKind,
    /// Added to the variance.
    pub eps: f64,
    /// Whether a learned scale follows.
    pub weight: bool,
    /// Whether the scale is `1 + weight` (Gemma).
    pub unit_offset: bool,
    /// Whether a learned bias follows.
    pub bias: bool,
}

/// The statistic of a norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// Root mean square.
    Rms,
    /// Mean and variance.
    Layer,
}

impl Norm {
    /// RMS norm with a scale.
    pub const fn rms(eps: f64) -> Self {
        Norm { kind: NormKind::Rms, eps, weight: true, unit_offset: false, bias: false }
    }

    /// Layer norm with a scale and, if `bias`, a bias.
    pub const fn layer(eps: f64, bias: bool) -> Self {
        Norm { kind: NormKind::Layer, eps, weight: true, unit_offset: false, bias }
    }

    /// The same norm without learned parameters.
    pub const fn bare(self) -> Self {
        Norm { weight: false, bias: false, ..self }
    }

    /// The same norm with scale `1 + weight`.
    pub const fn offset(self) -> Self {
        Norm { unit_offset: true, ..self }
    }
}

impl ModelSpec {
    /// Groups equal layers: each class with the indices that share it, in order of first use.
    pub fn layer_classes(&self) -> Vec<(&LayerSpec, Vec<usize>)> {
        let mut classes: Vec<(&LayerSpec, Vec<usize>)> = Vec::new();
        for (index, layer) in self.layers.iter().enumerate() {
            match classes.iter_mut().find(|(class, _)| *class == layer) {
                Some((_, members)) => members.push(index),
                None => classes.push((layer, vec![index])),
            }
        }
        classes
    }
}
