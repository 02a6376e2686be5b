//! Feed-forward blocks, decided: dense or mixture of experts, and how tokens are routed.

/// A layer's feed-forward block.
#[derive(Clone, Debug, PartialEq)]
pub enum Ffn {
    /// One block for all tokens.
    Dense(Mlp),
    /// Routed experts.
    Moe(Moe),
    /// No feed-forward block: the branch and its norms are left out (pruned models).
    None,
}

impl From<Mlp> for Ffn {
    fn from(mlp: Mlp) -> Self {
        Ffn::Dense(mlp)
    }
}

impl From<Moe> for Ffn {
    fn from(moe: Moe) -> Self {
        Ffn::Moe(moe)
    }
}

/// One feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mlp {
    /// Width between the projections.
    pub width: u64,
    /// Whether the activation gates a second projection: `down(act(gate(x)) · up(x))`; else
    /// `down(act(up(x)))`.
    pub gated: bool,
    /// The activation.
    pub activation: Activation,
    /// Whether every projection has a bias.
    pub bias: bool,
}

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `x · sigmoid(x)`.
    Silu,
    /// Exact GELU.
    Gelu,
    /// GELU in its tanh form.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0)²`.
    Relu2,
    /// xIELU (arXiv 2411.13010) with two learned numbers `p` and `n`, `s = softplus`:
    /// `x / 2 + s(p) · max(x, 0)² + (1/2 + s(n)) · (exp(m) − 1 − m)` with `m = min(x, 0)`.
    Xielu,
    /// gpt-oss: `gate = min(gate, limit)`, `up = clamp(up, ±limit)`,
    /// `(up + 1) · gate · sigmoid(alpha · gate)`.
    ClampedSwiglu {
        /// Factor inside the sigmoid.
        alpha: f64,
        /// Clamp.
        limit: f64,
    },
}

/// A mixture of experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moe {
    /// Routed experts.
    pub experts: u64,
    /// Experts per token.
    pub top_k: u64,
    /// Each routed expert.
    pub expert: Mlp,
    /// How experts are chosen and weighted.
    pub router: Router,
    /// Experts that every token passes, as one wide network.
    pub shared: Option<Shared>,
}

/// Experts that every token passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shared {
    /// All shared experts as one network: width is their sum.
    pub mlp: Mlp,
    /// Whether a learned sigmoid gate (one output per token) scales the result (Qwen 2 MoE).
    pub gate: bool,
}

/// From a token to its experts and their weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Router {
    /// How logits become scores.
    pub scoring: Scoring,
    /// Experts are chosen within the best groups only.
    pub groups: Option<GroupLimit>,
    /// Whether the chosen weights are divided by their sum.
    pub normalise: bool,
    /// Factor on the chosen weights.
    pub scale: f64,
    /// A learned bias per expert, added to scores for the choice, not for the weights.
    pub correction: Correction,
    /// Whether the router projection has a bias.
    pub bias: bool,
    /// Whether the weight scales the expert's input instead of its output (Llama 4).
    pub scales_input: bool,
}

impl Router {
    /// A router without groups, biases or factors.
    pub const fn new(scoring: Scoring, normalise: bool) -> Self {
        Router {
            scoring,
            groups: None,
            normalise,
            scale: 1.0,
            correction: Correction::None,
            bias: false,
            scales_input: false,
        }
    }
}

/// How router logits become scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scoring {
    /// Softmax over all experts, then the best k (Mixtral with `normalise`, Qwen, DeepSeek V2).
    Softmax,
    /// The best k logits, then softmax over those (gpt-oss, Granite MoE).
    SoftmaxOfTopK,
    /// Sigmoid of each logit (DeepSeek V3, GLM 4.5, MiniMax M2, Llama 4).
    Sigmoid,
    /// Experts one after another by masked softmax (Phi 3.5 MoE).
    SparseMixer {
        /// Logits further than twice this below the best, relative to it, are masked.
        jitter: f64,
    },
}

/// A bias per expert that only steers the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// There is none.
    None,
    /// Stored, but a buffer and hence no parameter (DeepSeek V3).
    Buffer,
    /// Stored and counted as a parameter (ERNIE 4.5).
    Parameter,
}

/// Choice within the best groups of experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupLimit {
    /// Groups of equal size.
    pub groups: u64,
    /// Groups kept.
    pub keep: u64,
    /// How a group is scored.
    pub score: GroupScore,
}

/// The score of a group of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupScore {
    /// Its best expert (DeepSeek V2).
    Max,
    /// The sum of its best two (DeepSeek V3).
    Top2Sum,
}
