//! Statistics of a simulation: percentiles, rates, utilisation, goodput.

use super::{Outcome, PoolStats, Request};
use crate::time::Ns;

/// A distribution of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Times.
    pub count: u64,
    /// Mean, rounded down.
    pub mean: Ns,
    /// The time that half of them do not exceed.
    pub p50: Ns,
    /// The same for 90 %.
    pub p90: Ns,
    /// The same for 95 %.
    pub p95: Ns,
    /// The same for 99 %.
    pub p99: Ns,
    /// The longest.
    pub max: Ns,
}

impl Distribution {
    /// Of some times, ns; percentiles by nearest rank.
    pub fn of(mut times: Vec<u64>) -> Distribution {
        times.sort_unstable();
        let count = times.len() as u64;
        let sum: u128 = times.iter().map(|t| u128::from(*t)).sum();
        let mean = sum.checked_div(u128::from(count)).unwrap_or(0) as u64;
        let rank = |percent: u64| (count * percent).div_ceil(100).saturating_sub(1) as usize;
        let at = |percent: u64| Ns::new(times.get(rank(percent)).copied().unwrap_or(0));
        Distribution {
            count,
            mean: Ns::new(mean),
            p50: at(50),
            p90: at(90),
            p95: at(95),
            p99: at(99),
            max: at(100),
        }
    }
}

/// What a request must meet to count as good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Largest time to first token.
    pub ttft: Option<Ns>,
    /// Largest mean time of a later token.
    pub tpot: Option<Ns>,
}

impl Limits {
    /// Whether there is one.
    pub fn any(&self) -> bool {
        self.ttft.is_some() || self.tpot.is_some()
    }

    fn met(&self, request: &Request) -> bool {
        let within = |time: u64, limit: Option<Ns>| limit.is_none_or(|limit| time <= limit.get());
        within(request.ttft(), self.ttft) && within(request.tpot().unwrap_or(0), self.tpot)
    }
}

/// Statistics of all requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Requests that were served.
    pub done: u64,
    /// Requests longer than any replica holds.
    pub rejected: u64,
    /// Requests that lost their cache at least once.
    pub preempted: u64,
    /// Prompt tokens of the served requests.
    pub input_tokens: u64,
    /// Tokens of their answers.
    pub output_tokens: u64,
    /// From the first arrival to the last token.
    pub duration: Ns,
    /// From the first to the last arrival.
    pub arriving: Ns,
    /// Times to first token.
    pub ttft: Distribution,
    /// Mean times of a later token, of requests that have one.
    pub tpot: Distribution,
    /// Times to the last token.
    pub e2e: Distribution,
    /// Requests that met the limits.
    pub good: u64,
    /// Requests that had no token yet when the last one arrived.
    pub backlog: u64,
}

impl Report {
    /// Statistics of an outcome.
    pub fn of(outcome: &Outcome, limits: &Limits) -> Report {
        let all = &outcome.requests;
        let done: Vec<&Request> = all.iter().filter(|r| r.is_done()).collect();
        let first = all.iter().map(|r| r.arrival).min().unwrap_or(0);
        let last = all.iter().map(|r| r.arrival).max().unwrap_or(0);
        let times = |time: &dyn Fn(&Request) -> Option<u64>| {
            Distribution::of(done.iter().filter_map(|r| time(r)).collect())
        };
        Report {
            done: done.len() as u64,
            rejected: (all.len() - done.len()) as u64,
            preempted: done.iter().filter(|r| r.preemptions > 0).count() as u64,
            input_tokens: done.iter().map(|r| u64::from(r.isl)).sum(),
            output_tokens: done.iter().map(|r| u64::from(r.osl)).sum(),
            duration: Ns::new(outcome.end.saturating_sub(first)),
            arriving: Ns::new(last - first),
            ttft: times(&|r| Some(r.ttft())),
            tpot: times(&|r| r.tpot()),
            e2e: times(&|r| Some(r.e2e())),
            backlog: done.iter().filter(|r| r.first > last).count() as u64,
            good: done.iter().filter(|r| limits.met(r)).count() as u64,
        }
    }

    /// So many a second, over the whole duration; 0 if it is 0.
    pub fn per_second(&self, count: u64) -> f64 {
        let seconds = self.duration.as_seconds();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }
}

impl PoolStats {
    /// Part of `duration` that the slowest stages were busy.
    pub fn utilisation(&self, duration: Ns) -> f64 {
        self.busy as f64 / (self.groups.max(1) as f64 * duration.as_f64().max(1.0))
    }

    /// Means over `duration`: running and waiting requests of the pool, and the part of KV memory
    /// in use.
    pub fn means(&self, duration: Ns) -> (f64, f64, f64) {
        let total = self.series.total();
        let time = duration.as_f64().max(1.0);
        let memory = self.kv_capacity.max(1) as f64 * self.replicas.max(1) as f64;
        (
            total.running as f64 / time,
            total.waiting as f64 / time,
            total.kv_bytes as f64 / time / memory,
        )
    }

    /// Steps of all kinds.
    pub fn steps(&self) -> u64 {
        self.prefill_steps + self.decode_steps + self.mixed_steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_ranks() {
        let found = Distribution::of((1..=100).rev().collect());
        let wanted = [50, 90, 95, 99, 100].map(Ns::new);
        assert_eq!([found.p50, found.p90, found.p95, found.p99, found.max], wanted);
        assert_eq!((found.count, found.mean), (100, Ns::new(50)));
        assert_eq!(Distribution::of(vec![7]).p50, Ns::new(7));
        assert_eq!(Distribution::of(Vec::new()), Distribution::default());
    }
}
