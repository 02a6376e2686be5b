//! Steady state of continuous batching: from step times to TTFT, TPOT and throughput.
//!
//! A replica keeps `b` requests running. Each decodes `osl − 1` rounds; whenever one finishes,
//! its place is taken by a new request whose prefill runs between two rounds and stalls the
//! others. `cycle` has the formulas, `curve` keeps the calls of the step functions few, `search`
//! chooses the batch.

mod curve;
mod cycle;
mod search;
mod slope;

use std::fmt;

use crate::time::Ns;

pub use cycle::{Cycle, Steps, chunks, cycle, micro_batches, most_output, prefill_requests};
pub use search::serve;
pub use slope::{SlopedCycle, Slopes, Time, sloped_cycle};

/// Time of one step of a pipeline of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTime {
    /// Through all stages.
    pub latency: Ns,
    /// Between two successive micro-batches: the slowest stage.
    pub interval: Ns,
}

impl StepTime {
    /// A step of a single stage.
    pub fn single(time: Ns) -> StepTime {
        StepTime { latency: time, interval: time }
    }

    /// A step through stages that take so long.
    pub fn of_stages(times: impl IntoIterator<Item = Ns>) -> StepTime {
        let none = StepTime::single(Ns::ZERO);
        times.into_iter().fold(none, |step, time| StepTime {
            latency: step.latency + time,
            interval: step.interval.max(time),
        })
    }

    /// Latency and interval, ns.
    fn as_f64(self) -> (f64, f64) {
        (self.latency.as_f64(), self.interval.as_f64())
    }
}

/// A layout whose service is to be predicted. The step functions include all that a step costs,
/// host time too, and must not shrink when requests or lengths grow.
#[derive(Clone, Copy)]
pub struct Engine<'a> {
    /// Devices in all.
    pub devices: u64,
    /// Data-parallel replicas: groups of requests that are batched apart.
    pub replicas: u64,
    /// Whether replicas run each step together, as they do where experts span them.
    pub lockstep: bool,
    /// Pipeline stages of a replica.
    pub stages: u64,
    /// Bytes that the fullest device has left for the KV cache.
    pub kv_budget: u64,
    /// KV bytes of one request at its full length, `isl + osl`, on that device.
    pub kv_bytes_per_request: u64,
    /// Prefill of so many requests of so many tokens in one micro-batch of a replica.
    pub prefill: &'a dyn Fn(u64, u64) -> StepTime,
    /// One token for each of so many requests with a cache of so many tokens, one micro-batch of
    /// a replica.
    pub decode: &'a dyn Fn(u64, u64) -> StepTime,
    /// Both in one step, one micro-batch of a replica; asked only where prompts ride in decode steps.
    pub mixed: &'a dyn Fn(&Mixed) -> StepTime,
}

/// A decode step in which a chunk of prompts rides: operators run once on the tokens of both,
/// attention of each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mixed {
    /// Prompts of the prefill micro-batch.
    pub prompts: u64,
    /// Tokens of a prompt.
    pub isl: u64,
    /// Steps over which the micro-batch spreads.
    pub chunks: u64,
    /// Requests that decode one token.
    pub decodes: u64,
    /// Tokens that each of them attends to.
    pub context: u64,
}

impl Mixed {
    /// A step of the prefill micro-batches of a load beside `decodes` requests.
    pub fn of(load: &Load, prompts: u64, decodes: u64) -> Mixed {
        let (isl, context) = (load.isl, load.mean_context());
        Mixed { prompts, isl, chunks: chunks(load, prompts), decodes, context }
    }

    /// Tokens of a prompt in a step, with its part of the tokens that are decoded: what operators run on
    /// for each prompt.
    pub fn tokens(&self) -> u64 {
        let own = self.isl.div_ceil(self.chunks.max(1));
        own.saturating_add(self.decodes.div_ceil(self.prompts.max(1)))
    }

    /// Requests that are given a token by the step.
    pub fn served(&self) -> u64 {
        self.decodes.saturating_add(self.prompts.div_ceil(self.chunks.max(1)))
    }
}

/// What is asked of the service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Input tokens of a request.
    pub isl: u64,
    /// Output tokens of a request, at least 1.
    pub osl: u64,
    /// Whether prompts come prefilled, with their first token, as into a decode pool: only the rounds
    /// of the later tokens count.
    pub prefilled: bool,
    /// Requests in flight in all; `None` chooses the best.
    pub concurrency: Option<u64>,
    /// What the best is.
    pub objective: Objective,
    /// Largest mean time to first token.
    pub ttft_limit: Option<Ns>,
    /// Largest mean time of an output token after the first.
    pub tpot_limit: Option<Ns>,
    /// Most requests that a replica runs at once.
    pub max_batch: u64,
    /// Requests that a replica runs at once, as far as memory and the requests in flight allow;
    /// `None` chooses the best.
    pub batch: Option<u64>,
    /// Micro-batches of a decode round; `None` takes one for each pipeline stage.
    pub micro_batches: Option<u64>,
    /// Most tokens of a prefill micro-batch that holds more than one request, and of prompts in a step
    /// that decodes beside them.
    pub prefill_tokens: u64,
    /// Where it may be halved for a better plan: the least that it comes to.
    pub least_prefill_tokens: Option<u64>,
    /// How requests share steps.
    pub scheduling: Scheduling,
    /// Requests that each client sends, of which TTFT is the mean: all clients start at once, so
    /// the first ones wait for each other's prefill. `None` leaves the start out.
    pub waves: Option<u64>,
}

/// Least tokens of a prefill step that are worth trying: below, products no longer fill an H100.
const LEAST_PREFILL_TOKENS: u64 = 512;

/// How an engine lets requests share steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scheduling {
    /// Whether parts of prompts share steps with decoding; else prompts run whole, and first.
    pub mixed: bool,
    /// Requests in flight that wait for a place though there is memory.
    pub held: f64,
    /// Tokens a second that a replica's server streams to clients.
    pub tokens_per_s: f64,
    /// Part of the requests in flight that wait in processes beside the scheduler, below 1.
    pub lag: f64,
}

impl Scheduling {
    /// Prompts whole and first, nobody held back, no limit to streaming, nobody outside.
    pub const ALONE: Scheduling =
        Scheduling { mixed: false, held: 0.0, tokens_per_s: f64::INFINITY, lag: 0.0 };
}

impl Default for Scheduling {
    fn default() -> Self {
        Scheduling::ALONE
    }
}

/// What a choice of concurrency optimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// Output tokens a second.
    Throughput,
    /// The time of one request: one is in flight.
    Latency,
}

impl Load {
    /// Requests of `isl` and `osl` tokens at the best concurrency for throughput, without limits.
    pub fn new(isl: u64, osl: u64) -> Load {
        Load {
            isl,
            osl,
            prefilled: false,
            concurrency: None,
            objective: Objective::Throughput,
            ttft_limit: None,
            tpot_limit: None,
            max_batch: 4096,
            batch: None,
            micro_batches: None,
            prefill_tokens: 8192,
            least_prefill_tokens: None,
            scheduling: Scheduling::ALONE,
            waves: None,
        }
    }

    /// Micro-batches of a decode round of `batch` requests through `stages`: number and size.
    pub fn micro_batches(&self, batch: u64, stages: u64) -> (u64, u64) {
        micro_batches(batch, self.micro_batches.unwrap_or(stages))
    }

    /// Output tokens of a request that are made here.
    pub fn output(&self) -> u64 {
        self.osl.saturating_sub(u64::from(self.prefilled))
    }

    /// Whether prompts share steps with decoding.
    pub fn mixes(&self) -> bool {
        self.scheduling.mixed && self.osl > 1 && !self.prefilled
    }

    /// The load with the prefill step left to choose, down to 512 tokens.
    #[must_use]
    pub fn choosing_prefill_steps(self) -> Load {
        Load { least_prefill_tokens: Some(LEAST_PREFILL_TOKENS), ..self }
    }

    /// The load with each number of tokens that a prefill step may have, largest first. Without mixed
    /// steps prompts run whole, so that a step shorter than one is no other.
    pub fn prefill_steps(self) -> impl Iterator<Item = Load> {
        let least = self.least_prefill_tokens.unwrap_or(self.prefill_tokens);
        let least = if self.mixes() { least } else { least.max(self.isl) };
        let fixed = Load { least_prefill_tokens: None, ..self };
        let halved = move |load: &Load| {
            let prefill_tokens = load.prefill_tokens / 2;
            let smaller = prefill_tokens >= least.max(1) && !self.prefilled;
            smaller.then_some(Load { prefill_tokens, ..fixed })
        };
        std::iter::successors(Some(fixed), halved)
    }

    /// Mean length of the cache that a decode step reads: `isl + osl/2`.
    pub fn mean_context(&self) -> u64 {
        self.isl.saturating_add(self.osl.div_ceil(2))
    }
}

/// The predicted service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Serving {
    /// Running requests in all.
    pub batch: u64,
    /// Running requests of the fullest replica.
    pub replica_batch: u64,
    /// Requests of a decode micro-batch.
    pub micro_batch: u64,
    /// Requests that a prefill micro-batch takes together.
    pub prefill_requests: u64,
    /// Mean time to first token, waiting included.
    pub ttft: Ns,
    /// Mean time of an output token after the first, stalls by other prefills included; zero if
    /// there is only one output token.
    pub tpot: Ns,
    /// One decode round of all running requests.
    pub decode_step: Ns,
    /// One prefill micro-batch by itself, through all stages.
    pub prefill_step: Ns,
    /// Part of `ttft` spent waiting for KV memory.
    pub queueing: Ns,
    /// Output tokens a second and device.
    pub tokens_per_s_per_device: f64,
    /// What kept the batch from growing.
    pub limited_by: Limit,
}

/// What kept the batch from growing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// All requests in flight run.
    Concurrency,
    /// KV memory.
    KvMemory,
    /// The largest batch of a replica, or the one that was asked for.
    MaxBatch,
    /// A larger batch breaks the TTFT or TPOT limit.
    Latency,
    /// A larger batch yields no more.
    Objective,
    /// The server streams no more tokens.
    Streaming,
}

/// Why a load cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unservable {
    /// Not one request fits into KV memory.
    KvMemory {
        /// KV bytes of a request.
        needed: u64,
        /// KV bytes that there are.
        budget: u64,
    },
    /// Even one request at a time misses the TTFT limit.
    Ttft {
        /// The best TTFT.
        best: Ns,
        /// The limit.
        limit: Ns,
    },
    /// Even one request at a time misses the TPOT limit.
    Tpot {
        /// The best TPOT.
        best: Ns,
        /// The limit.
        limit: Ns,
    },
    /// The requests in flight miss the limits together, though one alone meets them.
    Concurrency {
        /// TTFT when all run that memory holds.
        ttft: Ns,
        /// TPOT then.
        tpot: Ns,
    },
    /// A step takes forever, or the load asks for no token.
    Steps,
}

impl fmt::Display for Unservable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unservable::KvMemory { needed, budget } => {
                write!(f, "the KV cache of one request takes {needed} bytes, {budget} are left")
            }
            Unservable::Ttft { best, limit } => {
                write!(f, "the first token takes at least {best}, the limit is {limit}")
            }
            Unservable::Tpot { best, limit } => {
                write!(f, "an output token takes at least {best}, the limit is {limit}")
            }
            Unservable::Concurrency { ttft, tpot } => {
                write!(f, "so many requests come to a TTFT of {ttft} and a TPOT of {tpot}")
            }
            Unservable::Steps => f.write_str("a step cannot be run"),
        }
    }
}
