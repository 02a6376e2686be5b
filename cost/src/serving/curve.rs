//! Step times at every batch from a few calls: exact at powers of two, straight lines between.

/// A step time as a function of the number of requests.
pub(super) struct Curve {
    /// Requests, latency and interval in ns; requests grow.
    points: Vec<(u64, f64, f64)>,
}

impl Curve {
    /// Calls `step` at 1, 2, 4, … and at `most`: at most 2 + log₂ `most` calls.
    pub fn sample(most: u64, step: impl Fn(u64) -> (f64, f64)) -> Curve {
        let most = most.max(1);
        let mut curve = Curve { points: Vec::new() };
        let mut requests = 1u64;
        while requests < most {
            curve.insert(requests, step(requests));
            requests = requests.saturating_mul(2);
        }
        curve.insert(most, step(most));
        curve
    }

    /// Adds a sample, or replaces the one of as many requests.
    pub fn insert(&mut self, requests: u64, (latency, interval): (f64, f64)) {
        let at = self.points.partition_point(|p| p.0 < requests);
        match self.points.get_mut(at).filter(|p| p.0 == requests) {
            Some(known) => *known = (requests, latency, interval),
            None => self.points.insert(at, (requests, latency, interval)),
        }
    }

    /// Latency and interval, ns; constant beyond the last point.
    pub fn at(&self, requests: u64) -> (f64, f64) {
        let next = self.points.partition_point(|p| p.0 < requests);
        let high = self.points[next.min(self.points.len() - 1)];
        if next == 0 || high.0 <= requests {
            return (high.1, high.2);
        }
        let low = self.points[next - 1];
        let share = (requests - low.0) as f64 / (high.0 - low.0) as f64;
        let between = |a: f64, b: f64| if a == b { a } else { a + (b - a) * share };
        (between(low.1, high.1), between(low.2, high.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn calls_are_few_and_lines_are_exact() {
        let calls = Cell::new(0);
        let curve = Curve::sample(3000, |n| {
            calls.set(calls.get() + 1);
            let time = (1000 + 7 * n) as f64;
            (time, time)
        });
        assert_eq!(calls.get(), 13);
        for n in [1, 2, 3, 100, 2048, 2999, 3000] {
            assert!((curve.at(n).0 - (1000 + 7 * n) as f64).abs() < 1e-6, "{n}");
        }
        assert_eq!(curve.at(9999), curve.at(3000));
    }

    #[test]
    fn infinity_stays_infinite() {
        let curve =
            Curve::sample(4, |n| if n > 2 { (f64::INFINITY, f64::INFINITY) } else { (5.0, 5.0) });
        assert_eq!(curve.at(2).0, 5.0);
        assert_eq!(curve.at(3).0, f64::INFINITY);
        assert_eq!(curve.at(4).0, f64::INFINITY);
    }
}
