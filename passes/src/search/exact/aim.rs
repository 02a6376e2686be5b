//! What the times of stages count: a steady state as a weighted sum of what devices are busy for,
//! which is never more than the true one.
//!
//! The steady state is a maximum of sums of step times ([`sloped_cycle`]); a step's latency sums the
//! stages and its interval is the longest of them; a stage takes what its device is busy for and what
//! the host adds, or what the host needs beside it if that is longer. Each maximum is bounded by one
//! of its sides, the one that counts at some known steps, so the weights are right there and safe
//! elsewhere. The step of a lone request is the only one with negative weight; its maxima are bounded
//! from above, once for each side that may count.

use super::block::{Times, Weights};
use super::cover::{lone, mix};
use super::phase::{Planes, Share, Solution};
use shardc_cost::profile::Host;
use shardc_cost::serving::{
    Cycle, Load, Objective, Slopes, Steps, cycle, micro_batches, prefill_requests, sloped_cycle,
};
use shardc_cost::time::Ns;

/// What the times of a phase count.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Aim {
    /// By part, all its layers.
    pub parts: Vec<Weights>,
    /// By stage but the last, of sending to the next.
    pub sends: Vec<Weights>,
}

/// A bound of a steady state: weights of prefill and of decoding, and a constant.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    pub aims: [Aim; 2],
    pub constant: f64,
}

/// Device times of the stages of both phases; kernels of theirs that no graph launches.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Busy {
    pub decode: Vec<Times>,
    pub prefill: Vec<Times>,
    pub kernels: [Vec<f64>; 2],
}

/// How replicas are served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service<'a> {
    pub load: &'a Load,
    pub host: Host,
    pub cuda_graphs: bool,
    pub devices: u64,
    pub stages: u64,
    pub replicas: u64,
    pub lockstep: bool,
}

/// Which of a steady state's times is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The time that a request stays.
    Stay,
    /// That of a later token.
    Tpot,
}

/// The part that the device keeps where the host decides: so that of layouts which serve alike the
/// quicker ones are found.
const BESIDE: f64 = 1e-4;

impl Busy {
    /// Those of a solution of each phase.
    pub fn of(prefill: &Solution, decode: &Solution) -> Self {
        Busy {
            decode: decode.stages.clone(),
            prefill: prefill.stages.clone(),
            kernels: [prefill.kernels.clone(), decode.kernels.clone()],
        }
    }
}

/// A stage's step as a device's time and a constant.
struct Side {
    device: f64,
    constant: f64,
}

impl Service<'_> {
    /// Requests of a decode micro-batch.
    pub fn size(&self, batch: u64) -> u64 {
        micro_batches(batch, self.stages).1
    }

    fn launched(&self, prompts: bool, kernels: f64) -> u64 {
        let replayed = self.cuda_graphs && (!prompts || self.load.isl == 1);
        if replayed { 0 } else { kernels.round() as u64 }
    }

    /// A stage's step.
    fn step(&self, device: f64, requests: u64, launched: u64) -> f64 {
        Ns::from_ns(self.host.step(device, requests, launched)).as_f64()
    }

    /// The sides of a stage's step of which the one is taken that counts at `device`.
    fn side(&self, device: f64, requests: u64, launched: u64) -> Side {
        let beside = self.host.step(f64::NEG_INFINITY, requests, launched);
        if device + self.host.serial_ns >= beside {
            return Side { device: 1.0, constant: self.host.serial_ns };
        }
        let constant = BESIDE * self.host.serial_ns + (1.0 - BESIDE) * beside;
        Side { device: BESIDE, constant }
    }

    /// The steps of a batch.
    fn steps(&self, batch: u64, busy: &Busy) -> Steps {
        let together = prefill_requests(self.load, batch);
        let (micro_batches, size) = micro_batches(batch, self.stages);
        let decode = |which: usize, requests: u64| {
            let of =
                |(t, k): (&Times, &f64)| self.step(t[which], requests, self.launched(false, *k));
            ends(busy.decode.iter().zip(&busy.kernels[1]).map(of))
        };
        let of = |(t, k): (&Times, &f64)| self.step(t[0], together, self.launched(true, *k));
        let prefill = ends(busy.prefill.iter().zip(&busy.kernels[0]).map(of));
        let (rounds, mixed) = (self.load.osl > 1, self.load.scheduling.mixed);
        let prompts = !self.load.prefilled;
        Steps {
            micro_batches,
            decode: if rounds { decode(0, size) } else { (0.0, 0.0) },
            alone: if rounds && mixed && prompts { decode(1, 1) } else { (0.0, 0.0) },
            prefill_requests: together,
            prefill: if prompts { prefill.0 } else { 0.0 },
            prefill_interval: if prompts { prefill.1 } else { 0.0 },
            crowded: 0.0,
            lockstep: if self.lockstep { self.replicas } else { 1 },
        }
    }

    /// The steady state of a batch.
    pub fn cycle(&self, batch: u64, busy: &Busy) -> Cycle {
        cycle(self.load, batch, &self.steps(batch, busy))
    }

    /// What is maximised, of a batch whose requests stay so long: output tokens a second and device,
    /// or the inverse of a request's time in seconds.
    pub fn score(&self, batch: u64, stay: f64) -> f64 {
        match self.load.objective {
            Objective::Latency => 1e9 / stay,
            Objective::Throughput => {
                let room = batch.saturating_mul(self.replicas);
                let running = self.load.concurrency.map_or(room, |c| room.min(c));
                running as f64 * self.load.output() as f64 / stay * 1e9 / self.devices as f64
            }
        }
    }

    /// The longest stay that scores as much.
    pub fn longest(&self, batch: u64, score: f64) -> f64 {
        self.score(batch, 1.0) / score
    }

    /// Whether the limits hold.
    pub fn within(&self, cycle: &Cycle) -> bool {
        let holds = |time: f64, limit: Option<Ns>| limit.is_none_or(|l| time <= l.as_f64());
        holds(cycle.tpot, self.load.tpot_limit) && holds(cycle.ttft, self.load.ttft_limit)
    }

    /// The slopes of one of the times of a batch at known steps.
    pub fn slopes(&self, batch: u64, busy: &Busy, what: What) -> Slopes {
        self.slopes_over((batch, batch), busy, what)[0]
    }

    /// Slopes of one of the times of batches from the first on, that hold up to the last as long as
    /// prefill takes as many requests together: those at known steps, and those where prompts cost
    /// little, each of which bounds by itself.
    pub fn slopes_over(&self, (batch, last): (u64, u64), busy: &Busy, what: What) -> [Slopes; 3] {
        let few = (batch..=last).map(|b| micro_batches(b, self.stages).0).min();
        let steps = self.steps(batch, busy);
        let steps = Steps { micro_batches: few.unwrap_or(steps.micro_batches), ..steps };
        let of = |steps: &Steps| {
            let sloped = sloped_cycle(self.load, batch, steps);
            match what {
                What::Stay => sloped.stay,
                What::Tpot => sloped.tpot,
            }
        };
        // Prompts that drain the pipeline no faster than they fill it.
        let filling = of(&Steps { prefill: steps.prefill_interval, ..steps });
        let plain = of(&Steps { prefill: 0.0, prefill_interval: 0.0, ..steps });
        let slopes = of(&steps);
        let rising = slopes.decode.0 >= 0.0 && slopes.decode.1 >= 0.0;
        if !rising || slopes.prefill_interval < 0.0 {
            return [filling, filling, plain];
        }
        // What prompts cost beyond a lone request's step would reward slow decoding without end, so no
        // more of it is counted than keeps it from that.
        let part =
            |(all, none): (f64, f64)| if all < 0.0 { none.max(0.0) / (none - all) } else { 1.0 };
        let least = |slopes: &Slopes| {
            // A single stage's latency is its interval.
            let parts = lone(slopes).into_iter().zip(lone(&plain)).map(part);
            parts.skip(usize::from(self.stages == 1)).fold(1.0, f64::min)
        };
        let kept = |slopes: Slopes| match least(&slopes) {
            part if part < 1.0 => mix(&plain, &slopes, part),
            _ => slopes,
        };
        let (slopes, filling) = (kept(slopes), kept(filling));
        let prefill = |s: &Slopes| s.prefill + s.prefill_interval;
        match prefill(&filling) > prefill(&slopes) {
            true => [filling, slopes, plain],
            false => [slopes, filling, plain],
        }
    }

    /// The bounds of one of the times of a batch that count at known steps: no plan does better than
    /// all of them.
    pub fn targets(
        &self,
        batch: u64,
        planes: [&Planes; 2],
        busy: &Busy,
        slopes: &Slopes,
    ) -> Vec<Target> {
        let prefill = self.prompts(batch, planes[0], busy, slopes);
        let (lone, host) = (slopes.alone, self.host.step(f64::NEG_INFINITY, 1, 0));
        let aims = |decode| [prefill.0.clone(), decode];
        let (mut hosted, beside) = self.rounds(batch, planes[1], busy, slopes, (0.0, 0.0));
        if lone == (0.0, 0.0) {
            return vec![Target { aims: aims(hosted), constant: prefill.1 + beside }];
        }
        let uneven = Uneven::of(&planes[1].shares);
        // As much of decoding as a lone request's step is taken from is a device's time, like that.
        let kept = (-lone.0, -lone.1);
        let mut decode = self.rounds(batch, planes[1], busy, slopes, kept);
        let constant = prefill.1 + decode.1;
        for (i, weights) in decode.0.parts.iter_mut().enumerate() {
            weights[1] += lone.0 * (1.0 + uneven.over[i]) + lone.1 * uneven.most[i];
        }
        let last = decode.0.sends.len();
        for (stage, weights) in decode.0.sends.iter_mut().enumerate() {
            weights[1] += lone.0 + if stage + 1 == last { lone.1 } else { 0.0 };
        }
        let each = lone.0 * self.stages as f64 + lone.1;
        let constant_there = constant + each * self.host.serial_ns;
        let device = Target { aims: aims(decode.0), constant: constant_there };
        if self.host.serial_ns >= host {
            return vec![device];
        }
        for (i, weights) in hosted.parts.iter_mut().enumerate() {
            let beyond = uneven.most[i] - 1.0 / self.stages as f64;
            weights[1] += lone.0 * uneven.over[i] + lone.1 * beyond;
        }
        let constant = prefill.1 + beside + each * host;
        let hosted = Target { aims: aims(hosted), constant };
        vec![device, hosted]
    }

    /// The bound of what prefill adds.
    fn prompts(&self, batch: u64, planes: &Planes, busy: &Busy, slopes: &Slopes) -> (Aim, f64) {
        let requests = prefill_requests(self.load, batch);
        let sides: Vec<Side> = (busy.prefill.iter().enumerate())
            .map(|(stage, t)| {
                let fewest = self.launched(true, planes.fewest_kernels(stage));
                self.side(t[0], requests, fewest)
            })
            .collect();
        let slopes = (slopes.prefill, slopes.prefill_interval);
        self.aim(planes, &busy.prefill, &sides, slopes, (0.0, 0.0))
    }

    /// The bound of what decoding adds, the lone request aside; so much of latency and interval is what
    /// devices take.
    fn rounds(
        &self,
        batch: u64,
        planes: &Planes,
        busy: &Busy,
        slopes: &Slopes,
        kept: (f64, f64),
    ) -> (Aim, f64) {
        let size = self.size(batch);
        let sides: Vec<Side> = (busy.decode.iter().enumerate())
            .map(|(stage, t)| {
                let fewest = self.launched(false, planes.fewest_kernels(stage));
                self.side(t[0], size, fewest)
            })
            .collect();
        self.aim(planes, &busy.decode, &sides, slopes.decode, kept)
    }

    /// The weights of the stages' devices, where latency and interval have such slopes; as much as is
    /// `kept` is taken for what devices are busy for, the rest for the side that counts.
    fn aim(
        &self,
        planes: &Planes,
        busy: &[Times],
        sides: &[Side],
        (latency, interval): (f64, f64),
        kept: (f64, f64),
    ) -> (Aim, f64) {
        let longest = (0..busy.len()).max_by(|a, b| busy[*a][0].total_cmp(&busy[*b][0]));
        let of = |stage: usize, (latency, interval): (f64, f64)| {
            latency + if Some(stage) == longest { interval } else { 0.0 }
        };
        let mut aim = Aim {
            parts: vec![[0.0; 2]; planes.parts.len()],
            sends: vec![[0.0; 2]; busy.len().saturating_sub(1)],
        };
        let mut constant = 0.0;
        for (stage, side) in sides.iter().enumerate() {
            let all = of(stage, (latency, interval));
            let kept = of(stage, kept).min(all);
            let weight = kept + (all - kept) * side.device;
            constant += kept * self.host.serial_ns + (all - kept) * side.constant;
            for (part, share) in aim.parts.iter_mut().zip(&planes.shares[stage]) {
                part[0] += weight * share;
            }
            if let Some(send) = aim.sends.get_mut(stage) {
                send[0] += weight;
            }
        }
        (aim, constant)
    }
}

/// How unevenly stages share the parts.
struct Uneven {
    /// By part, how much stages have beyond an even share, all together.
    over: Vec<f64>,
    /// By part, the most that a stage has.
    most: Vec<f64>,
}

impl Uneven {
    fn of(shares: &[Share]) -> Self {
        let even = 1.0 / shares.len() as f64;
        let parts = shares.first().map_or(0, Vec::len);
        let of = |add: &dyn Fn(f64, f64) -> f64| {
            (0..parts).map(|i| shares.iter().fold(0.0, |sum, s| add(sum, s[i]))).collect()
        };
        Uneven { over: of(&|sum, s| sum + (s - even).max(0.0)), most: of(&f64::max) }
    }
}

/// Sum and maximum.
fn ends(times: impl Iterator<Item = f64>) -> (f64, f64) {
    times.fold((0.0, 0.0), |(sum, most), t| (sum + t, f64::max(most, t)))
}
