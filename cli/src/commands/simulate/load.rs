//! The requests of a command line: from a trace or synthetic, with their times.

use super::source::Plan;
use super::{SimulateArgs, out_of_range, trace};
use crate::failure::{InSource, Outcome};
use crate::input;
use shardc::codes;
use shardc_cost::simulate::arrivals::Process;
use shardc_cost::simulate::{Arrival, Workload};
use shardc_ir::diag::{Diagnostic, Result};

/// Most requests of a simulation, of some 100 bytes each.
pub const MOST_REQUESTS: u64 = 50_000_000;
/// Requests of a synthetic load.
const REQUESTS: u64 = 10_000;
/// Tokens of a synthetic prompt and answer where no plan says otherwise.
pub const TOKENS: u64 = 1024;

/// A load.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where it comes from, for people.
    pub name: String,
    /// The requests.
    pub requests: Vec<Arrival>,
    /// Requests in flight in a closed loop.
    pub concurrency: Option<u64>,
    /// Requests of the trace without a token, which are left out.
    pub left_out: u64,
}

/// The load of a command line; a synthetic one has no requests until [`Load::complete`].
///
/// Errors: no load, or two; a trace that cannot be read or lacks times.
pub fn read(args: &SimulateArgs) -> Outcome<Load> {
    let Some(path) = &args.trace else {
        if args.rate.is_none() && args.concurrency.is_none() {
            return Err(no_load("no load is given").into());
        }
        let concurrency = args.concurrency;
        let name = "equal requests".to_string();
        return Ok(Load { name, requests: Vec::new(), concurrency, left_out: 0 });
    };
    let source = input::trace(path)?;
    let read = trace::parse(&source.text).in_source(&source)?;
    let random = args.rate.is_some() || args.concurrency.is_some();
    if read.requests.is_empty() {
        let message = format!("{} holds no request with a prompt and an answer", source.name);
        return Err(Box::new(Diagnostic::error(codes::TRACE, message)).into());
    }
    if args.rate.is_some() && read.timed {
        let message = format!("{} says when requests arrive, and so does --rate", source.name);
        let help = "leave --rate away; --speed scales the rate of a trace";
        return Err(Box::new(Diagnostic::error(codes::LOAD, message).help(help)).into());
    }
    if !read.timed && !random {
        return Err(no_load(&format!("{} has lengths but no times", source.name)).into());
    }
    let name = path.file_name().map_or(source.name.clone(), |n| n.to_string_lossy().into_owned());
    let mut requests = read.requests;
    let count = args.requests.unwrap_or(requests.len() as u64);
    repeat(&mut requests, count);
    let mut load = Load { name, requests, concurrency: args.concurrency, left_out: read.left_out };
    load.schedule(args);
    Ok(load)
}

fn no_load(message: &str) -> Box<Diagnostic> {
    let help = "give --rate R (requests a second), --concurrency N (clients), or a --trace FILE \
        with times";
    Box::new(Diagnostic::error(codes::LOAD, message).help(help))
}

/// Cuts a trace to `count` requests, or repeats it as if it began anew a mean gap after its end.
fn repeat(requests: &mut Vec<Arrival>, count: u64) {
    let (first, length) = (requests.clone(), requests.len() as u64);
    let last = first.iter().map(|r| r.at).max().unwrap_or(0);
    let period = last.saturating_add(last.checked_div(length.saturating_sub(1)).unwrap_or(0));
    let nth = |i: u64| {
        let request = first[(i % length) as usize];
        Arrival { at: request.at.saturating_add(period.saturating_mul(i / length)), ..request }
    };
    requests.extend((length..count).map(nth));
    if count < length {
        requests.sort_by_key(|r| r.at);
        requests.truncate(count as usize);
    }
}

impl Load {
    /// Makes the requests of a synthetic load, with the plan's lengths where the user gives none.
    ///
    /// Errors: `U006`.
    pub fn complete(&mut self, args: &SimulateArgs, plan: &Plan) -> Result<()> {
        if !self.requests.is_empty() {
            return Ok(());
        }
        let tokens = |option: &str, given: Option<u64>, planned: u64| {
            let value = given.unwrap_or(planned);
            let fits = u32::try_from(value).ok().filter(|n| (1..=Arrival::MOST_TOKENS).contains(n));
            let wanted = format!("a whole number from 1 to {}", Arrival::MOST_TOKENS);
            fits.ok_or_else(|| out_of_range(option, &value, &wanted))
        };
        let isl = tokens("--isl", args.isl, plan.isl)?;
        let osl = tokens("--osl", args.osl, plan.osl)?;
        let count = args.requests.unwrap_or(REQUESTS);
        self.requests = vec![Arrival { at: 0, isl, osl }; count as usize];
        self.schedule(args);
        Ok(())
    }

    /// Gives requests random times, or scales their own.
    fn schedule(&mut self, args: &SimulateArgs) {
        if let Some(rate) = args.rate {
            let process = Process { rate: rate * args.speed, cv: args.cv, seed: args.seed };
            process.schedule(&mut self.requests);
        } else if args.speed != 1.0 {
            for request in &mut self.requests {
                // A cast saturates.
                request.at = (request.at as f64 / args.speed).round() as u64;
            }
        }
    }

    /// What the simulator takes.
    pub fn workload(&self) -> Workload<'_> {
        Workload { requests: &self.requests, concurrency: self.concurrency }
    }

    /// Mean tokens of a prompt and of an answer, rounded up; `None` before there are requests.
    pub fn mean(&self) -> Option<(u64, u64)> {
        let count = self.requests.len() as u64;
        let mean = |of: fn(&Arrival) -> u32| {
            let sum: u64 = self.requests.iter().map(|r| u64::from(of(r))).sum();
            (count > 0).then(|| sum.div_ceil(count))
        };
        Some((mean(|r| r.isl)?, mean(|r| r.osl)?))
    }

    /// Most tokens that a request's cache comes to.
    pub fn longest(&self) -> u64 {
        self.requests.iter().map(Arrival::cached_tokens).max().unwrap_or(0)
    }

    /// Most tokens of a prompt.
    pub fn longest_prompt(&self) -> u64 {
        self.requests.iter().map(|r| u64::from(r.isl)).max().unwrap_or(0)
    }

    /// Requests a second, as they arrive; `None` in a closed loop.
    pub fn rate(&self) -> Option<f64> {
        let last = self.requests.iter().map(|r| r.at).max().filter(|last| *last > 0)?;
        self.concurrency.is_none().then(|| self.requests.len() as f64 / (last as f64 / 1e9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_cut_or_repeated() {
        let trace: Vec<Arrival> =
            [0, 10, 30].iter().map(|&at| Arrival { at, isl: 1, osl: 1 }).collect();
        let times = |count| {
            let mut requests = trace.clone();
            repeat(&mut requests, count);
            requests.iter().map(|r| r.at).collect::<Vec<_>>()
        };
        assert_eq!(times(2), [0, 10]);
        assert_eq!(times(8), [0, 10, 30, 45, 55, 75, 90, 100]);
    }
}
