//! Rotary positions, decided.

/// Rotary position embedding of a query or key head.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f64,
    /// How many leading elements of a head rotate; even.
    pub dim: u64,
    /// Whether a pair is `(2i, 2i + 1)` instead of `(i, i + dim / 2)`.
    pub interleaved: bool,
    /// Change of the frequencies for longer contexts.
    pub scaling: RopeScaling,
    /// Frequencies per position axis of multimodal RoPE; text uses one position for all.
    pub sections: Vec<u64>,
}

/// How frequencies are changed for longer contexts. Names are those of `rope_type`.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not changed.
    None,
    /// Divided by `factor`.
    Linear {
        /// Divisor.
        factor: f64,
    },
    /// Base grown once the context exceeds `original` (NTK-aware).
    Dynamic {
        /// Growth.
        factor: f64,
        /// Context length of pre-training.
        original: u64,
    },
    /// Low frequencies divided, high ones kept, a ramp between (Llama 3.1).
    Llama3 {
        /// Divisor of low frequencies.
        factor: f64,
        /// Wavelengths above `original / low` are low.
        low: f64,
        /// Wavelengths below `original / high` are high.
        high: f64,
        /// Context length of pre-training.
        original: u64,
    },
    /// YaRN (arXiv 2309.00071): a ramp over dimensions, and a factor on cos and sin.
    Yarn {
        /// Divisor of low frequencies.
        factor: f64,
        /// Context length of pre-training.
        original: u64,
        /// Rotations at which the ramp begins.
        beta_fast: f64,
        /// Rotations at which the ramp ends.
        beta_slow: f64,
        /// Factor on cos and sin.
        attention_factor: f64,
        /// Whether the ramp's ends are rounded to whole dimensions.
        truncate: bool,
    },
    /// One divisor per frequency, two sets (Phi 3): `short` up to `original`, `long` beyond.
    LongRope {
        /// Divisors for contexts up to `original`.
        short: Vec<f64>,
        /// Divisors for longer contexts.
        long: Vec<f64>,
        /// Context length of pre-training.
        original: u64,
        /// Factor on cos and sin up to `original`.
        short_factor: f64,
        /// Factor on cos and sin beyond.
        long_factor: f64,
    },
}

impl Rope {
    /// Unscaled rotation of `dim` elements in halves.
    pub fn plain(theta: f64, dim: u64) -> Self {
        Rope { theta, dim, interleaved: false, scaling: RopeScaling::None, sections: Vec::new() }
    }
}
