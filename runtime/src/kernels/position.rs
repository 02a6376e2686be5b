//! Rotary position embedding, scaling by position, and the slopes of ALiBi.

use super::operand::{Operand, Output};
use shardc_ir::attr::F64;
use shardc_ir::ops::position::{AlibiSlopes, PositionScale, Rope, RopeScaling};
use std::f64::consts::PI;

/// Positions `[b, s]` of which some or all tokens may be here.
pub struct Positions {
    numbers: Vec<i64>,
    /// Tokens that are here, and the first of them.
    tokens: usize,
    first: usize,
}

impl Positions {
    /// The positions of an operand.
    pub fn of(operand: &Operand<'_>) -> Self {
        let (tokens, first) = (operand.shape()[1], operand.place.ranges[1].start);
        Positions { numbers: operand.integers(), tokens, first }
    }

    /// The position of a token, numbered in the whole tensor, of a request that is here.
    pub fn at(&self, request: usize, token: usize) -> i64 {
        self.numbers[request * self.tokens + token - self.first]
    }

    /// All positions of a request that are here.
    pub fn row(&self, request: usize) -> &[i64] {
        &self.numbers[request * self.tokens..(request + 1) * self.tokens]
    }
}

/// Checks that the positions of the tokens of `rows` `[b, s, …]` are here.
pub fn cover(positions: &Operand<'_>, rows: &Operand<'_>) -> Result<(), String> {
    rows.need_same(0, positions, 0)?;
    let (need, have) = (&rows.place.ranges[1], &positions.place.ranges[1]);
    if need.is_empty() || (have.start <= need.start && need.end <= have.end) {
        return Ok(());
    }
    Err(format!("rows of tokens {need:?} meet positions of tokens {have:?}"))
}

/// Rows times a factor that grows with the position.
pub fn scale(
    a: &PositionScale,
    x: &Operand<'_>,
    positions: &Operand<'_>,
) -> Result<Output, String> {
    cover(positions, x)?;
    let of = Positions::of(positions);
    let (first, width) = (x.place.ranges[1].start, x.width().max(1));
    let mut numbers = x.floats();
    let mut rows = numbers.chunks_mut(width);
    x.for_each_row(|at| {
        let position = of.at(at[0], first + at[1]) as f64 + a.shift.unwrap_or(0) as f64;
        let by = (1.0 + a.by.0 * ((position / a.floor.0).floor() + 1.0).ln()) as f32;
        if let Some(row) = rows.next() {
            row.iter_mut().for_each(|x| *x *= by);
        }
    });
    Ok(numbers.into())
}

/// The slope of every head, those of a power of two heads first and then the ones between them.
pub fn alibi_slopes(a: &AlibiSlopes) -> Output {
    let heads = a.kv.saturating_mul(a.group).max(1);
    let first = 1u64 << heads.ilog2();
    let slope = |head: u64| {
        let exponent = match head.checked_sub(first) {
            None => (head + 1) as f64 / first as f64,
            Some(extra) => (2 * extra + 1) as f64 / (2 * first) as f64,
        };
        ((-a.max_bias.0 * exponent).exp2() * a.scale.map_or(1.0, |scale| scale.0)) as f32
    };
    (0..a.kv.saturating_mul(a.group)).map(slope).collect::<Vec<_>>().into()
}

/// The leading elements of every row turned pair by pair by an angle proportional to the position.
pub fn rotate(a: &Rope, x: &Operand<'_>, positions: &Operand<'_>) -> Result<Output, String> {
    let (rank, width) = (x.rank(), x.width());
    x.need_whole("the operand", [rank - 1])?;
    cover(positions, x)?;
    if a.reads_context() {
        positions.need_whole("the positions", [1])?;
    }
    let dim = a.dim.map_or(width, |d| d as usize);
    let of = Positions::of(positions);
    let first = x.place.ranges[1].start;
    let turns: Vec<Turn> =
        (0..x.shape()[0]).map(|b| Turn::new(a, dim, of.row(b).iter().max().copied())).collect();
    let mut numbers = x.floats();
    let mut rows = numbers.chunks_mut(width.max(1));
    // Sine and cosine of each pair, of the token they were last computed for.
    let mut angles: (Option<[usize; 2]>, Vec<(f32, f32)>) = (None, Vec::new());
    x.for_each_row(|at| {
        let turn = &turns[at[0]];
        if angles.0 != Some([at[0], at[1]]) {
            let position = of.at(at[0], first + at[1]) as f64;
            let angle = |f: &f64| (position * f).sin_cos();
            let scaled =
                |(s, c): (f64, f64)| ((turn.magnitude * s) as f32, (turn.magnitude * c) as f32);
            angles =
                (Some([at[0], at[1]]), turn.frequencies.iter().map(angle).map(scaled).collect());
        }
        if let Some(row) = rows.next() {
            turn_row(a.interleaved, &mut row[..dim], &angles.1);
        }
    });
    Ok(numbers.into())
}

fn turn_row(interleaved: bool, row: &mut [f32], angles: &[(f32, f32)]) {
    let half = row.len() / 2;
    for (pair, (sin, cos)) in angles.iter().enumerate() {
        let (i, j) = if interleaved { (2 * pair, 2 * pair + 1) } else { (pair, pair + half) };
        let (x, y) = (row[i], row[j]);
        row[i] = x * cos - y * sin;
        row[j] = y * cos + x * sin;
    }
}

/// Frequencies per pair and the factor on sine and cosine, for one request.
struct Turn {
    frequencies: Vec<f64>,
    magnitude: f64,
}

impl Turn {
    /// `latest` is the largest position of the request.
    fn new(a: &Rope, dim: usize, latest: Option<i64>) -> Self {
        let original = a.original.unwrap_or(0) as f64;
        let context = latest.map_or(0, |p| p + 1) as f64;
        let long = context > original;
        let factor = number(a.factor, 1.0);
        let plain = powers(a.theta.0, dim);
        let frequencies = match a.scaling {
            None => plain,
            Some(RopeScaling::Linear) => plain.iter().map(|f| f / factor).collect(),
            Some(RopeScaling::Dynamic) => {
                let grown = factor * context.max(original) / original - (factor - 1.0);
                powers(a.theta.0 * grown.powf(dim as f64 / (dim as f64 - 2.0)), dim)
            }
            Some(RopeScaling::Llama3) => plain.iter().map(|&f| llama3(a, f)).collect(),
            Some(RopeScaling::Yarn) => yarn(a, &plain),
            Some(RopeScaling::LongRope) => {
                let by = if long { &a.long_factors } else { &a.short_factors };
                plain.iter().zip(by).map(|(f, by)| f / by.0).collect()
            }
        };
        let magnitude = match a.long_magnitude {
            Some(m) if long => m.0,
            _ => number(a.magnitude, 1.0),
        };
        Turn { frequencies, magnitude }
    }
}

fn number(x: Option<F64>, default: f64) -> f64 {
    x.map_or(default, |x| x.0)
}

/// `theta^(−2i/dim)` of every pair `i`.
fn powers(theta: f64, dim: usize) -> Vec<f64> {
    (0..dim / 2).map(|i| theta.powf(-2.0 * i as f64 / dim as f64)).collect()
}

/// Llama 3.1: long wavelengths are stretched, short ones kept, those between blended.
fn llama3(a: &Rope, frequency: f64) -> f64 {
    let (low, high) = (number(a.low_freq, 1.0), number(a.high_freq, 1.0));
    let factor = number(a.factor, 1.0);
    let turns = a.original.unwrap_or(1) as f64 * frequency / (2.0 * PI);
    if turns < low {
        frequency / factor
    } else if turns > high {
        frequency
    } else {
        let kept = (turns - low) / (high - low);
        (1.0 - kept) * frequency / factor + kept * frequency
    }
}

/// YaRN: pairs that turn more often than `beta_fast` within the original context are kept, those
/// that turn less often than `beta_slow` stretched, with a linear ramp over pairs between.
fn yarn(a: &Rope, plain: &[f64]) -> Vec<f64> {
    let dim = 2.0 * plain.len() as f64;
    let factor = number(a.factor, 1.0);
    let original = a.original.unwrap_or(1) as f64;
    let pair = |turns: f64| dim * (original / (turns * 2.0 * PI)).ln() / (2.0 * a.theta.0.ln());
    let mut low = pair(number(a.beta_fast, 32.0));
    let mut high = pair(number(a.beta_slow, 1.0));
    if !a.no_truncate {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.max(0.0), high.min(dim - 1.0));
    if low == high {
        high += 0.001;
    }
    let blend = |(i, &f): (usize, &f64)| {
        let stretched = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
        f / factor * stretched + f * (1.0 - stretched)
    };
    plain.iter().enumerate().map(blend).collect()
}
