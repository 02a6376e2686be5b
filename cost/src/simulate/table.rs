//! Step times from tables: the parts of a step, sampled once and interpolated.
//!
//! A step takes the time of its matrix products, norms and collectives, which depends on its rows
//! and tokens, plus that of experts, which depends on the tokens of all replicas that share them,
//! plus that of attention over cached tokens, plus that of attention over new tokens. Between samples each part is a straight line in each argument, so that products such as
//! requests times tokens come out exactly.

use super::{StepTimes, Work};
use crate::serving::StepTime;
use crate::time::Ns;

/// The parts of a step. Times must not shrink when an argument grows.
pub struct Parts<'a> {
    /// Everything but attention and experts, host time included, of so many requests of so many
    /// new tokens each; 1 is a decode step.
    pub dense: &'a dyn Fn(u64, u64) -> StepTime,
    /// Experts, of so many requests of so many new tokens each.
    pub experts: &'a dyn Fn(u64, u64) -> StepTime,
    /// Attention of so many requests that decode one token over so many tokens each.
    pub decode: &'a dyn Fn(u64, u64) -> StepTime,
    /// Attention of so many requests over so many new tokens each after so many cached ones.
    pub prefill: &'a dyn Fn(u64, u64, u64) -> StepTime,
    /// Most requests in a step.
    pub batch: u64,
    /// Most tokens that a request attends to.
    pub context: u64,
    /// Most new tokens of a request in a step.
    pub tokens: u64,
}

/// Sampled parts of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// By requests and new tokens of each.
    dense: Grid<2>,
    /// By tokens of a step that only decodes.
    decode_experts: Grid<1>,
    /// By tokens of another step.
    prefill_experts: Grid<1>,
    /// By requests and tokens that each attends to.
    decode: Grid<2>,
    /// By requests, new tokens of each and cached tokens of each.
    prefill: Grid<3>,
}

impl Tables {
    /// Samples the parts: some 2,000 calls of each for a thousand requests of a million tokens.
    pub fn sample(parts: &Parts<'_>) -> Tables {
        let requests = || axis(parts.batch, 3);
        let sparse = || axis(parts.batch, 2);
        let most = parts.batch.saturating_add(parts.tokens);
        Tables {
            dense: Grid::sample([requests(), axis(parts.tokens, 3)], |[n, s]| (parts.dense)(n, s)),
            decode_experts: Grid::sample([requests()], |[n]| (parts.experts)(n, 1)),
            prefill_experts: Grid::sample([axis(most, 3)], |[s]| (parts.experts)(1, s.max(2))),
            decode: Grid::sample([requests(), axis(parts.context, 2)], |[n, c]| {
                (parts.decode)(n, c)
            }),
            prefill: Grid::sample(
                [sparse(), axis(parts.tokens, 2), past(parts.context)],
                |[n, s, p]| (parts.prefill)(n, s, p),
            ),
        }
    }
}

impl StepTimes for Tables {
    fn time(&self, work: &Work) -> StepTime {
        let rows = (work.decodes + work.chunks) as f64;
        let tokens = (work.decodes + work.tokens) as f64;
        let mut time = self.dense.at([rows, tokens / rows.max(1.0)]);
        let mut add = |[latency, interval]: [f64; 2]| {
            time[0] += latency;
            time[1] += interval;
        };
        let experts = if work.chunks > 0 { &self.prefill_experts } else { &self.decode_experts };
        add(experts.at([work.shared as f64]));
        if work.decodes > 0 {
            add(self.decode.at([work.decodes as f64, work.mean_context()]));
        }
        if work.chunks > 0 {
            let (requests, new, past) = work.equal_chunks();
            add(self.prefill.at([requests, new, past]));
        }
        StepTime { latency: Ns::from_ns(time[0]), interval: Ns::from_ns(time[1]) }
    }
}

/// 1, 2, 3, 4, 6, 8, 12, … up to `most`, or powers of two only, if `dense` is 2.
fn axis(most: u64, dense: u64) -> Vec<u64> {
    let mut points = vec![1];
    let mut power = 2u64;
    while power < most {
        points.push(power);
        let half = power / 2 * 3;
        if dense > 2 && half < most && power > 1 {
            points.push(half);
        }
        power = power.saturating_mul(2);
    }
    if most > 1 {
        points.push(most);
    }
    points
}

/// 0, 512, 1024, … up to `most`: shorter pasts are a straight line to nothing.
fn past(most: u64) -> Vec<u64> {
    let mut points = vec![0];
    points.extend(axis(most, 2).into_iter().filter(|n| *n >= 512 || *n == most));
    points
}

/// Latency and interval in ns on a grid of `N` axes.
#[derive(Clone, Debug, PartialEq)]
struct Grid<const N: usize> {
    /// Growing, without gaps in memory: one or more points each.
    axes: [Vec<f64>; N],
    /// The last axis varies fastest.
    values: Vec<[f64; 2]>,
}

impl<const N: usize> Grid<N> {
    fn sample(axes: [Vec<u64>; N], at: impl Fn([u64; N]) -> StepTime) -> Grid<N> {
        let count = axes.iter().map(Vec::len).product();
        let value = |mut index: usize| {
            let mut point = [0; N];
            for i in (0..N).rev() {
                point[i] = axes[i][index % axes[i].len()];
                index /= axes[i].len();
            }
            let time = at(point);
            [time.latency.as_f64(), time.interval.as_f64()]
        };
        let values = (0..count).map(value).collect();
        Grid { axes: axes.map(|axis| axis.into_iter().map(|n| n as f64).collect()), values }
    }

    /// Linear in each argument between samples and beyond the last one, constant before the first.
    fn at(&self, point: [f64; N]) -> [f64; 2] {
        let (mut base, mut strides, mut shares) = (0, [0; N], [0.0; N]);
        let mut stride = 1;
        for i in (0..N).rev() {
            let axis = &self.axes[i];
            let above = axis.partition_point(|x| *x <= point[i]).min(axis.len() - 1);
            let low = above.saturating_sub(1);
            base += low * stride;
            if above > low {
                strides[i] = stride;
                shares[i] = ((point[i] - axis[low]) / (axis[above] - axis[low])).max(0.0);
            }
            stride *= axis.len();
        }
        let mut sum = [0.0; 2];
        for corner in 0..1usize << N {
            let (mut index, mut weight) = (base, 1.0);
            for i in 0..N {
                let high = corner >> i & 1 == 1;
                index += if high { strides[i] } else { 0 };
                weight *= if high { shares[i] } else { 1.0 - shares[i] };
            }
            // Infinity at a corner that does not count must not spoil the sum.
            if weight != 0.0 {
                let value = self.values[index];
                sum = [sum[0] + weight * value[0], sum[1] + weight * value[1]];
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ns(time: u64) -> StepTime {
        StepTime { latency: Ns::new(2 * time), interval: Ns::new(time) }
    }

    fn tables(batch: u64, context: u64, tokens: u64) -> Tables {
        Tables::sample(&Parts {
            dense: &|n, s| ns(1_000_000 + 70 * n * s + 900 * n),
            experts: &|n, s| ns(400_000 + 30 * n * s),
            decode: &|n, c| ns(5_000 + n * c),
            prefill: &|n, s, p| ns(3_000 + 2 * n * s * p + n * s),
            batch,
            context,
            tokens,
        })
    }

    #[test]
    fn axes_reach_their_ends() {
        assert_eq!(axis(1, 3), [1]);
        assert_eq!(axis(2, 3), [1, 2]);
        assert_eq!(axis(20, 3), [1, 2, 3, 4, 6, 8, 12, 16, 20]);
        assert_eq!(axis(20, 2), [1, 2, 4, 8, 16, 20]);
        assert_eq!(past(3000), [0, 512, 1024, 2048, 3000]);
        assert_eq!(past(10), [0, 10]);
    }

    proptest! {
        #[test]
        fn products_come_out_exactly(decodes in 0u64..300, context in 1u64..9000, chunks in 0u64..5, new in 1u64..3000, past in 0u64..9000) {
            let mut work = Work::default();
            (0..decodes).for_each(|_| work.add_decode(context));
            (0..chunks).for_each(|_| work.add_chunk(new, past));
            work.shared += 8;
            prop_assume!(!work.is_empty());
            let rows = decodes + chunks;
            let dense = 1_000_000 + 70 * (decodes + chunks * new) + 900 * rows;
            let decode = if decodes > 0 { 5_000 + decodes * context } else { 0 };
            let prefill = if chunks > 0 { 3_000 + 2 * chunks * new * past + chunks * new } else { 0 };
            let experts = 400_000 + 30 * (decodes + chunks * new + 8);
            let wanted = (dense + experts + decode + prefill) as f64;
            let found = tables(256, 8192, 2048).time(&work);
            prop_assert!((found.interval.as_f64() / wanted - 1.0).abs() < 1e-6, "{found:?} {wanted}");
            prop_assert!((found.latency.as_f64() / wanted / 2.0 - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn infinity_stays_where_it_is() {
        let endless = |n: u64| if n > 4 { StepTime::single(Ns::INFINITE) } else { ns(n) };
        let grid = Grid::sample([axis(16, 2)], |[n]| endless(n));
        assert_eq!(grid.at([4.0])[1], 4.0);
        assert_eq!(grid.at([4.5])[1], f64::INFINITY);
        assert!(!grid.at([99.0])[1].is_finite());
    }
}
