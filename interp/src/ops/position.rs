//! Rotary position embedding, scaling by position, and the slopes of ALiBi.

use crate::place::Part;
use crate::tensor::Tensor;
use shardc_ir::ops::position::{AlibiSlopes, PositionScale, Rope, RopeScaling};
use std::f64::consts::PI;

/// Positions `[b, s]` of which some or all tokens may be here.
#[derive(Clone, Copy)]
pub(super) struct Positions<'a>(pub(super) Part<'a>);

impl Positions<'_> {
    /// The position of a token, numbered in the whole tensor, of a request that is here.
    pub(super) fn of(&self, request: usize, token: usize) -> i64 {
        self.0.tensor.at(&[request, token - self.0.place.ranges[1].start]) as i64
    }

    /// All positions of a request.
    pub(super) fn row(&self, request: usize) -> impl Iterator<Item = i64> + '_ {
        self.0.tensor.row(&[request]).iter().map(|&p| p as i64)
    }

    /// Checks that the positions of the tokens of `rows` `[b, s, …]` are here.
    pub(super) fn cover(&self, rows: Part<'_>) -> Result<(), String> {
        rows.need_same(0, &self.0, 0)?;
        let (need, have) = (&rows.place.ranges[1], &self.0.place.ranges[1]);
        if need.is_empty() || (have.start <= need.start && need.end <= have.end) {
            return Ok(());
        }
        Err(format!("rows of tokens {need:?} meet positions of tokens {have:?}"))
    }
}

/// Rows times a factor that grows with the position.
pub(super) fn scale(a: &PositionScale, x: Part<'_>, positions: Part<'_>) -> Result<Tensor, String> {
    let positions = Positions(positions);
    positions.cover(x)?;
    let first = x.place.ranges[1].start;
    Ok(Tensor::from_fn(x.shape(), |at| {
        let position = positions.of(at[0], first + at[1]) as f64 + a.shift.unwrap_or(0) as f64;
        x.tensor.at(at) * (1.0 + a.by.0 * ((position / a.floor.0).floor() + 1.0).ln())
    }))
}

/// The slope of every head, those of a power of two heads first and then the ones between them.
pub(super) fn alibi_slopes(a: &AlibiSlopes) -> Tensor {
    let heads = a.kv.saturating_mul(a.group).max(1);
    let first = 1 << heads.ilog2();
    let exponent = |head: u64| match head.checked_sub(first) {
        None => (head + 1) as f64 / first as f64,
        Some(extra) => (2 * extra + 1) as f64 / (2 * first) as f64,
    };
    Tensor::from_fn(&[a.kv as usize, a.group as usize], |at| {
        let head = at[0] as u64 * a.group + at[1] as u64;
        (-a.max_bias.0 * exponent(head)).exp2() * a.scale.map_or(1.0, |scale| scale.0)
    })
}

/// The leading elements of every row turned pair by pair by an angle proportional to the position.
pub(super) fn rotate(a: &Rope, x: Part<'_>, positions: Part<'_>) -> Result<Tensor, String> {
    let last = x.tensor.rank() - 1;
    x.need_whole("the operand", [last])?;
    let positions = Positions(positions);
    positions.cover(x)?;
    if a.reads_context() {
        positions.0.need_whole("the positions", [1])?;
    }
    let dim = a.dim.map_or(x.shape()[last], |d| d as usize);
    let first = x.place.ranges[1].start;
    let requests = 0..x.shape()[0];
    let turns: Vec<Turn> = requests.map(|b| Turn::new(a, dim, positions.row(b).max())).collect();
    Ok(Tensor::from_fn(x.shape(), |at| {
        let element = at[last];
        if element >= dim {
            return x.tensor.at(at);
        }
        let (pair, partner, sign) = paired(a.interleaved, dim, element);
        let mut there = at.to_vec();
        there[last] = partner;
        let turn = &turns[at[0]];
        let angle = positions.of(at[0], first + at[1]) as f64 * turn.frequencies[pair];
        turn.magnitude * (x.tensor.at(at) * angle.cos() + sign * x.tensor.at(&there) * angle.sin())
    }))
}

/// The number of an element's pair, the other element, and the sign of its share.
fn paired(interleaved: bool, dim: usize, element: usize) -> (usize, usize, f64) {
    let half = dim / 2;
    let (pair, second) = if interleaved {
        (element / 2, element % 2 == 1)
    } else {
        (element % half, element >= half)
    };
    let partner = match (interleaved, second) {
        (true, false) => element + 1,
        (true, true) => element - 1,
        (false, false) => element + half,
        (false, true) => element - half,
    };
    (pair, partner, if second { 1.0 } else { -1.0 })
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
        let factor = a.factor.map_or(1.0, |f| f.0);
        let plain = |theta: f64| powers(theta, dim);
        let long = context > original;
        let frequencies = match a.scaling {
            None => plain(a.theta.0),
            Some(RopeScaling::Linear) => plain(a.theta.0).iter().map(|f| f / factor).collect(),
            Some(RopeScaling::Dynamic) => {
                let grown = factor * context.max(original) / original - (factor - 1.0);
                plain(a.theta.0 * grown.powf(dim as f64 / (dim as f64 - 2.0)))
            }
            Some(RopeScaling::Llama3) => plain(a.theta.0).iter().map(|&f| llama3(a, f)).collect(),
            Some(RopeScaling::Yarn) => yarn(a, dim),
            Some(RopeScaling::LongRope) => {
                let by = if long { &a.long_factors } else { &a.short_factors };
                plain(a.theta.0).iter().zip(by).map(|(f, by)| f / by.0).collect()
            }
        };
        let short = a.magnitude.map_or(1.0, |m| m.0);
        let magnitude = match a.long_magnitude {
            Some(m) if long => m.0,
            _ => short,
        };
        Turn { frequencies, magnitude }
    }
}

/// `theta^(−2i/dim)` of every pair `i`.
fn powers(theta: f64, dim: usize) -> Vec<f64> {
    (0..dim / 2).map(|i| theta.powf(-2.0 * i as f64 / dim as f64)).collect()
}

/// Llama 3.1: long wavelengths are stretched, short ones kept, those between blended.
fn llama3(a: &Rope, frequency: f64) -> f64 {
    let number = |x: Option<shardc_ir::attr::F64>| x.map_or(1.0, |x| x.0);
    let (low, high, factor) = (number(a.low_freq), number(a.high_freq), number(a.factor));
    let original = a.original.unwrap_or(1) as f64;
    let wavelength = 2.0 * PI / frequency;
    if wavelength > original / low {
        frequency / factor
    } else if wavelength < original / high {
        frequency
    } else {
        let kept = (original / wavelength - low) / (high - low);
        (1.0 - kept) * frequency / factor + kept * frequency
    }
}

/// YaRN: pairs that turn more often than `beta_fast` within the original context are kept, those
/// that turn less often than `beta_slow` stretched, with a linear ramp over pairs between.
fn yarn(a: &Rope, dim: usize) -> Vec<f64> {
    let number = |x: Option<shardc_ir::attr::F64>, default: f64| x.map_or(default, |x| x.0);
    let (factor, theta) = (number(a.factor, 1.0), a.theta.0);
    let original = a.original.unwrap_or(1) as f64;
    let pair = |turns: f64| dim as f64 * (original / (turns * 2.0 * PI)).ln() / (2.0 * theta.ln());
    let (low, high) = (pair(number(a.beta_fast, 32.0)), pair(number(a.beta_slow, 1.0)));
    let (low, high) = if a.no_truncate { (low, high) } else { (low.floor(), high.ceil()) };
    let (low, high) = (low.max(0.0), high.min(dim as f64 - 1.0));
    let high = if low == high { high + 0.001 } else { high };
    let stretched = |i: usize| ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
    let blend = |(i, &f): (usize, &f64)| f / factor * stretched(i) + f * (1.0 - stretched(i));
    powers(theta, dim).iter().enumerate().map(blend).collect()
}
