//! Choosing the batch: candidates on interpolated curves, then the exact step times.

use std::cmp::Ordering;

use super::curve::Curve;
use super::cycle::{Cycle, Steps, cycle, most_prefill_requests, prefill_requests};
use super::{Engine, Limit, Load, Mixed, Objective, Serving, Unservable};
use crate::time::Ns;

/// Exact evaluations of guesses.
const TRIES: usize = 8;
/// The first guess after one that breaks a limit stays below it by one part of so many; each
/// further one by twice as much.
const BACK_OFF: u64 = 64;
/// How much better a guess must look to be evaluated.
const PROMISE: f64 = 1.005;

/// Predicts the service of a load by a layout.
///
/// Without a concurrency and for throughput, the batch is the one that yields most within the
/// limits; for latency it is one request. With a concurrency, all of it runs that fits, or less
/// where a limit asks for it; the rest waits. A batch that the load names is taken as far as it
/// fits. The step functions are called at most 40 times for a `max_batch` of 4096, and 60 times where
/// prompts ride in decode steps.
///
/// # Errors
/// [`Unservable`] says which limit even the smallest batch breaks.
pub fn serve(engine: &Engine, load: &Load) -> Result<Serving, Unservable> {
    match load.batch {
        Some(batch) => run_batch(engine, load, batch),
        None => choose(engine, load),
    }
}

/// The service at a batch.
fn run_batch(engine: &Engine, load: &Load, batch: u64) -> Result<Serving, Unservable> {
    if load.output() == 0 || batch == 0 || load.concurrency == Some(0) {
        return Err(Unservable::Steps);
    }
    let (most, capped_by) = capacity(engine, &Load { max_batch: batch, ..*load })?;
    let chosen = Evaluated::exact(engine, load, most, crowded(engine, load));
    accept(engine, load, chosen, capped_by)
}

fn choose(engine: &Engine, load: &Load) -> Result<Serving, Unservable> {
    if load.output() == 0 || load.max_batch == 0 || load.concurrency == Some(0) {
        return Err(Unservable::Steps);
    }
    let (most, capped_by) = capacity(engine, load)?;
    let crowded = crowded(engine, load);
    let exact = |batch| Evaluated::exact(engine, load, batch, crowded);
    let single = exact(1);
    check_single(load, &single)?;
    let fixed = match (load.concurrency, load.objective) {
        (None, Objective::Latency) => return Ok(single.serving(engine, load, Limit::Objective)),
        (Some(_), _) if load.ttft_limit.is_none() && load.tpot_limit.is_none() => true,
        _ => false,
    };
    if fixed || most == 1 {
        let chosen = exact(most);
        return match streamed(load, chosen, exact) {
            None => accept(engine, load, chosen, capped_by),
            Some(slower) => accept(engine, load, slower, Limit::Streaming),
        };
    }
    let limited_by = |batch: u64| if batch == most { capped_by } else { stop_reason(load) };
    let chosen = best(engine, load, most, crowded)
        .or(Some(single).filter(|single| single.within(engine, load)))
        .unwrap_or_else(|| exact(most));
    let limit = limited_by(chosen.batch);
    accept(engine, load, chosen, limit)
}

/// The largest batch whose tokens the server can stream, if those of `all` are too many. The rest
/// of the requests wait.
fn streamed(load: &Load, all: Evaluated, exact: impl Fn(u64) -> Evaluated) -> Option<Evaluated> {
    let too_many = |e: &Evaluated| e.rate(load) * 1e9 > load.scheduling.tokens_per_s;
    if !too_many(&all) {
        return None;
    }
    let (mut fits, mut above) = (exact(1), all.batch);
    while above - fits.batch > 1 {
        let middle = exact(fits.batch + (above - fits.batch) / 2);
        if too_many(&middle) { above = middle.batch } else { fits = middle }
    }
    Some(fits)
}

/// The largest batch of a replica, and what caps it.
fn capacity(engine: &Engine, load: &Load) -> Result<(u64, Limit), Unservable> {
    let needed = engine.kv_bytes_per_request;
    let fit = engine.kv_budget.checked_div(needed).unwrap_or(u64::MAX);
    if fit == 0 {
        return Err(Unservable::KvMemory { needed, budget: engine.kv_budget });
    }
    let asked = load.concurrency.map_or(u64::MAX, |c| c.div_ceil(engine.replicas.max(1)));
    let outside = load.scheduling.lag * load.concurrency.map_or(0.0, |_| asked as f64);
    let here = asked.saturating_sub(outside as u64);
    let by = if here < asked { Limit::Streaming } else { Limit::Concurrency };
    let caps = [(here, by), (fit, Limit::KvMemory), (load.max_batch, Limit::MaxBatch)];
    let least = caps.into_iter().min_by_key(|(batch, _)| *batch);
    Ok(least.unwrap_or((1, Limit::MaxBatch)))
}

/// Interval of the largest prefill micro-batch, by request, ns; none where the load has no use for it.
fn crowded(engine: &Engine, load: &Load) -> f64 {
    let most = most_prefill_requests(load);
    match load.waves {
        Some(_) if !load.prefilled => (engine.prefill)(most, load.isl).as_f64().1 / most as f64,
        _ => 0.0,
    }
}

/// Times of the steps of a batch: latency and interval, ns.
struct Times {
    decode: (f64, f64),
    prefill: (f64, f64),
    mixed: (f64, f64),
}

impl Times {
    /// From the step functions: two calls, or three where prompts ride in decode steps and count by
    /// themselves, too.
    fn exact(engine: &Engine, load: &Load, batch: u64) -> Times {
        Times {
            decode: decode_step(engine, load, load.micro_batches(batch, engine.stages).1),
            prefill: prefill_step(engine, load, prefill_requests(load, batch)),
            mixed: mixed_step(engine, load, batch),
        }
    }
}

/// A batch with its steps and steady state.
#[derive(Clone, Copy)]
struct Evaluated {
    batch: u64,
    steps: Steps,
    cycle: Cycle,
}

impl Evaluated {
    /// From the step functions.
    fn exact(engine: &Engine, load: &Load, batch: u64, crowded: f64) -> Evaluated {
        Evaluated::of(engine, load, batch, crowded, &Times::exact(engine, load, batch))
    }

    fn of(engine: &Engine, load: &Load, batch: u64, crowded: f64, times: &Times) -> Evaluated {
        let steps = Steps {
            stages: engine.stages,
            micro_batches: load.micro_batches(batch, engine.stages).0,
            decode: times.decode,
            prefill_requests: prefill_requests(load, batch),
            prefill: times.prefill,
            mixed: times.mixed,
            crowded,
            lockstep: if engine.lockstep { engine.replicas } else { 1 },
        };
        Evaluated { batch, steps, cycle: cycle(load, batch, &steps) }
    }

    /// Output tokens per nanosecond of a replica.
    fn rate(&self, load: &Load) -> f64 {
        let rate = self.batch as f64 * load.output() as f64 / self.cycle.stay;
        if rate.is_finite() { rate } else { 0.0 }
    }

    /// Time that requests beyond the running ones wait before they are admitted, ns, averaged
    /// over all requests in flight that find the replica full.
    fn queueing(&self, engine: &Engine, load: &Load) -> f64 {
        let running = self.running(engine, load) as f64;
        let waiting = load.concurrency.map_or(0.0, |c| c as f64 - running);
        waiting.max(0.0) / running * self.cycle.stay
    }

    fn running(&self, engine: &Engine, load: &Load) -> u64 {
        let room = self.batch.saturating_mul(engine.replicas.max(1));
        match (load.concurrency, load.objective) {
            (Some(asked), _) => room.min(asked),
            (None, Objective::Latency) => 1,
            (None, Objective::Throughput) => room,
        }
    }

    /// A prefill micro-batch by itself, even where it rides in decode steps.
    fn prompts(&self, engine: &Engine, load: &Load) -> Ns {
        match load.mixes() {
            true => (engine.prefill)(self.steps.prefill_requests, load.isl).latency,
            false => Ns::from_ns(self.steps.prefill.0),
        }
    }

    /// Whether both limits hold.
    fn within(&self, engine: &Engine, load: &Load) -> bool {
        let holds = |time: f64, limit: Option<Ns>| limit.is_none_or(|l| time <= l.as_f64());
        holds(self.cycle.tpot, load.tpot_limit)
            && holds(self.cycle.ttft + self.queueing(engine, load), load.ttft_limit)
    }

    fn serving(&self, engine: &Engine, load: &Load, limited_by: Limit) -> Serving {
        let queueing = self.queueing(engine, load);
        let running = self.running(engine, load);
        let per_ns = running as f64 * load.output() as f64 / self.cycle.stay;
        Serving {
            batch: running,
            replica_batch: self.batch,
            micro_batch: load.micro_batches(self.batch, engine.stages).1,
            prefill_requests: self.steps.prefill_requests,
            ttft: Ns::from_ns(self.cycle.ttft + queueing),
            tpot: Ns::from_ns(self.cycle.tpot),
            decode_step: Ns::from_ns(self.steps.round()),
            prefill_step: self.prompts(engine, load),
            queueing: Ns::from_ns(queueing),
            tokens_per_s_per_device: per_ns * 1e9 / engine.devices.max(1) as f64,
            limited_by,
        }
    }
}

/// One request at a time, without a queue, must meet the limits.
fn check_single(load: &Load, single: &Evaluated) -> Result<(), Unservable> {
    if !(single.cycle.stay.is_finite() && single.cycle.stay > 0.0) {
        return Err(Unservable::Steps);
    }
    let misses = |time: f64, limit: Option<Ns>| limit.filter(|l| time > l.as_f64());
    if let Some(limit) = misses(single.cycle.tpot, load.tpot_limit) {
        return Err(Unservable::Tpot { best: Ns::from_ns(single.cycle.tpot), limit });
    }
    if let Some(limit) = misses(single.cycle.ttft, load.ttft_limit) {
        return Err(Unservable::Ttft { best: Ns::from_ns(single.cycle.ttft), limit });
    }
    Ok(())
}

fn accept(
    engine: &Engine,
    load: &Load,
    chosen: Evaluated,
    limited_by: Limit,
) -> Result<Serving, Unservable> {
    let serving = chosen.serving(engine, load, limited_by);
    if chosen.cycle.stay.is_infinite() {
        return Err(Unservable::Steps);
    }
    if !chosen.within(engine, load) {
        return Err(Unservable::Concurrency { ttft: serving.ttft, tpot: serving.tpot });
    }
    Ok(serving)
}

fn stop_reason(load: &Load) -> Limit {
    if load.ttft_limit.is_some() || load.tpot_limit.is_some() {
        Limit::Latency
    } else {
        Limit::Objective
    }
}

/// The batch of `1..=most` with the highest rate within the limits, checked exactly. Each guess
/// is evaluated and becomes a sample, so the next one is nearer, until none promises more. After
/// a guess that breaks a limit the next one stays further below it each time, for steps often
/// grow by whole tiles.
fn best(engine: &Engine, load: &Load, most: u64, crowded: f64) -> Option<Evaluated> {
    let mut curves = Curves::sample(engine, load, most, crowded);
    let mut batches = candidates(most, load.micro_batches.unwrap_or(engine.stages));
    let mut found: Option<Evaluated> = None;
    let mut back_off = BACK_OFF;
    for _ in 0..TRIES {
        let promises = |guess: &Evaluated| {
            found.is_none_or(|found| guess.rate(load) > found.rate(load) * PROMISE)
        };
        let Some(guess) = curves.best(engine, load, &batches).filter(promises) else { break };
        let exact = Evaluated::exact(engine, load, guess.batch, crowded);
        curves.learn(engine, load, &exact);
        if exact.within(engine, load) {
            found = Some(found.map_or(exact, |found| better(load, found, exact)));
        } else {
            let Some(below) = guess.batch.checked_sub(1).filter(|b| *b > 0) else { break };
            let cap = below - below / back_off;
            batches.retain(|batch| *batch < cap);
            batches.push(cap);
            back_off = (back_off / 2).max(2);
        }
    }
    found
}

/// Latency and interval of a decode micro-batch, ns; nothing if there is only one output token.
fn decode_step(engine: &Engine, load: &Load, size: u64) -> (f64, f64) {
    match load.osl {
        1 => (0.0, 0.0),
        _ => (engine.decode)(size, load.mean_context()).as_f64(),
    }
}

/// Latency and interval of a prefill micro-batch by itself, ns; nothing if prompts come prefilled, or
/// ride in decode steps and no figure asks for them alone.
fn prefill_step(engine: &Engine, load: &Load, requests: u64) -> (f64, f64) {
    let asked = !load.mixes() || load.waves.is_some() || engine.lockstep && engine.replicas > 1;
    match asked && !load.prefilled {
        true => (engine.prefill)(requests, load.isl).as_f64(),
        false => (0.0, 0.0),
    }
}

/// Latency and interval of a decode micro-batch in which prompts ride, ns; nothing where none do.
fn mixed_step(engine: &Engine, load: &Load, batch: u64) -> (f64, f64) {
    if !load.mixes() {
        return (0.0, 0.0);
    }
    let size = load.micro_batches(batch, engine.stages).1;
    (engine.mixed)(&Mixed::of(load, prefill_requests(load, batch), size)).as_f64()
}

/// All step functions, sampled: over requests of a micro-batch, mixed steps over those of a replica.
struct Curves {
    decode: Curve,
    prefill: Curve,
    mixed: Curve,
    crowded: f64,
}

impl Curves {
    fn sample(engine: &Engine, load: &Load, most: u64, crowded: f64) -> Curves {
        let largest = load.micro_batches(most, engine.stages).1;
        let together = most_prefill_requests(load).min(most);
        Curves {
            decode: Curve::sample(largest, |size| decode_step(engine, load, size)),
            prefill: Curve::sample(together, |n| prefill_step(engine, load, n)),
            mixed: Curve::sample(most, |batch| mixed_step(engine, load, batch)),
            crowded,
        }
    }

    fn at(&self, engine: &Engine, load: &Load, batch: u64) -> Evaluated {
        let times = Times {
            decode: self.decode.at(load.micro_batches(batch, engine.stages).1),
            prefill: self.prefill.at(prefill_requests(load, batch)),
            mixed: self.mixed.at(batch),
        };
        Evaluated::of(engine, load, batch, self.crowded, &times)
    }

    /// Adds the steps of an exact evaluation to the samples.
    fn learn(&mut self, engine: &Engine, load: &Load, exact: &Evaluated) {
        let (_, size) = load.micro_batches(exact.batch, engine.stages);
        let steps = &exact.steps;
        self.decode.insert(size, steps.decode);
        self.prefill.insert(steps.prefill_requests, steps.prefill);
        self.mixed.insert(exact.batch, steps.mixed);
    }

    /// The best of some batches.
    fn top(&self, engine: &Engine, load: &Load, batches: &[u64]) -> Option<Evaluated> {
        let evaluated = batches.iter().map(|batch| self.at(engine, load, *batch));
        evaluated.filter(|e| e.within(engine, load)).reduce(|a, b| better(load, a, b))
    }

    /// The best candidate, refined among the batches before the next candidate.
    fn best(&self, engine: &Engine, load: &Load, candidates: &[u64]) -> Option<Evaluated> {
        let top = self.top(engine, load, candidates)?;
        let next = candidates.iter().find(|b| **b > top.batch).copied().unwrap_or(top.batch);
        let between: Vec<u64> = (top.batch..next).collect();
        self.top(engine, load, &between).or(Some(top))
    }
}

/// The one with the higher rate; the smaller batch if equal.
fn better(load: &Load, a: Evaluated, b: Evaluated) -> Evaluated {
    match a.rate(load).total_cmp(&b.rate(load)) {
        Ordering::Less => b,
        _ => a,
    }
}

/// Batches worth looking at: all small ones, then steps of a thirty-second, in whole rounds of
/// the pipeline.
fn candidates(most: u64, stages: u64) -> Vec<u64> {
    let stages = stages.max(1);
    let mut found = vec![1];
    while let Some(last) = found.last().copied().filter(|last| *last < most) {
        let step = (last / 32).max(1);
        let next = last + if last >= stages { step.next_multiple_of(stages) } else { step };
        found.push(next.min(most));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_cover_and_end_at_the_most() {
        assert_eq!(candidates(5, 1), [1, 2, 3, 4, 5]);
        assert_eq!(candidates(11, 4), [1, 2, 3, 4, 8, 11]);
        let many = candidates(4096, 1);
        assert!(many.len() < 220 && many.last() == Some(&4096), "{}", many.len());
        assert!(many.windows(2).all(|w| w[0] < w[1]));
    }
}
