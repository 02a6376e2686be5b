//! `shardc simulate`: a plan under a stream of requests, event by event.

mod clock;
mod document;
mod load;
mod perfetto;
mod plot;
mod screen;
mod source;
pub mod trace;

use crate::args::Overlapping;
use crate::failure::Outcome;
use crate::output;
use clap::ValueEnum;
use load::Load;
use shardc::codes;
use shardc::facade::service::{Largest, Service, link};
use shardc_cost::profile::Profile;
use shardc_cost::simulate::{
    Fleet, Limits, Link, Outcome as Served, Policy, Pool, Report, Router, StepRecord, run as play,
};
use shardc_cost::time::Ns;
use shardc_ir::diag::{Diagnostic, Result};
use source::Plan;
use std::path::PathBuf;
use std::str::FromStr;

/// Simulates a plan that serves a trace, random arrivals, or a fixed number of clients.
///
/// Continuous batching over a paged KV cache, with pre-emption, prefill in chunks or in steps of
/// its own, replicas behind a router, pipelines, separate pools. The same input gives the same
/// output.
#[derive(Clone, Debug, clap::Args)]
pub struct SimulateArgs {
    /// A directory that `shardc compile -o` wrote; or a model to compile for throughput at the
    /// mean lengths: a config.json, or a directory that holds one
    #[arg(value_name = "DIR|MODEL")]
    path: PathBuf,

    /// Requests from a file: Azure CSV, Mooncake JSON Lines, or lengths alone (docs/simulate.md)
    #[arg(long, value_name = "FILE", help_heading = "Load")]
    trace: Option<PathBuf>,
    /// Random arrivals, requests a second
    #[arg(long, value_name = "R", help_heading = "Load", allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Clients that each send the next request when the last is answered
    #[arg(long, value_name = "N", help_heading = "Load", conflicts_with = "rate")]
    concurrency: Option<u64>,
    /// Requests; a shorter trace is repeated [default: those of the trace, or 10000]
    #[arg(long, value_name = "N", help_heading = "Load")]
    requests: Option<u64>,
    /// Tokens of a prompt, without a trace [default: the plan's, or 1024]
    #[arg(long, value_name = "N", help_heading = "Load", conflicts_with = "trace")]
    isl: Option<u64>,
    /// Tokens of an answer, without a trace [default: the plan's, or 1024]
    #[arg(long, value_name = "N", help_heading = "Load", conflicts_with = "trace")]
    osl: Option<u64>,
    /// Arrive so many times as fast
    #[arg(long, value_name = "F", help_heading = "Load", default_value_t = 1.0)]
    speed: f64,
    /// Burstiness of random arrivals: deviation over mean of the time between them; 0 is regular,
    /// 1 Poisson
    #[arg(long, value_name = "F", help_heading = "Load", default_value_t = 1.0)]
    cv: f64,
    /// Seed of random arrivals
    #[arg(long, value_name = "N", help_heading = "Load", default_value_t = 0)]
    seed: u64,
    /// Largest time to first token that counts as good, ms
    #[arg(long, value_name = "MS", help_heading = "Load", allow_negative_numbers = true)]
    ttft: Option<f64>,
    /// Largest mean time of a later token that counts as good, ms
    #[arg(long, value_name = "MS", help_heading = "Load", allow_negative_numbers = true)]
    tpot: Option<f64>,

    /// Instances of the plan, each on its own devices
    #[arg(long, value_name = "N", help_heading = "Serving", default_value_t = 1)]
    instances: u32,
    /// Instances for prefill and for decoding, with a transfer of the KV cache between them
    #[arg(long, value_name = "P:D", help_heading = "Serving", conflicts_with = "instances")]
    pools: Option<Pools>,
    /// The plan of the decode pool, a directory [default: the same plan]
    #[arg(long, value_name = "DIR", help_heading = "Serving", requires = "pools")]
    decode_plan: Option<PathBuf>,
    /// Rate at which a device sends its KV cache to the decode pool, GB/s [default: the network's
    /// between nodes, or the node's]
    #[arg(long, value_name = "F", help_heading = "Serving", requires = "pools")]
    transfer: Option<f64>,
    /// Mix decoding with parts of prompts in steps of up to N tokens; 0: whole prompts, before any
    /// decoding [default: the profile's way, in steps as the plan has them]
    #[arg(long, value_name = "N", help_heading = "Serving")]
    chunk_tokens: Option<u64>,
    /// Most requests that a replica runs at once [default: the plan's batch, if it was made for a
    /// latency limit, or 4096]
    #[arg(long, value_name = "N", help_heading = "Serving")]
    max_batch: Option<u64>,
    /// Tokens of a block of KV memory
    #[arg(long, value_name = "N", help_heading = "Serving", default_value_t = 16)]
    block: u64,
    /// Which replica a request goes to
    #[arg(long, value_enum, help_heading = "Serving", default_value_t = Route::LeastLoaded)]
    router: Route,

    /// To compile a model: a preset such as h100x8, or a cluster file; with DIR, the file of the
    /// cluster it was compiled for
    #[arg(long, value_name = "PRESET|FILE", help_heading = "Plan")]
    cluster: Option<String>,
    /// Use the first N devices
    #[arg(long, value_name = "N", help_heading = "Plan", allow_negative_numbers = true)]
    gpus: Option<u64>,
    /// Force the degrees, such as tp=4,dp=2
    #[arg(long, value_name = "DEGREES", help_heading = "Plan")]
    layout: Option<String>,
    /// How to search
    #[arg(long, value_name = "NAME", help_heading = "Plan", default_value = "degrees")]
    search: String,
    /// Whose kernels are priced: vllm, sglang, trtllm, tensorrt, shardc [default: the plan's, or vllm]
    #[arg(long, value_name = "NAME", help_heading = "Plan")]
    profile: Option<String>,
    /// Whether collectives run beside kernels [default: the plan's way, or none]
    #[arg(long, value_enum, help_heading = "Plan")]
    overlap: Option<Overlapping>,
    /// Read the model as this family, whatever it says
    #[arg(long, value_name = "FAMILY", help_heading = "Plan")]
    assume: Option<String>,
    /// Format of weights and activations
    #[arg(long, value_name = "D", help_heading = "Plan")]
    dtype: Option<String>,
    /// Format of the KV cache
    #[arg(long, value_name = "D", help_heading = "Plan")]
    kv_dtype: Option<String>,
    /// Part of device memory that may be used [default: 1]
    #[arg(long, value_name = "F", help_heading = "Plan", allow_negative_numbers = true)]
    mem_fraction: Option<f64>,

    /// Write a timeline of steps for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace_out: Option<PathBuf>,
    /// Write distributions and gauges over time as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Instances of the prefill and the decode pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pools {
    prefill: u32,
    decode: u32,
}

impl FromStr for Pools {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let part = |text: &str| text.parse().ok().filter(|n| *n > 0);
        let parts = text.split_once(':').and_then(|(p, d)| Some((part(p)?, part(d)?)));
        let (prefill, decode) =
            parts.ok_or("give instances for prefill and for decoding, such as 2:1")?;
        Ok(Pools { prefill, decode })
    }
}

/// Which replica a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Route {
    /// One after the other
    RoundRobin,
    /// The one with the fewest requests
    LeastLoaded,
}

/// Everything that is reported.
struct Simulated<'a> {
    args: &'a SimulateArgs,
    /// The plan, and that of the decode pool if it has its own.
    plans: Vec<Plan>,
    load: Load,
    policy: Policy,
    limits: Limits,
    served: Served,
    report: Report,
}

impl Simulated<'_> {
    /// The plan of a pool.
    fn plan(&self, pool: usize) -> &Plan {
        self.plans.get(pool).unwrap_or(&self.plans[0])
    }

    /// Instances of each pool.
    fn instances(&self) -> Vec<u32> {
        match self.args.pools {
            Some(pools) => vec![pools.prefill, pools.decode],
            None => vec![self.args.instances],
        }
    }

    /// Devices of all pools.
    fn devices(&self) -> u64 {
        let of = |(i, n): (usize, u32)| self.plan(i).service.devices() * u64::from(n);
        self.instances().into_iter().enumerate().map(of).sum()
    }
}

/// Runs the command.
///
/// Errors: a plan, model or trace that cannot be read, a number out of range, a model that does
/// not fit, output that cannot be written.
pub fn run(args: &SimulateArgs) -> Outcome {
    check(args)?;
    let mut load = load::read(args)?;
    let mut plans = vec![source::open(args, &args.path, load.mean())?];
    if let Some(path) = &args.decode_plan {
        plans.push(source::open(args, path, load.mean())?);
    }
    load.complete(args, &plans[0])?;
    let mut timeline = perfetto::Timeline::default();
    let simulated = simulate(args, plans, load, &mut |step| {
        if args.trace_out.is_some() {
            timeline.add(step);
        }
    })?;
    let mut written = Vec::new();
    if let Some(path) = &args.trace_out {
        output::write(path, &timeline.to_json(&simulated))?;
        written.push(path.display().to_string());
    }
    if let Some(path) = &args.plot {
        output::write(path, &plot::draw(&simulated)?)?;
        written.push(path.display().to_string());
    }
    output::print(&match args.json {
        true => format!("{:#}\n", document::to_json(&simulated, &written)),
        false => screen::show(&simulated, &written),
    })
}

/// Checks numbers that no later step checks.
fn check(args: &SimulateArgs) -> Result<()> {
    let whole = |option: &str, value: Option<u64>, most: u64| match value {
        Some(n) if !(1..=most).contains(&n) => {
            Err(out_of_range(option, &n, &format!("a whole number from 1 to {most}")))
        }
        _ => Ok(()),
    };
    let real = |option: &str, value: Option<f64>, least: f64| match value {
        Some(x) if !(x.is_finite() && x >= least) => {
            Err(out_of_range(option, &x, &format!("a number of {least} or more")))
        }
        _ => Ok(()),
    };
    whole("--concurrency", args.concurrency, 1 << 32)?;
    whole("--requests", args.requests, load::MOST_REQUESTS)?;
    whole("--chunk-tokens", args.chunk_tokens.filter(|n| *n > 0), 1 << 24)?;
    whole("--max-batch", args.max_batch, 1 << 16)?;
    whole("--block", Some(args.block), 1 << 20)?;
    whole("--instances", Some(args.instances.into()), 1 << 16)?;
    let pools = args.pools.map_or([1, 1], |pools| [pools.prefill, pools.decode]);
    whole("--pools", pools.into_iter().max().map(u64::from), 1 << 16)?;
    real("--rate", args.rate, 1e-9)?;
    real("--speed", Some(args.speed), 1e-9)?;
    real("--cv", Some(args.cv), 0.0)?;
    real("--transfer", args.transfer, 1e-9)?;
    real("--ttft", args.ttft, 1e-6)?;
    real("--tpot", args.tpot, 1e-6)
}

fn out_of_range(option: &str, value: &dyn std::fmt::Display, wanted: &str) -> Box<Diagnostic> {
    let message = format!("{option} is {value}, out of range");
    Box::new(Diagnostic::error(codes::REQUEST_RANGE, message).help(format!("give {wanted}")))
}

/// Plays a load on plans.
fn simulate<'a>(
    args: &'a SimulateArgs,
    plans: Vec<Plan>,
    load: Load,
    observe: &mut dyn FnMut(&StepRecord),
) -> Outcome<Simulated<'a>> {
    let policy = policy(args, &plans[0]);
    let decode = plans.last().unwrap_or(&plans[0]);
    let (longest, prompt) = (load.longest(), load.longest_prompt());
    let tokens = policy.chunk.unwrap_or(prompt.max(policy.prefill_tokens));
    let largest = Largest {
        batch: policy.max_batch,
        context: longest.saturating_add(1),
        tokens: policy.chunk.unwrap_or(u64::MAX).min(longest.max(1)),
    };
    let kv = |service: &Service| service.kv(args.block, longest, tokens);
    let kvs = (kv(&plans[0].service), kv(&decode.service));
    let steps = (plans[0].service.steps(&largest)?, decode.service.steps(&largest)?);
    let pool = |plan: &Plan, kv, steps, instances| Pool {
        engine: plan.service.engine(kv, steps),
        instances,
    };
    let fleet = match args.pools {
        None => Fleet::Together(pool(&plans[0], &kvs.0, &steps.0, args.instances)),
        Some(pools) => Fleet::Apart {
            prefill: pool(&plans[0], &kvs.0, &steps.0, pools.prefill),
            decode: pool(decode, &kvs.1, &steps.1, pools.decode),
            link: transfer(args, &plans[0].service),
        },
    };
    let served = play(&load.workload(), &fleet, &policy, observe).map_err(|stuck| {
        Box::new(Diagnostic::error(codes::STUCK, format!("the simulation stops: {stuck}")))
    })?;
    let limit = |ms: Option<f64>| ms.map(|ms| Ns::from_ns(ms * 1e6));
    let limits = Limits { ttft: limit(args.ttft), tpot: limit(args.tpot) };
    let report = Report::of(&served, &limits);
    Ok(Simulated { args, load, policy, limits, served, report, plans })
}

fn policy(args: &SimulateArgs, plan: &Plan) -> Policy {
    let Profile { prefill_tokens, scheduling, .. } = plan.service.profile;
    let prefill_tokens = plan.chunk.unwrap_or(prefill_tokens);
    let chunk = args.chunk_tokens.or(scheduling.mixed.then_some(prefill_tokens));
    Policy {
        chunk: chunk.filter(|tokens| *tokens > 0),
        max_batch: args.max_batch.or(plan.batch).unwrap_or(4096),
        prefill_tokens,
        router: match args.router {
            Route::RoundRobin => Router::RoundRobin,
            Route::LeastLoaded => Router::LeastLoaded,
        },
        ..Policy::default()
    }
}

fn transfer(args: &SimulateArgs, service: &Service) -> Link {
    let (bytes_per_s, latency) = link(&service.cluster);
    Link { bytes_per_s: args.transfer.map_or(bytes_per_s, |gb| gb * 1e9), latency: latency.get() }
}
