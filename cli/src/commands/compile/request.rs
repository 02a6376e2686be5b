//! From flags to a request.

use crate::args::{self, ModelArgs, Overlapping};
use crate::failure::{InSource, Outcome};
use crate::input::{self, ModelFiles, Source};
use clap::ValueEnum;
use shardc::codes;
use shardc::facade::{ModelRequest, Request};
use shardc_cost::serving::{Load, Objective};
use shardc_cost::time::Ns;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_passes::schedule::devices;
use shardc_passes::schedule::tree::Node;
use shardc_passes::search::Method;
use shardc_passes::search::outer::{Effort, Memory, Moves, Start};
use shardc_passes::strategy::Degrees;
use std::path::PathBuf;
use std::str::FromStr;

/// How many devices of the cluster are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpus {
    /// The fewest that meet the request.
    Auto,
    /// The first so many.
    Count(u64),
}

impl FromStr for Gpus {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "auto" => Ok(Gpus::Auto),
            _ => text.parse().map(Gpus::Count).map_err(|_| {
                "give a whole number of devices, or `auto` for the fewest that do".to_string()
            }),
        }
    }
}

/// What the best plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Goal {
    /// Most output tokens a second
    Throughput,
    /// Least time of a request
    Latency,
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// It is
    On,
    /// It is not
    Off,
}

/// Where a search plan by plan starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// From plans drawn at random
    Nothing,
    /// From the best tuple of degrees
    Degrees,
}

/// Which steps such a search takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Steps {
    /// One decision at a time
    Single,
    /// Also all of attention or of feed-forward blocks, redrawn from a tuple of degrees
    Block,
}

/// How much a search plan by plan may do (docs/outer.md).
#[derive(Clone, Debug, clap::Args)]
pub struct EffortArgs {
    /// Plans that a search plan by plan evaluates
    #[arg(long, value_name = "N", default_value_t = 400, allow_negative_numbers = true)]
    pub evaluations: u64,
    /// Where it starts
    #[arg(long, value_enum, default_value_t = From::Degrees)]
    pub start: From,
    /// Which steps it takes
    #[arg(long, value_enum, default_value_t = Steps::Block)]
    pub moves: Steps,
    /// Seed of everything that it draws at random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Begin with what an earlier search left, of this or of another model
    #[arg(long, value_name = "FILE")]
    pub warm_start: Option<PathBuf>,
    /// Write what the search leaves to later ones
    #[arg(long, value_name = "FILE")]
    pub save_history: Option<PathBuf>,
}

impl EffortArgs {
    /// The effort.
    ///
    /// Errors: a number that is out of range.
    pub fn effort(&self) -> Result<Effort> {
        if !(1..=MOST_EVALUATIONS).contains(&self.evaluations) {
            let message = format!("--evaluations is {}, out of range", self.evaluations);
            let help = format!("give a whole number from 1 to {MOST_EVALUATIONS}");
            return Err(Box::new(Diagnostic::error(codes::REQUEST_RANGE, message).help(help)));
        }
        Ok(Effort {
            evaluations: self.evaluations,
            seed: self.seed,
            start: match self.start {
                From::Nothing => Start::Nothing,
                From::Degrees => Start::Degrees,
            },
            moves: match self.moves {
                Steps::Single => Moves::Single,
                Steps::Block => Moves::Block,
            },
        })
    }

    /// What an earlier search left.
    ///
    /// Errors: a file that cannot be read, `S204`.
    pub fn memory(&self) -> Outcome<Option<Memory>> {
        let Some(path) = &self.warm_start else { return Ok(None) };
        let source = input::history(path)?;
        Ok(Some(Memory::parse(&source.text).in_source(&source)?))
    }

    /// Names of start and moves.
    pub fn names(&self) -> [&'static str; 2] {
        let start = match self.start {
            From::Nothing => "nothing",
            From::Degrees => "degrees",
        };
        let moves = match self.moves {
            Steps::Single => "single",
            Steps::Block => "block",
        };
        [start, moves]
    }
}

/// Most plans of a search: each is kept.
const MOST_EVALUATIONS: u64 = 1 << 20;

/// Which phases of a request are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Phases {
    /// Prompts and answers
    Both,
    /// Prompts only, each with the first token of its answer
    Prefill,
    /// Answers only: prompts come prefilled, with the first token, as into a decode pool
    Decode,
}

/// What is to be compiled, and for what.
#[derive(Clone, Debug, clap::Args)]
pub struct RequestArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// A preset such as h100x8 or h100x8x4 (`shardc clusters` lists them), or a cluster file
    /// (docs/cluster.md)
    #[arg(long, value_name = "PRESET|FILE")]
    pub cluster: Option<String>,
    /// Use the first N devices: N up to a node, or whole nodes; `auto`: the fewest that meet the
    /// request
    #[arg(long, value_name = "N|auto", allow_negative_numbers = true)]
    pub gpus: Option<Gpus>,
    /// Tokens of a prompt
    #[arg(long, value_name = "N", default_value_t = 1024, allow_negative_numbers = true)]
    pub isl: u64,
    /// Tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 1024, allow_negative_numbers = true)]
    pub osl: u64,
    /// Which phases of a request are served
    #[arg(long, value_enum, default_value_t = Phases::Both)]
    pub phase: Phases,
    /// Requests in flight [default: what the objective likes best]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub concurrency: Option<u64>,
    /// What the best plan is
    #[arg(long, value_enum, default_value_t = Goal::Throughput)]
    pub objective: Goal,
    /// Largest mean time to the first token, ms
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub ttft: Option<f64>,
    /// Largest mean time of each later token, ms
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub tpot: Option<f64>,
    /// Most tokens of prompts in a step, as engines' `--max-num-batched-tokens` [default: the best of
    /// the engine's own and its halves down to 512]
    #[arg(long, value_name = "N", conflicts_with = "schedule", allow_negative_numbers = true)]
    pub chunk_tokens: Option<u64>,
    /// Format of the KV cache [default: that of the activations]
    #[arg(long, value_name = "D")]
    pub kv_dtype: Option<String>,
    /// Longest context that memory must hold, tokens [default: isl + osl]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_len: Option<u64>,
    /// Part of device memory that may be used; driver and communication buffers are counted apart
    #[arg(long, value_name = "F", default_value_t = 1.0, allow_negative_numbers = true)]
    pub mem_fraction: f64,
    /// How to search: auto (exact or degrees, whichever suits the request), exact, degrees,
    /// megatron-2021[:min|half|tp8], megatron-folded[:min|half|tp8]; or plan by plan: random,
    /// annealing, genetic, swarm, steepest, bottleneck-moves, rl
    #[arg(long, value_name = "NAME", default_value = "degrees")]
    pub search: String,
    #[command(flatten)]
    pub effort: EffortArgs,
    /// Force the degrees: tp=4,dp=2,ep=8; missing ones are 1, and etp is tp without ep
    #[arg(long, value_name = "DEGREES")]
    pub layout: Option<String>,
    /// Layers of each pipeline stage, such as 16,32 [default: as equal as they can be]
    #[arg(long, value_name = "N,N,…", requires = "layout", value_delimiter = ',')]
    pub stages: Option<Vec<u64>>,
    /// Pin layouts: a file of lines `op-pattern: layout`, such as `*/attn.o: [{dp}, {}, {tp}]`
    #[arg(long, value_name = "FILE")]
    pub pin: Option<PathBuf>,
    /// Take all decisions from a schedule, the schedule.toml of a plan's directory, and search
    /// nothing (docs/schedule.md)
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["layout", "stages", "search"])]
    pub schedule: Option<PathBuf>,
    /// Whether the e-graph rewrites the programs of the plan that was found: never worse, and often
    /// better (docs/algebra.md)
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    pub egraph: Switch,
    /// Whose kernels are priced: vllm, sglang, trtllm, tensorrt, shardc
    #[arg(long, value_name = "NAME", default_value = "vllm")]
    pub profile: String,
    /// Whether collectives run beside kernels
    #[arg(long, value_enum, default_value_t = Overlapping::None)]
    pub overlap: Overlapping,
}

/// The request of a command line.
///
/// Errors: a flag's value that means nothing, a cluster that cannot be read or taken.
pub fn build(
    args: &RequestArgs,
    files: &ModelFiles,
    pins: Option<&Source>,
    schedule: Option<Node>,
) -> Outcome<Request> {
    let pool = input::cluster(args.cluster.as_deref().ok_or_else(no_cluster)?)?;
    let cluster = match (args.gpus, schedule.as_ref().and_then(devices)) {
        (Some(Gpus::Count(n)), _) => pool.take(n)?,
        (_, Some(n)) => pool.take(n)?,
        (_, None) => pool.clone(),
    };
    let objective = match args.objective {
        Goal::Throughput => Objective::Throughput,
        Goal::Latency => Objective::Latency,
    };
    let profile = args::profile(&args.profile, args.overlap)?;
    let load = Load {
        concurrency: args.concurrency,
        objective,
        ttft_limit: limit("--ttft", args.ttft)?,
        tpot_limit: limit("--tpot", args.tpot)?,
        prefilled: args.phase == Phases::Decode,
        ..profile.load_of(args.isl, if args.phase == Phases::Prefill { 1 } else { args.osl })
    };
    let load = match args.chunk_tokens {
        Some(prefill_tokens) => Load { prefill_tokens, ..load },
        None => load.choosing_prefill_steps(),
    };
    Ok(Request {
        model: ModelRequest {
            kv_dtype: args.kv_dtype.as_deref().map(args::dtype).transpose()?,
            ..args.model.request(files)?
        },
        cluster,
        pool: Some(pool),
        profile,
        load,
        max_len: args.max_len,
        mem_fraction: args.mem_fraction,
        method: Method::parse(&args.search)?.with_effort(args.effort.effort()?),
        memory: args.effort.memory()?,
        layout: args.layout.as_deref().map(Degrees::parse).transpose()?,
        stages: args.stages.clone(),
        pins: pins.map(|source| source.text.clone()),
        schedule,
        egraph: args.egraph == Switch::On,
    })
}

/// A time limit in ms.
fn limit(option: &str, ms: Option<f64>) -> Result<Option<Ns>> {
    match ms {
        Some(ms) if !(ms.is_finite() && ms > 0.0) => {
            let message = format!("{option} is {ms}, and a time limit is a number above 0");
            let help = "give milliseconds, such as 50 or 12.5";
            Err(Box::new(Diagnostic::error(codes::REQUEST_RANGE, message).help(help)))
        }
        ms => Ok(ms.map(|ms| Ns::from_ns(ms * 1e6))),
    }
}

fn no_cluster() -> Box<Diagnostic> {
    let message = "no cluster is named: --cluster <PRESET|FILE> is required";
    let help = "name a preset such as h100x8 (`shardc clusters` lists them), or a cluster file";
    Box::new(Diagnostic::error(codes::USAGE, message).help(help))
}
