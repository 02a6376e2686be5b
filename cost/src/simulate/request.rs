//! One request on its way.

use super::Arrival;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not yet arrived, or in a queue.
    Waiting,
    /// Part of its prompt is computed, or being so.
    Prefill,
    /// Between pools.
    Transfer,
    /// Decoding.
    Decode,
    /// Served.
    Done,
    /// Longer than any replica holds.
    Rejected,
}

/// A request and its times, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it arrived.
    pub arrival: u64,
    /// When its first token was there.
    pub first: u64,
    /// When its latest token was there: its end, once it is done.
    pub last: u64,
    /// Tokens of its prompt.
    pub isl: u32,
    /// Tokens of its answer.
    pub osl: u32,
    /// How often it lost its cache.
    pub preemptions: u32,
    /// Where it is.
    pub phase: Phase,
    /// Micro-batches that carry it now.
    pub(super) in_flight: u8,
    /// Tokens of its answer that are there.
    pub(super) produced: u32,
    /// Tokens in the cache, those of micro-batches in flight included.
    pub(super) cached: u32,
    /// Blocks it holds on its replica.
    pub(super) blocks: u32,
}

impl Request {
    pub(super) fn new(arrival: &Arrival) -> Request {
        let tokens = |n: u32| n.clamp(1, Arrival::MOST_TOKENS);
        Request {
            arrival: arrival.at,
            first: 0,
            last: 0,
            isl: tokens(arrival.isl),
            osl: tokens(arrival.osl),
            preemptions: 0,
            phase: Phase::Waiting,
            in_flight: 0,
            produced: 0,
            cached: 0,
            blocks: 0,
        }
    }

    /// Whether it was served.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Time to its first token.
    pub fn ttft(&self) -> u64 {
        self.first.saturating_sub(self.arrival)
    }

    /// Mean time of a token after the first, rounded down; `None` for a single token.
    pub fn tpot(&self) -> Option<u64> {
        self.last.saturating_sub(self.first).checked_div(u64::from(self.osl) - 1)
    }

    /// Time to its last token.
    pub fn e2e(&self) -> u64 {
        self.last.saturating_sub(self.arrival)
    }

    /// Tokens that prefill computes: the prompt, and the answer so far where the cache was lost.
    pub(super) fn prompt_tokens(&self) -> u32 {
        self.isl + self.produced
    }

    /// Tokens in the cache when the last one is there: that one is never cached.
    pub(super) fn cached_at_end(&self) -> u64 {
        (u64::from(self.isl) + u64::from(self.osl)).saturating_sub(1)
    }

    /// Notes a token; whether it was the last one.
    pub(super) fn token(&mut self, now: u64) -> bool {
        if self.produced == 0 {
            self.first = now;
        }
        self.produced += 1;
        self.last = now;
        self.produced >= self.osl
    }
}
