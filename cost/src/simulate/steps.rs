//! What a step is asked to do, and who says how long it takes.

use std::fmt;

use crate::serving::StepTime;

/// The work of one step of one replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Requests that decode one token.
    pub decodes: u64,
    /// Tokens that they attend to, themselves included, in all.
    pub context: u64,
    /// Parts of prompts.
    pub chunks: u64,
    /// Their tokens in all.
    pub tokens: u64,
    /// Sum over the parts of tokens².
    pub squares: u64,
    /// Sum over the parts of tokens times tokens cached before them.
    pub past: u64,
    /// Tokens of the step, decoded ones included, where replicas step together: the mean of all.
    /// What replicas share, such as experts, does this much work.
    pub shared: u64,
}

impl Work {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.decodes == 0 && self.chunks == 0
    }

    /// Adds a part of a prompt: `new` tokens after `past` cached ones.
    pub fn add_chunk(&mut self, new: u64, past: u64) {
        self.chunks += 1;
        self.tokens = self.tokens.saturating_add(new);
        self.squares = self.squares.saturating_add(new.saturating_mul(new));
        self.past = self.past.saturating_add(new.saturating_mul(past));
        self.shared = self.shared.saturating_add(new);
    }

    /// Adds a request that decodes one token and attends to `context`.
    pub fn add_decode(&mut self, context: u64) {
        self.decodes += 1;
        self.context = self.context.saturating_add(context);
        self.shared = self.shared.saturating_add(1);
    }

    /// Equal parts that do the same work as the parts of this step: how many, tokens of each,
    /// tokens cached before each. n parts of s tokens after p have n·s = Σ new, n·s² = Σ new²,
    /// n·s·p = Σ new·past.
    pub fn equal_chunks(&self) -> (f64, f64, f64) {
        if self.tokens == 0 {
            return (0.0, 0.0, 0.0);
        }
        let (tokens, squares) = (self.tokens as f64, self.squares as f64);
        (tokens * tokens / squares, squares / tokens, self.past as f64 / tokens)
    }

    /// Tokens of the mean context of a decoding request.
    pub fn mean_context(&self) -> f64 {
        self.context as f64 / self.decodes.max(1) as f64
    }
}

impl fmt::Display for Work {
    /// `decode 3 requests of 300 tokens, prefill 1 part of 512 tokens`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Work { decodes, context, chunks, tokens, .. } = self;
        let between = if *decodes > 0 && *chunks > 0 { ", " } else { "" };
        if *decodes > 0 {
            write!(f, "decode {decodes} requests of {context} tokens{between}")?;
        }
        if *chunks > 0 {
            write!(f, "prefill {chunks} parts of {tokens} tokens")?;
        }
        Ok(())
    }
}

/// Says how long steps take. Times must not shrink when work grows.
pub trait StepTimes {
    /// Time of a step.
    fn time(&self, work: &Work) -> StepTime;
}

impl<F: Fn(&Work) -> StepTime> StepTimes for F {
    fn time(&self, work: &Work) -> StepTime {
        self(work)
    }
}

/// One step of one replica, when it is launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRecord {
    /// Pool: 0, or 1 for the decode pool of two.
    pub pool: u32,
    /// Replica, counted through all instances of the pool.
    pub replica: u32,
    /// Launch, ns.
    pub start: u64,
    /// When its tokens are there, ns.
    pub end: u64,
    /// What it does.
    pub work: Work,
    /// Requests that wait at this replica.
    pub waiting: u64,
    /// Requests that run on this replica.
    pub running: u64,
    /// KV bytes in use on its fullest device.
    pub kv_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_chunks_keep_the_sums() {
        let mut work = Work::default();
        work.add_chunk(512, 1024);
        work.add_chunk(512, 1024);
        assert_eq!(work.equal_chunks(), (2.0, 512.0, 1024.0));
        work.add_chunk(64, 0);
        let (n, s, p) = work.equal_chunks();
        let sums = [n * s, n * s * s, n * s * p];
        let wanted = [work.tokens, work.squares, work.past];
        assert!(sums.iter().zip(wanted).all(|(a, b)| (a / b as f64 - 1.0).abs() < 1e-12));
        assert!(n > 2.0 && n < 3.0);
        assert_eq!(Work::default().equal_chunks(), (0.0, 0.0, 0.0));
    }

    #[test]
    fn work_reads_well() {
        let mut work = Work::default();
        work.add_decode(100);
        assert_eq!(work.to_string(), "decode 1 requests of 100 tokens");
        work.add_chunk(512, 0);
        let wanted = "decode 1 requests of 100 tokens, prefill 1 parts of 512 tokens";
        assert_eq!(work.to_string(), wanted);
    }
}
