//! What the times of stages count: a steady state as a weighted sum of what devices are busy for,
//! which is never more than the true one.
//!
//! The steady state is a maximum of sums of step times ([`sloped_cycle`]); a step's latency sums the
//! stages and its interval is the longest of them; a stage takes what its device is busy for and what
//! the host adds, or what the host needs beside it if that is longer. Each maximum is bounded by one
//! of its sides, the one that counts at some known steps, so the weights are right there and safe
//! elsewhere. No weight is negative.

use super::block::{Times, Weights};
use super::phase::{Planes, Solution};
use shardc_cost::profile::Host;
use shardc_cost::serving::{
    Cycle, Load, Mixed, Objective, Slopes, Steps, cycle, micro_batches, prefill_requests,
    sloped_cycle,
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

/// Device times of the stages, prefill first: of a step by itself, and of a phase's part of a step in
/// which prompts ride. Kernels of theirs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Busy {
    pub phases: [Vec<Times>; 2],
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
            phases: [prefill.stages.clone(), decode.stages.clone()],
            kernels: [prefill.kernels.clone(), decode.kernels.clone()],
        }
    }

    /// Device times of a kind of step.
    fn stages(&self, kind: Kind) -> Vec<f64> {
        let [prefill, decode] = &self.phases;
        let both = prefill.iter().zip(decode);
        match kind {
            Kind::Prefill => prefill.iter().map(|t| t[0]).collect(),
            Kind::Decode => decode.iter().map(|t| t[0]).collect(),
            Kind::Mixed => both.map(|(p, d)| p[1] + d[1]).collect(),
        }
    }
}

/// A kind of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Prompts by themselves.
    Prefill,
    /// Decoding by itself.
    Decode,
    /// Decoding in which prompts ride.
    Mixed,
}

impl Kind {
    /// The phases whose work it does, prefill first, and which of their times that is.
    fn work(self) -> &'static [(usize, usize)] {
        match self {
            Kind::Prefill => &[(0, 0)],
            Kind::Decode => &[(1, 0)],
            Kind::Mixed => &[(0, 1), (1, 1)],
        }
    }

    /// The phase whose kernels are launched.
    fn launches(self) -> usize {
        usize::from(self == Kind::Decode)
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

    /// Whether prefill steps by themselves count.
    pub fn prompts_alone(&self) -> bool {
        let load = self.load;
        !load.prefilled && (!load.mixes() || self.lockstep || load.waves.is_some())
    }

    /// A decode step in which prompts ride, of a replica of `batch` requests; none where none do.
    pub fn mixed(&self, batch: u64) -> Option<Mixed> {
        let prompts = prefill_requests(self.load, batch);
        self.load.mixes().then(|| Mixed::of(self.load, prompts, self.size(batch)))
    }

    /// Requests that a kind of step serves.
    fn served(&self, kind: Kind, batch: u64) -> u64 {
        match kind {
            Kind::Prefill => prefill_requests(self.load, batch),
            Kind::Decode => self.size(batch),
            Kind::Mixed => self.mixed(batch).map_or(0, |step| step.served()),
        }
    }

    /// Kernels of a stage that no graph launches.
    fn launched(&self, kind: Kind, kernels: f64) -> u64 {
        let decodes = kind == Kind::Decode || self.load.isl == 1;
        if self.cuda_graphs && decodes { 0 } else { kernels.round() as u64 }
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

    /// Times of the stages in a kind of step, host time included.
    fn stages(&self, kind: Kind, batch: u64, busy: &Busy) -> Vec<f64> {
        let served = self.served(kind, batch);
        let step = |(device, kernels): (&f64, &f64)| {
            self.step(*device, served, self.launched(kind, *kernels))
        };
        busy.stages(kind).iter().zip(&busy.kernels[kind.launches()]).map(step).collect()
    }

    /// The steps of a batch.
    fn steps(&self, batch: u64, busy: &Busy) -> Steps {
        let ends = |asked: bool, kind: Kind| match asked {
            true => ends(self.stages(kind, batch, busy)),
            false => (0.0, 0.0),
        };
        Steps {
            stages: self.stages,
            micro_batches: micro_batches(batch, self.stages).0,
            decode: ends(self.load.osl > 1, Kind::Decode),
            prefill_requests: prefill_requests(self.load, batch),
            prefill: ends(self.prompts_alone(), Kind::Prefill),
            mixed: ends(self.load.mixes(), Kind::Mixed),
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
    /// prefill takes as many requests together: those at known steps, those where prompts drain the
    /// pipeline no faster than they fill it, and those where prompts cost nothing. Each bounds by itself.
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
        let filling = |(_, interval): (f64, f64)| (interval, interval);
        let none = (0.0, 0.0);
        [
            of(&steps),
            of(&Steps { prefill: filling(steps.prefill), mixed: filling(steps.mixed), ..steps }),
            of(&Steps { prefill: none, mixed: none, ..steps }),
        ]
    }

    /// Sums of a single kind of step. Where replicas step together, or stages empty and fill, what steps
    /// count at a batch is no mean of what they count at a smaller and at a larger one, so each must be
    /// known by itself.
    pub fn units(&self) -> Vec<Slopes> {
        if self.load.prefilled || self.load.osl == 1 || (self.stages == 1 && !self.lockstep) {
            return Vec::new();
        }
        let (none, one) = (Slopes::default(), (0.0, 1.0));
        let waits = self.lockstep && self.stages > 1;
        let all = [
            Some(Slopes { decode: one, ..none }),
            Some(Slopes { mixed: one, ..none }).filter(|_| self.load.mixes()),
            Some(Slopes { prefill: one, ..none }).filter(|_| self.prompts_alone()),
            Some(Slopes { decode: (1.0, 0.0), ..none }).filter(|_| waits),
            Some(Slopes { mixed: (1.0, 0.0), ..none }).filter(|_| waits && self.load.mixes()),
        ];
        all.into_iter().flatten().collect()
    }

    /// The bound of one of the times of a batch that counts at known steps.
    pub fn target(&self, batch: u64, planes: [&Planes; 2], busy: &Busy, slopes: &Slopes) -> Target {
        let aim = |phase: usize| Aim {
            parts: vec![[0.0; 2]; planes[phase].parts.len()],
            sends: vec![[0.0; 2]; planes[phase].shares.len().saturating_sub(1)],
        };
        let mut target = Target { aims: [aim(0), aim(1)], constant: 0.0 };
        for (kind, slopes) in [
            (Kind::Decode, slopes.decode),
            (Kind::Prefill, slopes.prefill),
            (Kind::Mixed, slopes.mixed),
        ] {
            if slopes != (0.0, 0.0) {
                self.count(&mut target, kind, (batch, planes, busy), slopes);
            }
        }
        target
    }

    /// Counts a kind of step, whose latency and interval have such slopes: for each stage what its
    /// device is busy for, or the host.
    fn count(
        &self,
        target: &mut Target,
        kind: Kind,
        (batch, planes, busy): (u64, [&Planes; 2], &Busy),
        (latency, interval): (f64, f64),
    ) {
        let times = self.stages(kind, batch, busy);
        let longest = (0..times.len()).max_by(|a, b| times[*a].total_cmp(&times[*b]));
        let (devices, served) = (busy.stages(kind), self.served(kind, batch));
        for (stage, device) in devices.into_iter().enumerate() {
            let fewest = planes[kind.launches()].fewest_kernels(stage);
            let side = self.side(device, served, self.launched(kind, fewest));
            let all = latency + if Some(stage) == longest { interval } else { 0.0 };
            target.constant += all * side.constant;
            for &(phase, time) in kind.work() {
                let aim = &mut target.aims[phase];
                for (part, share) in aim.parts.iter_mut().zip(&planes[phase].shares[stage]) {
                    part[time] += all * side.device * share;
                }
                if let Some(send) = aim.sends.get_mut(stage) {
                    send[time] += all * side.device;
                }
            }
        }
    }
}

/// Sum and maximum.
fn ends(times: Vec<f64>) -> (f64, f64) {
    times.into_iter().fold((0.0, 0.0), |(sum, most), t| (sum + t, f64::max(most, t)))
}
