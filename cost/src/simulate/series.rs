//! Gauges over time in a bounded number of equal intervals.

/// Time integrals of a pool's gauges over one interval: gauge times ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Requests that run.
    pub running: u128,
    /// Requests that wait.
    pub waiting: u128,
    /// KV bytes in use.
    pub kv_bytes: u128,
}

impl Point {
    fn add(&mut self, gauge: &Gauge, time: u64) {
        let time = u128::from(time);
        self.running += u128::from(gauge.running) * time;
        self.waiting += u128::from(gauge.waiting) * time;
        self.kv_bytes += u128::from(gauge.kv_bytes) * time;
    }

    fn merge(&self, other: &Point) -> Point {
        Point {
            running: self.running + other.running,
            waiting: self.waiting + other.waiting,
            kv_bytes: self.kv_bytes + other.kv_bytes,
        }
    }
}

/// Gauges of a pool at one moment, summed over replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gauge {
    pub running: u64,
    pub waiting: u64,
    pub kv_bytes: u64,
}

impl Gauge {
    /// The sum after one of its parts has changed.
    pub fn replace(&self, old: &Gauge, new: &Gauge) -> Gauge {
        let change = |sum: u64, old: u64, new: u64| (sum - old).saturating_add(new);
        Gauge {
            running: change(self.running, old.running, new.running),
            waiting: change(self.waiting, old.waiting, new.waiting),
            kv_bytes: change(self.kv_bytes, old.kv_bytes, new.kv_bytes),
        }
    }
}

/// Gauges over equal intervals, the first at time 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// Length of an interval, ns.
    pub width: u64,
    /// One point an interval, up to the end.
    pub points: Vec<Point>,
}

/// Most intervals; when there are more, pairs become one.
const MOST: usize = 512;

impl Default for Series {
    fn default() -> Series {
        Series { width: 1 << 16, points: Vec::new() }
    }
}

impl Series {
    /// Adds a gauge that held from one time to another.
    pub(super) fn add(&mut self, from: u64, to: u64, gauge: &Gauge) {
        while to > from && (to - 1) / self.width >= MOST as u64 {
            self.halve();
        }
        let mut at = from;
        while at < to {
            let index = at / self.width;
            let end = to.min((index + 1).saturating_mul(self.width));
            let index = index as usize;
            if self.points.len() <= index {
                self.points.resize(index + 1, Point::default());
            }
            self.points[index].add(gauge, end - at);
            at = end;
        }
    }

    fn halve(&mut self) {
        let pair = |pair: &[Point]| pair.iter().fold(Point::default(), |a, b| a.merge(b));
        self.points = self.points.chunks(2).map(pair).collect();
        self.width = self.width.saturating_mul(2);
    }

    /// The integrals over all time.
    pub fn total(&self) -> Point {
        self.points.iter().fold(Point::default(), |a, b| a.merge(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integrals_are_exact(spans in prop::collection::vec((0u64..1 << 40, 0u64..1000), 0..50)) {
            let (mut series, mut now, mut sum) = (Series::default(), 0, 0);
            for (span, running) in spans {
                series.add(now, now + span, &Gauge { running, waiting: 1, kv_bytes: 0 });
                now += span;
                sum += u128::from(running) * u128::from(span);
            }
            prop_assert_eq!(series.total().running, sum);
            prop_assert_eq!(series.total().waiting, u128::from(now));
            prop_assert!(series.points.len() <= MOST);
        }
    }
}
