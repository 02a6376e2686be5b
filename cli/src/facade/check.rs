//! What a request may ask: ranges of its numbers, and what deserves a warning.

use super::{Model, Request};
use crate::codes;
use shardc_cost::machine::{Cluster, Origin};
use shardc_cost::serving::{Load, Serving};
use shardc_cost::time::Ns;
use shardc_ir::diag::{Diagnostic, Result};

/// Most tokens and requests that a load may name; far beyond any service, and small enough that
/// sums of a few never wrap.
const MOST: u64 = 1 << 32;

/// Checks the numbers of a request.
///
/// # Errors
/// `U006` naming the option, its value and its range.
pub(super) fn request(request: &Request) -> Result<()> {
    let load = &request.load;
    self::load(load, request.mem_fraction)?;
    request.max_len.map_or(Ok(()), |n| whole("--max-len", n))?;
    let needed = load.isl.saturating_add(load.osl);
    if let Some(max_len) = request.max_len.filter(|&n| n < needed) {
        let message = format!("--max-len {max_len} is less than the {needed} tokens of a request");
        let help = format!("use --max-len {needed}, or shorten --isl or --osl");
        return Err(Box::new(Diagnostic::error(codes::REQUEST_RANGE, message).help(help)));
    }
    limit("--ttft", load.ttft_limit)?;
    limit("--tpot", load.tpot_limit)?;
    Ok(())
}

/// Checks the sizes of a load, and the part of device memory that may be used.
///
/// # Errors
/// `U006` naming the option, its value and its range.
pub(super) fn load(load: &Load, mem_fraction: f64) -> Result<()> {
    whole("--isl", load.isl)?;
    whole("--osl", load.osl)?;
    if load.output() == 0 {
        return Err(range("--osl", &load.osl, "2 or more where prompts come prefilled"));
    }
    load.concurrency.map_or(Ok(()), |n| whole("--concurrency", n))?;
    whole("--chunk-tokens", load.prefill_tokens)?;
    if !(mem_fraction > 0.0 && mem_fraction <= 1.0) {
        return Err(range("--mem-fraction", &mem_fraction, "a fraction above 0 and up to 1"));
    }
    Ok(())
}

fn whole(option: &str, value: u64) -> Result<()> {
    match value {
        1..=MOST => Ok(()),
        _ => Err(range(option, &value, &format!("a whole number from 1 to {MOST}"))),
    }
}

fn limit(option: &str, limit: Option<Ns>) -> Result<()> {
    match limit {
        Some(ns) if ns == Ns::ZERO || ns.is_infinite() => {
            Err(range(option, &ns, "a time in ms of 0.000001 or more"))
        }
        _ => Ok(()),
    }
}

fn range(option: &str, value: &dyn std::fmt::Display, wanted: &str) -> Box<Diagnostic> {
    let message = format!("{option} is {value}, out of range");
    Box::new(Diagnostic::error(codes::REQUEST_RANGE, message).help(format!("give {wanted}")))
}

/// Whether the times of a service are shorter than what can be counted.
///
/// # Errors
/// `M008` with the constants that the user stated.
pub(super) fn countable(serving: &Serving, cluster: &Cluster) -> Result<()> {
    // Half of what a time can hold: sums of two saturated times stay above it.
    let endless = |time: Ns| time >= Ns::new(Ns::MAX.get() / 2);
    let times = [serving.ttft, serving.tpot, serving.prefill_step, serving.decode_step];
    if !times.into_iter().any(endless) {
        return Ok(());
    }
    let message = format!("a request on {} takes centuries", cluster.name);
    let stated: Vec<String> = cluster
        .constants()
        .iter()
        .filter(|c| c.source.origin == Origin::Stated && c.path != "name")
        .map(|c| format!("{} = {}", c.path, c.value))
        .collect();
    let mut diagnostic = Diagnostic::error(shardc_cost::codes::TOO_SLOW, message);
    if !stated.is_empty() {
        diagnostic = diagnostic.note(format!("stated by the user: {}", stated.join(", ")));
    }
    let help = "raise the rates of the cluster file, or lower --isl and --osl";
    Err(Box::new(diagnostic.help(help)))
}

/// What the reader of a plan should know about the request.
pub(super) fn warnings(request: &Request, model: &Model) -> Vec<Diagnostic> {
    let longest = request.context();
    let beyond = model.spec.max_positions.filter(|&most| longest > most);
    let warning = |most: u64| {
        let message = format!("a context of {longest} tokens exceeds the model's {most} positions");
        Diagnostic::warning(codes::BEYOND_POSITIONS, message)
            .note("memory and times are those of the longer context all the same")
            .help(format!("keep --isl plus --osl and --max-len within {most}"))
    };
    beyond.map(warning).into_iter().collect()
}
