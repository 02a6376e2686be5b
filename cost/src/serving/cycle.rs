//! The formulas of a replica in steady state.
//!
//! With b running requests, R = osl − 1 decode rounds, a decode round of d, and prefill
//! micro-batches of n requests with latency f and interval g:
//!
//! - a round d = max(latency, m·interval) of m micro-batches of ⌈b/m⌉ requests, m ≤ stages;
//! - (b − 1)/R other requests finish in a round, so prefill stalls it by s = (b − 1)/R · g/n;
//! - TPOT = d + s;
//! - n = 1 + (b − 1)/R requests wait together, at most what a micro-batch holds;
//! - TTFT = d/2 (half a round to wait, if others run) + f + ((1 + (b − 1)/R)/n − 1)/2 · g (half
//!   of the other micro-batches that wait);
//! - a request stays for T = TTFT + R·TPOT, and by Little's law b/T finish in a second.
//!
//! So T is, but for the waits, the cycle osl·d + (b/n)·f in which every running request is
//! served once. With one output token there are no rounds: T = TTFT = f + (b/n − 1)·g.
//! Requests beyond the running ones wait for (waiting/b)·T.

use super::{Load, StepTime};

/// Times of one decode round and one prefill micro-batch, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    /// Round of all micro-batches.
    pub round: f64,
    /// Requests of a prefill micro-batch.
    pub prefill_requests: u64,
    /// Latency of a prefill micro-batch.
    pub prefill: f64,
    /// Interval of prefill micro-batches.
    pub prefill_interval: f64,
}

/// A replica's steady state, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    pub ttft: f64,
    pub tpot: f64,
    /// How long a request stays once admitted.
    pub stay: f64,
}

/// Micro-batches of a decode round of `batch` requests: their number and size.
pub(super) fn micro_batches(batch: u64, stages: u64) -> (u64, u64) {
    let size = batch.div_ceil(stages.clamp(1, batch.max(1)));
    (batch.div_ceil(size.max(1)), size)
}

/// Requests that wait for prefill together when `batch` run.
fn waiting(load: &Load, batch: u64) -> f64 {
    let rounds = load.osl.saturating_sub(1);
    if rounds == 0 {
        return batch as f64;
    }
    1.0 + (batch as f64 - 1.0) / rounds as f64
}

/// Requests of a prefill micro-batch when `batch` run.
pub(super) fn prefill_requests(load: &Load, batch: u64) -> u64 {
    (waiting(load, batch).floor() as u64).clamp(1, most_prefill_requests(load))
}

/// Requests that a prefill micro-batch holds at most.
pub(super) fn most_prefill_requests(load: &Load) -> u64 {
    /// Beyond this many requests a prefill micro-batch gains nothing.
    const ENOUGH: u64 = 64;
    (load.prefill_tokens / load.isl.max(1)).clamp(1, ENOUGH)
}

/// Most output tokens a second and device that a layout yields, whatever its decode steps: each
/// request is prefilled once, and so stays for `g/n` at least for each request that runs.
///
/// `devices` are those of all `replicas`, and `prefill` is that of [`Engine`](super::Engine).
pub fn most_output(
    devices: u64,
    replicas: u64,
    load: &Load,
    prefill: &dyn Fn(u64, u64) -> StepTime,
) -> f64 {
    let each = |n: u64| prefill(n, load.isl).interval.as_f64() / n as f64;
    let least = (1..=most_prefill_requests(load)).map(each).fold(f64::INFINITY, f64::min);
    let output = replicas as f64 * load.osl as f64 / least;
    output * 1e9 / devices.max(1) as f64
}

/// The steady state of a replica that runs `batch` requests.
pub(super) fn cycle(load: &Load, batch: u64, steps: &Steps) -> Cycle {
    let rounds = load.osl.saturating_sub(1) as f64;
    let others = batch as f64 - 1.0;
    let together = steps.prefill_requests as f64;
    if rounds == 0.0 {
        let ahead = (batch as f64 / together - 1.0).max(0.0);
        let ttft = steps.prefill + ahead * steps.prefill_interval;
        return Cycle { ttft, tpot: 0.0, stay: ttft };
    }
    let tpot = steps.round + others / rounds * steps.prefill_interval / together;
    let half_round = if batch > 1 { steps.round / 2.0 } else { 0.0 };
    let ahead = (waiting(load, batch) / together - 1.0).max(0.0) / 2.0;
    let ttft = half_round + steps.prefill + ahead * steps.prefill_interval;
    Cycle { ttft, tpot, stay: ttft + rounds * tpot }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Ns;

    fn steps(round: f64, prefill_requests: u64, prefill: f64) -> Steps {
        Steps { round, prefill_requests, prefill, prefill_interval: prefill }
    }

    #[test]
    fn one_request_pays_its_own_steps() {
        let found = cycle(&Load::new(100, 11), 1, &steps(10.0, 1, 500.0));
        assert_eq!((found.ttft, found.tpot, found.stay), (500.0, 10.0, 600.0));
    }

    #[test]
    fn others_stall_decoding() {
        // 101 requests over 100 rounds: one prefill of another in each round.
        let found = cycle(&Load::new(100, 101), 101, &steps(10.0, 2, 30.0));
        assert_eq!(found.tpot, 10.0 + 15.0);
        assert_eq!(found.ttft, 5.0 + 30.0);
    }

    #[test]
    fn prefill_bounds_output() {
        let load = Load { prefill_tokens: 400, ..Load::new(100, 11) };
        let prefill = |n: u64, _| StepTime::single(Ns::new(400 + 100 * n));
        let most = most_output(2, 1, &load, &prefill);
        for batch in 1..200 {
            let n = prefill_requests(&load, batch);
            let found = cycle(&load, batch, &steps(0.0, n, 400.0 + 100.0 * n as f64));
            let rate = batch as f64 * 11.0 / found.stay * 1e9 / 2.0;
            assert!(rate <= most, "{rate} > {most} at {batch}");
        }
        let load = Load { osl: 1, ..load };
        assert!(most_output(1, 1, &load, &|_, _| StepTime::single(Ns::ZERO)).is_infinite());
    }

    #[test]
    fn one_token_is_pure_prefill() {
        let load = Load { osl: 1, ..Load::new(4096, 1) };
        assert_eq!(prefill_requests(&load, 10), 2);
        let found = cycle(&load, 10, &steps(f64::NAN, 2, 30.0));
        assert_eq!((found.ttft, found.tpot), (150.0, 0.0));
    }

    #[test]
    fn stages_share_a_round() {
        assert_eq!(micro_batches(7, 1), (1, 7));
        assert_eq!(micro_batches(7, 4), (4, 2));
        assert_eq!(micro_batches(5, 4), (3, 2));
        assert_eq!(micro_batches(2, 4), (2, 1));
    }
}
