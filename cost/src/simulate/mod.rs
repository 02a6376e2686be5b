//! Serving a stream of requests, event by event: continuous batching over a paged KV cache.
//!
//! Replicas take requests from a router, admit them while blocks are free, run prefill and decode
//! steps, and pre-empt the latest request when a running one finds no block. Prefill and decode
//! share replicas, or have pools of their own with a transfer of the cache between them. Time is
//! whole nanoseconds and every tie has a rule, so the same input gives the same output.
//!
//! `steps` says what a step is asked to do, `table` prices it, `kv` counts blocks, `replica` is
//! the scheduler, `fleet` the event loop, `report` the statistics.

pub mod arrivals;
mod fleet;
mod histogram;
mod kv;
mod pool;
mod replica;
mod report;
mod request;
mod series;
mod steps;
mod table;

use std::fmt;

pub use fleet::run;
pub use histogram::Histogram;
pub use kv::KvSizes;
pub use report::{Distribution, Limits, Report};
pub use request::{Phase, Request};
pub use series::{Point, Series};
pub use steps::{StepRecord, StepTimes, Work};
pub use table::{Parts, Tables};

/// A request of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it arrives, ns.
    pub at: u64,
    /// Tokens of its prompt, at least 1.
    pub isl: u32,
    /// Tokens of its answer, at least 1.
    pub osl: u32,
}

impl Arrival {
    /// Most tokens of a prompt, and of an answer.
    pub const MOST_TOKENS: u32 = 1 << 24;

    /// Tokens that the cache holds at the end: the last token of the answer is never cached.
    pub fn cached_tokens(&self) -> u64 {
        (u64::from(self.isl) + u64::from(self.osl)).saturating_sub(1)
    }
}

/// What is to be served.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// The requests, in any order.
    pub requests: &'a [Arrival],
    /// Requests in flight in a closed loop, where each one that leaves lets in the next, whatever
    /// its time of arrival; `None` lets all in as they arrive.
    pub concurrency: Option<u64>,
}

/// One instance of a plan: all its devices.
#[derive(Clone, Copy)]
pub struct Engine<'a> {
    /// Data-parallel replicas: groups of requests that are batched apart, at least 1.
    pub replicas: u32,
    /// Whether these replicas run each step together, as they do where experts span them. A step
    /// then takes as long as that of the busiest replica.
    pub lockstep: bool,
    /// Pipeline stages of a replica, at least 1.
    pub stages: u32,
    /// KV memory of one replica.
    pub kv: &'a KvSizes,
    /// Step times.
    pub steps: &'a dyn StepTimes,
}

/// Equal instances of a plan.
#[derive(Clone, Copy)]
pub struct Pool<'a> {
    /// The plan.
    pub engine: Engine<'a>,
    /// Number of instances, at least 1.
    pub instances: u32,
}

/// How a prompt's cache travels from a prefill to a decode replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Bytes/s that one device of a prefill replica sends.
    pub bytes_per_s: f64,
    /// Time of a small message, ns.
    pub latency: u64,
}

/// Who does prefill and who decodes.
#[derive(Clone, Copy)]
pub enum Fleet<'a> {
    /// Every replica does both.
    Together(Pool<'a>),
    /// Pools of their own. A decode replica prefills only what it has pre-empted.
    Apart {
        /// Runs prompts and yields first tokens.
        prefill: Pool<'a>,
        /// Yields all later tokens.
        decode: Pool<'a>,
        /// Between them.
        link: Link,
    },
}

impl<'a> Fleet<'a> {
    /// Its pools: prefill before decode.
    pub fn pools(&self) -> Vec<Pool<'a>> {
        match self {
            Fleet::Together(pool) => vec![*pool],
            Fleet::Apart { prefill, decode, .. } => vec![*prefill, *decode],
        }
    }
}

/// Which replica a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Router {
    /// One after the other.
    RoundRobin,
    /// The one with the fewest requests, waiting and running; the first of equals.
    LeastLoaded,
}

/// How a replica schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Tokens of a step that mixes decoding with parts of prompts; `None` runs whole prompts, in
    /// steps of their own, before any decoding.
    pub chunk: Option<u64>,
    /// Most requests that a replica runs at once.
    pub max_batch: u64,
    /// Without chunks, most tokens of a prefill step that holds more than one prompt.
    pub prefill_tokens: u64,
    /// Thousandths of KV memory that admission leaves free for running requests to grow into.
    /// vLLM's watermark is 1 %.
    pub watermark: u64,
    /// Which replica a request goes to.
    pub router: Router,
}

impl Default for Policy {
    /// vLLM's scheduler without chunks.
    fn default() -> Policy {
        Policy {
            chunk: None,
            max_batch: 256,
            prefill_tokens: 8192,
            watermark: 10,
            router: Router::LeastLoaded,
        }
    }
}

/// What a pool did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolStats {
    /// Steps with prompts only.
    pub prefill_steps: u64,
    /// Steps with decoding only.
    pub decode_steps: u64,
    /// Steps with both.
    pub mixed_steps: u64,
    /// Prompt tokens that steps computed, those of pre-empted requests again.
    pub prefill_tokens: u64,
    /// Tokens that were decoded.
    pub decode_tokens: u64,
    /// Time that the slowest stage of each instance or replica was busy, ns, summed.
    pub busy: u128,
    /// Instances or replicas over which `busy` is summed.
    pub groups: u64,
    /// Requests that lost their cache to others.
    pub preemptions: u64,
    /// Cached tokens that they lost.
    pub lost_tokens: u64,
    /// Bytes that one replica may use for its cache on its fullest device.
    pub kv_capacity: u64,
    /// Most bytes that a replica used.
    pub peak_bytes: u64,
    /// Most blocks that a replica used.
    pub peak_blocks: u64,
    /// Most requests that waited in all queues of the pool together.
    pub peak_waiting: u64,
    /// Replicas.
    pub replicas: u64,
    /// Running, waiting and KV bytes over time, summed over replicas.
    pub series: Series,
}

/// What a simulation comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Every request of the workload, in its order.
    pub requests: Vec<Request>,
    /// Each pool, prefill before decode.
    pub pools: Vec<PoolStats>,
    /// When the last token was produced, ns.
    pub end: u64,
    /// Gaps between successive tokens of a request, ns.
    pub gaps: Histogram,
    /// Transfers between pools and the bytes that a device sent for them.
    pub transfers: (u64, u64),
}

/// Why a workload cannot be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// A step takes forever.
    EndlessStep(Work),
    /// The clock has run out of range.
    Clock,
    /// More requests or replicas than can be numbered, or none of the latter.
    Count,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stuck::EndlessStep(work) => write!(f, "a step cannot be run: {work}"),
            Stuck::Clock => f.write_str("the requests take longer than 500 years"),
            Stuck::Count => f.write_str("there are more requests or replicas than 2³¹, or none"),
        }
    }
}
