//! A histogram of times with equal relative error, for what is too much to keep.

use super::Distribution;
use crate::time::Ns;

/// Times counted in buckets that are a thirty-second of their octave wide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    max: u64,
    /// The last time counted and its bucket: successive times are often equal.
    latest: (u64, usize),
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: vec![0; bucket(u64::MAX) + 1],
            total: 0,
            sum: 0,
            max: 0,
            latest: (0, 0),
        }
    }
}

/// Sub-buckets of an octave, as a power of two.
const BITS: u32 = 5;

/// Exact below 2⁵; then the octave and the next five bits.
fn bucket(time: u64) -> usize {
    let shift = (63 - (time | 1).leading_zeros()).saturating_sub(BITS);
    ((u64::from(shift) << BITS) + (time >> shift)) as usize
}

/// The largest time of a bucket.
fn top(bucket: usize) -> u64 {
    let shift = (bucket >> BITS).saturating_sub(1) as u32;
    let low = (bucket as u64 - (u64::from(shift) << BITS)) << shift;
    low + ((1u64 << shift) - 1)
}

impl Histogram {
    /// Counts a time.
    pub fn add(&mut self, time: u64) {
        if time != self.latest.0 {
            self.latest = (time, bucket(time));
        }
        self.counts[self.latest.1] += 1;
        self.total += 1;
        self.sum += u128::from(time);
        self.max = self.max.max(time);
    }

    /// Times counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// A time that at least `percent` per cent do not exceed, at most 3.2 % too large; `None`
    /// where nothing was counted.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let rank = (u128::from(self.total) * u128::from(percent.min(100))).div_ceil(100) as u64;
        let mut seen = 0;
        let reached = |count: &u64| {
            seen += count;
            seen >= rank.max(1)
        };
        self.counts.iter().position(reached).map(|bucket| top(bucket).min(self.max))
    }

    /// Mean and maximum, exact, with percentiles.
    pub fn distribution(&self) -> Distribution {
        let at = |percent| Ns::new(self.percentile(percent).unwrap_or(0));
        Distribution {
            count: self.total,
            mean: Ns::new(self.sum.checked_div(u128::from(self.total)).unwrap_or(0) as u64),
            p50: at(50),
            p90: at(90),
            p95: at(95),
            p99: at(99),
            max: Ns::new(self.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_of_few_times() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(50), None);
        [3, 5, 7, 9].into_iter().for_each(|time| histogram.add(time));
        let at = |p| histogram.percentile(p);
        assert_eq!([at(0), at(50), at(51), at(100)].map(Option::unwrap), [3, 5, 7, 9]);
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_times(time: u64) {
            let top = top(bucket(time));
            prop_assert!(top >= time && top - time <= time / 32);
            prop_assert!(top == u64::MAX || bucket(top + 1) == bucket(time) + 1);
        }
    }
}
