//! The formulas of a replica in steady state.
//!
//! With b running requests, R = osl − 1 decode rounds, p pipeline stages, m ≤ p micro-batches of
//! decoding with latency l and interval i, and prefill micro-batches of n requests with latency f and
//! interval g:
//!
//! - a round without prompts d = max(l, m·i);
//! - ν = (b − 1)/R other requests finish in a round, and as many prompts take their places, in
//!   M = ν/n micro-batches;
//! - prompts first: n = 1 + ν wait together; a micro-batch of theirs costs a round g;
//! - mixed: prompts ride in decode steps, in k chunks where they are long. A step with prompts is
//!   priced as one: operators on the tokens of both, attention of each. It has a latency f and an
//!   interval g of its own, and M·k of them take the place of β = min(M·k, m) decode steps of a round;
//! - the stages are busy for (m − β)·i + M·k·g in a round, β = 0 and k = 1 where prompts come first;
//! - a lone micro-batch of prompts empties a pipeline: w = φ·(1 − φ/2) times f − g beyond what decoding
//!   takes to pass, with φ = M·k up to 1. Decoding takes l − i where a round waits for its latency, and
//!   min(p − 1, (m − β)/w)·i where the stages are busy all the time;
//! - replicas in lockstep, prompts first: a step has anybody's prompts with probability
//!   q = 1 − e^−M of all, and takes the longer of both kinds; M/q of the replicas have some then, M
//!   being one's own, which is what half of the work of prompts grows with, for experts do that of all:
//!   f' = f·(½ + ½·M/q). Whoever prefills does not decode meanwhile, so TPOT = (d + q·(f' − d))·(1 + M);
//! - replicas in lockstep, mixed: u = M·k/m micro-batches of prompts come to a replica in a step, which
//!   holds r of them; where u > r, rounds are u/r times as long. Prompts lengthen a step by half for
//!   what comes in the mean, for experts do the work of all, and by half for what the fullest replica
//!   has ([`fullest`]): these are the M·k/m that count in a round, beyond one a step at what prompts
//!   take alone;
//! - TPOT = a round with its prompts;
//! - TTFT = d/2 (half a round to wait, if others run) + the prompt's own steps + half of the other
//!   micro-batches that wait. If all clients start at once and each sends w requests, the mean
//!   moves by a w-th towards that of the start, (b + 1)/2 prompts in full micro-batches. Where an
//!   engine holds a request back, it waits for the next place, T/b;
//! - a request stays for T = TTFT + R·TPOT, and by Little's law b/T finish in a second.
//!
//! Where prompts come prefilled, TPOT is a round and there is no first token to wait for.
//!
//! With one output token there are no rounds: T = TTFT = f + (b/n − 1)·g. Requests beyond the
//! running ones wait for (waiting/b)·T.
//!
//! Every time is a maximum of sums of step times with weights that are not negative, latencies counted
//! as what they exceed intervals by: no service improves because a step takes longer.

use super::slope::Time;
use super::{Load, StepTime};

/// Times of the micro-batches of a replica, ns; latency and interval of each kind.
#[derive(Clone, Copy, Debug)]
pub struct Steps<T = f64> {
    /// Pipeline stages.
    pub stages: u64,
    /// Micro-batches of a decode round.
    pub micro_batches: u64,
    /// A decode micro-batch.
    pub decode: (T, T),
    /// Requests of a prefill micro-batch.
    pub prefill_requests: u64,
    /// A prefill micro-batch by itself.
    pub prefill: (T, T),
    /// A decode micro-batch in which a chunk of a prefill micro-batch rides; of no account where
    /// prompts run by themselves.
    pub mixed: (T, T),
    /// Interval of full prefill micro-batches, by request.
    pub crowded: T,
    /// Replicas that step together.
    pub lockstep: u64,
}

/// A replica's steady state, ns.
#[derive(Clone, Copy, Debug)]
pub struct Cycle<T = f64> {
    /// Mean time to first token.
    pub ttft: T,
    /// Mean time of an output token after the first.
    pub tpot: T,
    /// How long a request stays once admitted.
    pub stay: T,
}

/// Micro-batches of a decode round of `batch` requests: their number and size.
pub fn micro_batches(batch: u64, stages: u64) -> (u64, u64) {
    let size = batch.div_ceil(stages.clamp(1, batch.max(1)));
    (batch.div_ceil(size.max(1)), size)
}

/// Prompts that come in a round when `batch` run.
fn arriving(load: &Load, batch: u64) -> f64 {
    match load.osl.saturating_sub(1) {
        0 => batch as f64 - 1.0,
        rounds => (batch as f64 - 1.0) / rounds as f64,
    }
}

/// Requests of a prefill micro-batch when `batch` run.
pub fn prefill_requests(load: &Load, batch: u64) -> u64 {
    let together = match load.mixes() {
        true => arriving(load, batch).round(),
        false => (1.0 + arriving(load, batch)).floor(),
    };
    (together as u64).clamp(1, most_prefill_requests(load))
}

/// Chunks in which a prefill micro-batch of so many requests rides in decode steps.
pub fn chunks(load: &Load, requests: u64) -> u64 {
    let tokens = load.isl.saturating_mul(requests);
    tokens.div_ceil(load.prefill_tokens.max(1)).max(1)
}

/// Requests that a prefill micro-batch holds at most.
pub(super) fn most_prefill_requests(load: &Load) -> u64 {
    /// Beyond this many requests a prefill micro-batch gains nothing.
    const ENOUGH: u64 = 64;
    (load.prefill_tokens / load.isl.max(1)).clamp(1, ENOUGH)
}

/// Most output tokens a second and device that a layout yields, whatever its decode steps: each
/// request is prefilled once, and so stays for `g/n` at least for each request that runs.
///
/// `devices` are those of all `replicas`, and `prefill` is that of [`Engine`](super::Engine).
pub fn most_output(
    devices: u64,
    replicas: u64,
    load: &Load,
    prefill: &dyn Fn(u64, u64) -> StepTime,
) -> f64 {
    if load.prefilled {
        return f64::INFINITY;
    }
    let each = |n: u64| prefill(n, load.isl).interval.as_f64() / n as f64;
    let least = (1..=most_prefill_requests(load)).map(each).fold(f64::INFINITY, f64::min);
    let output = replicas as f64 * load.osl as f64 / least;
    output * 1e9 / devices.max(1) as f64
}

/// The steady state of a replica that runs `batch` requests.
pub fn cycle<T: Time>(load: &Load, batch: u64, steps: &Steps<T>) -> Cycle<T> {
    let rounds = load.osl.saturating_sub(1) as f64;
    let together = steps.prefill_requests as f64;
    if rounds == 0.0 {
        let ahead = (batch as f64 / together - 1.0).max(0.0);
        let ttft = steps.prefill.0 + steps.prefill.1 * ahead;
        return Cycle { ttft, tpot: T::ZERO, stay: ttft };
    }
    if load.prefilled {
        let tpot = steps.round();
        return Cycle { ttft: T::ZERO, tpot, stay: tpot * rounds };
    }
    let prompts = Prompts::of(load, steps);
    let arriving = arriving(load, batch);
    let own = arriving / together;
    let tpot = match steps.lockstep {
        0 | 1 => prompts.round(own * prompts.chunks, T::ZERO, steps),
        replicas => {
            let room = batch.saturating_mul(replicas);
            let running = load.concurrency.map_or(room, |asked| asked.min(room));
            prompts.in_lockstep(own, self::arriving(load, running) / together, steps)
        }
    };
    let half_round = if batch > 1 { steps.round() / 2.0 } else { T::ZERO };
    let ahead = ((1.0 + arriving) / together - 1.0).max(0.0) / 2.0;
    let steady = half_round + (prompts.latency + prompts.interval * ahead) * prompts.chunks;
    let ttft = started(load, batch, steady, steps);
    let stay = ttft + tpot * rounds;
    let held = match load.concurrency {
        Some(_) if batch > 1 => stay * load.scheduling.held / batch as f64,
        _ => T::ZERO,
    };
    Cycle { ttft: ttft + held, tpot, stay: stay + held }
}

/// Mean time to the first token when all clients start at once.
fn started<T: Time>(load: &Load, batch: u64, steady: T, steps: &Steps<T>) -> T {
    let Some(waves) = load.waves.filter(|_| batch > 1) else { return steady };
    let crowd = steps.prefill.0 - steps.prefill.1;
    let first = crowd + steps.crowded * ((batch as f64 + 1.0) / 2.0);
    steady + (first - steady).or_none() / waves.max(1) as f64
}

impl<T: Time> Steps<T> {
    /// A round without prompts.
    pub fn round(&self) -> T {
        self.decode.0.longer(self.busy())
    }

    /// The slowest stage's work in a round.
    fn busy(&self) -> T {
        self.decode.1 * self.micro_batches as f64
    }
}

/// Steps with prompts.
struct Prompts<T> {
    mixed: bool,
    /// Steps of a micro-batch.
    chunks: f64,
    /// Latency of one, with the decoding in it.
    latency: T,
    /// Interval behind one.
    interval: T,
    /// Micro-batches that a step holds, if they are no longer than that.
    room: u64,
}

impl<T: Time> Prompts<T> {
    fn of(load: &Load, steps: &Steps<T>) -> Self {
        let mixed = load.scheduling.mixed;
        let chunks = if mixed { chunks(load, steps.prefill_requests) } else { 1 };
        let (latency, interval) = if mixed { steps.mixed } else { steps.prefill };
        let room = match chunks {
            1 => load.prefill_tokens / load.isl.saturating_mul(steps.prefill_requests).max(1),
            _ => 1,
        };
        Prompts { mixed, chunks: chunks as f64, latency, interval, room: room.max(1) }
    }

    /// A round in which `batches` steps have prompts, and in which some of them have more: `further`.
    fn round(&self, batches: f64, further: T, steps: &Steps<T>) -> T {
        let (round, interval) = (steps.micro_batches as f64, steps.decode.1);
        let beside = if self.mixed { batches.min(round) } else { 0.0 };
        let busy = interval * (round - beside) + self.interval * batches + further;
        let busy = busy.longer(steps.busy());
        // A lone one empties the pipeline; of many, each fills the gap behind the one before.
        let some = batches.min(1.0);
        let part = some * (1.0 - some / 2.0);
        let drain = self.latency - self.interval;
        // No more of decoding passes meanwhile than there is of it in the round.
        let passing = ((round - beside) / part).min(steps.stages.saturating_sub(1) as f64);
        let waiting = steps.decode.0 - interval;
        let of_busy = busy + (drain - interval * passing).or_none() * part;
        (steps.decode.0 + (drain - waiting).or_none() * part).longer(of_busy)
    }

    /// TPOT where replicas step together: `own` micro-batches of prompts in a round are this
    /// replica's, `all` anybody's, and whoever has none decodes meanwhile.
    fn in_lockstep(&self, own: f64, all: f64, steps: &Steps<T>) -> T {
        if !self.mixed {
            let any = 1.0 - (-all).exp();
            // Of a step with anybody's prompts, the part of the replicas that have some.
            let part = if any > 0.0 { (own / any).min(1.0) } else { 0.0 };
            let with_prompts = self.latency * (1.0 - SHARED + SHARED * part);
            let longer = (with_prompts - steps.round()).or_none();
            return (steps.round() + longer * any) * (1.0 + own);
        }
        let in_round = steps.micro_batches as f64;
        let (coming, room) = (own * self.chunks / in_round, self.room as f64);
        let behind = (coming / room).max(1.0);
        let mean = coming.min(room);
        let most = fullest(mean, self.room, if own > 0.0 { all / own } else { 1.0 });
        let counted = SHARED * mean + (1.0 - SHARED) * most;
        let further = steps.prefill.1 / self.chunks * (counted - 1.0).max(0.0) * in_round;
        self.round(counted.min(1.0) * in_round, further, steps) * behind
    }
}

/// Part of the work of prompts that is their experts', which replicas in lockstep share: 43 % of a
/// prefill step of Qwen3-30B-A3B (dp 8, ep 8), 54 % of one of DeepSeek-V3 (pp 4, dp 8, ep 4).
const SHARED: f64 = 0.5;

/// Micro-batches of the fullest of some replicas, of which `mean` come to each in a step that holds
/// `room`: they come independently, and those beyond the room wait, so that the mean stays.
fn fullest(mean: f64, room: u64, replicas: f64) -> f64 {
    let (mut most, mut left) = (0.0, mean);
    let (mut exactly, mut less) = ((-mean).exp(), 0.0);
    for n in 1..=room {
        less += exactly;
        exactly *= mean / n as f64;
        let as_many = if n == room { left.clamp(0.0, 1.0) } else { (1.0 - less).max(0.0) };
        left -= as_many;
        most += 1.0 - (1.0 - as_many).powf(replicas);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Ns;

    fn steps(round: f64, prefill_requests: u64, prefill: f64) -> Steps {
        Steps {
            stages: 1,
            micro_batches: 1,
            decode: (round, round),
            prefill_requests,
            prefill: (prefill, prefill),
            mixed: (prefill, prefill),
            crowded: prefill,
            lockstep: 1,
        }
    }

    #[test]
    fn one_request_pays_its_own_steps() {
        let found = cycle(&Load::new(100, 11), 1, &steps(10.0, 1, 500.0));
        assert_eq!((found.ttft, found.tpot, found.stay), (500.0, 10.0, 600.0));
    }

    #[test]
    fn others_stall_decoding() {
        // 101 requests over 100 rounds: one prefill of another in each round.
        let found = cycle(&Load::new(100, 101), 101, &steps(10.0, 2, 30.0));
        assert_eq!(found.tpot, 10.0 + 15.0);
        assert_eq!(found.ttft, 5.0 + 30.0);
    }

    #[test]
    fn prefill_bounds_output() {
        let load = Load { prefill_tokens: 400, ..Load::new(100, 11) };
        let prefill = |n: u64, _| StepTime::single(Ns::new(400 + 100 * n));
        let most = most_output(2, 1, &load, &prefill);
        for batch in 1..200 {
            let n = prefill_requests(&load, batch);
            let found = cycle(&load, batch, &steps(0.0, n, 400.0 + 100.0 * n as f64));
            let rate = batch as f64 * 11.0 / found.stay * 1e9 / 2.0;
            assert!(rate <= most, "{rate} > {most} at {batch}");
        }
        let load = Load { osl: 1, ..load };
        assert!(most_output(1, 1, &load, &|_, _| StepTime::single(Ns::ZERO)).is_infinite());
    }

    #[test]
    fn one_token_is_pure_prefill() {
        let load = Load { osl: 1, ..Load::new(4096, 1) };
        assert_eq!(prefill_requests(&load, 10), 2);
        let found = cycle(&load, 10, &steps(f64::NAN, 2, 30.0));
        assert_eq!((found.ttft, found.tpot), (150.0, 0.0));
    }

    #[test]
    fn prefill_steps_are_halved() {
        let tokens = |load: Load| -> Vec<u64> {
            load.prefill_steps().map(|load| load.prefill_tokens).collect()
        };
        let mut load = Load { least_prefill_tokens: Some(512), ..Load::new(3000, 11) };
        assert_eq!(tokens(load), [8192, 4096], "prompts run whole");
        load.scheduling.mixed = true;
        assert_eq!(tokens(load), [8192, 4096, 2048, 1024, 512]);
        assert_eq!(tokens(Load { prefilled: true, ..load }), [8192]);
        assert_eq!(tokens(Load { least_prefill_tokens: None, ..load }), [8192]);
        let fixed = load.prefill_steps().all(|load| load.prefill_steps().count() == 1);
        assert!(fixed, "what was chosen is not chosen again");
    }

    #[test]
    fn stages_share_a_round() {
        assert_eq!(micro_batches(7, 1), (1, 7));
        assert_eq!(micro_batches(7, 4), (4, 2));
        assert_eq!(micro_batches(5, 4), (3, 2));
        assert_eq!(micro_batches(2, 4), (2, 1));
    }
}
