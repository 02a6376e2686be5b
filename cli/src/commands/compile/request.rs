//! From flags to a request.

use super::CompileArgs;
use crate::args;
use crate::failure::Outcome;
use crate::input::{self, ModelFiles, Source};
use clap::ValueEnum;
use shardc::codes;
use shardc::facade::{ModelRequest, Request};
use shardc_cost::profile::Profile;
use shardc_cost::serving::{Load, Objective};
use shardc_cost::time::Ns;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_passes::search::Method;
use shardc_passes::strategy::Degrees;
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

/// The request of a command line.
///
/// Errors: a flag's value that means nothing, a cluster that cannot be read or taken.
pub fn build(args: &CompileArgs, files: &ModelFiles, pins: Option<&Source>) -> Outcome<Request> {
    let pool = input::cluster(&args.cluster)?;
    let cluster = match args.gpus {
        Some(Gpus::Count(n)) => pool.take(n)?,
        Some(Gpus::Auto) | None => pool.clone(),
    };
    let objective = match args.objective {
        Goal::Throughput => Objective::Throughput,
        Goal::Latency => Objective::Latency,
    };
    let profile = Profile::named(&args.profile).ok_or_else(|| unknown_profile(&args.profile))?;
    let load = Load {
        concurrency: args.concurrency,
        objective,
        ttft_limit: limit("--ttft", args.ttft)?,
        tpot_limit: limit("--tpot", args.tpot)?,
        prefill_tokens: profile.prefill_tokens,
        ..Load::new(args.isl, args.osl)
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
        method: Method::parse(&args.search)?,
        layout: args.layout.as_deref().map(Degrees::parse).transpose()?,
        stages: args.stages.clone(),
        pins: pins.map(|source| source.text.clone()),
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

fn unknown_profile(name: &str) -> Box<Diagnostic> {
    let message = format!("there is no profile `{name}`");
    let help = format!("choose one of {}", Profile::NAMES.join(", "));
    Box::new(Diagnostic::error(codes::UNKNOWN_PROFILE, message).help(help))
}
