//! Positions: rotary embedding, scaling by position, slopes of distances.

use super::{Inferred, Operator, letters, same_dim};
use crate::attr::F64;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::rule::{Rule, RuleBuilder};
use crate::types::Type;
use crate::{attrs, word_enum};

word_enum! {
    /// How rotary frequencies are stretched beyond the trained context.
    pub enum RopeScaling {
        /// All frequencies divided by `factor`.
        Linear = "linear",
        /// Base raised once the context exceeds the trained one.
        Dynamic = "dynamic",
        /// Llama 3.1: three frequency bands.
        Llama3 = "llama3",
        /// YaRN (arXiv 2309.00071).
        Yarn = "yarn",
        /// LongRoPE (arXiv 2402.13753): a factor per frequency.
        LongRope = "longrope",
    }
}

attrs! {
    /// Rotation of pairs of elements by an angle proportional to the position.
    ///
    /// Dynamic scaling and LongRoPE go by how far each request has come, its largest position.
    pub struct Rope {
        /// Base of the geometric series of frequencies.
        pub theta: F64 = "theta",
        /// Leading elements of a head that rotate; all where absent.
        pub dim: Option<u64> = "dim",
        /// Pairs are neighbours (2i, 2i+1) rather than halves (i, i + dim/2).
        pub interleaved: bool = "interleaved",
        /// Stretching of the frequencies.
        pub scaling: Option<RopeScaling> = "scaling",
        /// Stretching factor.
        pub factor: Option<F64> = "factor",
        /// Context length the model was trained on.
        pub original: Option<u64> = "original",
        /// Llama 3.1: wavelengths beyond `original / low_freq` are stretched in full.
        pub low_freq: Option<F64> = "low_freq",
        /// Llama 3.1: wavelengths below `original / high_freq` are kept.
        pub high_freq: Option<F64> = "high_freq",
        /// YaRN: rotations above which a frequency is kept.
        pub beta_fast: Option<F64> = "beta_fast",
        /// YaRN: rotations below which a frequency is stretched in full.
        pub beta_slow: Option<F64> = "beta_slow",
        /// YaRN: the band limits are not rounded to whole elements.
        pub no_truncate: bool = "no_truncate",
        /// Factor on sine and cosine.
        pub magnitude: Option<F64> = "magnitude",
        /// LongRoPE: the factor beyond the original context; `magnitude` where absent.
        pub long_magnitude: Option<F64> = "long_magnitude",
        /// LongRoPE: divisors of the frequencies while all positions of a request are below
        /// `original`.
        pub short_factors: Vec<F64> = "short_factors",
        /// LongRoPE: divisors of the frequencies once one reaches it.
        pub long_factors: Vec<F64> = "long_factors",
    }

    /// Rows times `1 + by · ln(⌊(position + shift) / floor⌋ + 1)`: temperature tuning of queries
    /// (arXiv 2501.19399; Llama 4 with shift 1, Ministral 3 with 0).
    pub struct PositionScale {
        /// Where positions are counted from; 0 where absent.
        pub shift: Option<u64> = "shift",
        /// Positions per step.
        pub floor: F64 = "floor",
        /// Growth per step.
        pub by: F64 = "by",
    }

    /// ALiBi's slope of each head (arXiv 2108.12409), `[kv, group]` in f32. With `p` the largest
    /// power of two up to the `n = kv · group` heads, head `i < p` has `2^(-max_bias · (i + 1) / p)`
    /// and head `p + j` has `2^(-max_bias · (2j + 1) / 2p)`, each times `scale`.
    pub struct AlibiSlopes {
        /// Key and value heads.
        pub kv: u64 = "kv",
        /// Query heads of each.
        pub group: u64 = "group",
        /// Exponent of the smallest slope of a power of two heads.
        pub max_bias: F64 = "max_bias",
        /// Factor on the slopes; 1 where absent.
        pub scale: Option<F64> = "scale",
    }
}

/// Checks rows `[requests, tokens, …, width]` against positions `[requests, tokens]`.
fn rows_at_positions(x: &[&Type]) -> Result<(), String> {
    super::rank_is("operand 1 (positions)", x[1], 2)?;
    if x[0].rank() < 3 {
        return Err("operand 0 must be [requests, tokens, …, head width]".to_string());
    }
    same_dim("number of requests", x[0].dims[0], x[1].dims[0])?;
    same_dim("number of tokens", x[0].dims[1], x[1].dims[1])
}

impl Rope {
    /// Whether the frequencies depend on how far a request has come: every device then needs all of
    /// its positions.
    pub fn reads_context(&self) -> bool {
        matches!(self.scaling, Some(RopeScaling::Dynamic | RopeScaling::LongRope))
    }
}

impl Operator for Rope {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        rows_at_positions(x)?;
        let width = x[0].dims[x[0].rank() - 1].as_fixed().unwrap_or(0);
        let dim = self.dim.unwrap_or(width);
        if dim > width || dim % 2 == 1 {
            return Err(format!("`dim` is {dim}: it must be even and at most {width}"));
        }
        Inferred::one(x[0].as_tensor())
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let dims = letters(x[0].rank());
        let width = &dims[dims.len() - 1..];
        let (positions, whole) = match self.reads_context() {
            true => (format!("{}Z", &dims[..1]), format!("{width}Z")),
            false => (dims[..2].to_string(), width.to_string()),
        };
        let builder = RuleBuilder::new(&[&dims, &positions], &[&dims]).sizes(1, &x[1].dims);
        Some(builder.sizes(0, &x[0].dims).whole(&whole).linear(&[0]).build())
    }
}

impl Operator for AlibiSlopes {
    fn infer(&self, _operands: &[&Type]) -> Result<Inferred, String> {
        let dims = vec![Dim::fixed(self.kv), Dim::fixed(self.group)];
        Inferred::one(Type::tensor(dims, DType::F32))
    }

    /// A slope follows from the head's number, which a part of the result would lose.
    fn rule(&self, _operands: &[&Type], results: &[&Type]) -> Option<Rule> {
        let builder = RuleBuilder::new(&[], &["kg"]).result_sizes(0, &results[0].dims);
        Some(builder.whole("kg").build())
    }
}

impl Operator for PositionScale {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        rows_at_positions(x)?;
        Inferred::one(x[0].as_tensor())
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let dims = letters(x[0].rank());
        let builder = RuleBuilder::new(&[&dims, &dims[..2]], &[&dims]).sizes(0, &x[0].dims);
        Some(builder.linear(&[0]).build())
    }
}
