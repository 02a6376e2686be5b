//! Times that carry their slopes: how a steady state follows from the times of steps.
//!
//! Everything that [`cycle`](super::cycle) derives from times of steps is a maximum of sums of them,
//! so it is convex and grows in proportion: the slopes at any steps bound it from below at all.

use super::Load;
use super::cycle::{Cycle, Steps, cycle};
use std::fmt::Debug;
use std::ops::{Add, Div, Mul, Sub};

/// What the formulas of the steady state compute with: a time in ns, alone or with its slopes.
pub trait Time:
    Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<f64, Output = Self>
    + Div<f64, Output = Self>
{
    /// No time.
    const ZERO: Self;
    /// The time itself.
    fn value(self) -> f64;

    /// The longer of two; the first of equals.
    fn longer(self, other: Self) -> Self {
        if other.value() > self.value() { other } else { self }
    }

    /// The time, or none where it is negative.
    fn or_none(self) -> Self {
        self.longer(Self::ZERO)
    }
}

impl Time for f64 {
    const ZERO: f64 = 0.0;

    fn value(self) -> f64 {
        self
    }
}

/// Times of [`Steps`] on which a steady state depends.
const INPUTS: usize = 7;

/// A time with its slopes over the times of [`Steps`].
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sloped {
    value: f64,
    by: [f64; INPUTS],
}

impl Sloped {
    fn input(value: f64, number: usize) -> Self {
        let mut by = [0.0; INPUTS];
        by[number] = 1.0;
        Sloped { value, by }
    }

    fn zip(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        let mut by = self.by;
        by.iter_mut().zip(other.by).for_each(|(a, b)| *a = of(*a, b));
        Sloped { value: of(self.value, other.value), by }
    }
}

impl Add for Sloped {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
}

impl Sub for Sloped {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
}

impl Mul<f64> for Sloped {
    type Output = Self;

    fn mul(self, by: f64) -> Self {
        self.zip(self, |a, _| a * by)
    }
}

impl Div<f64> for Sloped {
    type Output = Self;

    fn div(self, by: f64) -> Self {
        self.zip(self, |a, _| a / by)
    }
}

impl Time for Sloped {
    const ZERO: Sloped = Sloped { value: 0.0, by: [0.0; INPUTS] };

    fn value(self) -> f64 {
        self.value
    }
}

/// Slopes over the times of [`Steps`], by the names of its fields: over latencies and intervals. A
/// latency's slope is not negative, nor is the sum of both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slopes {
    /// Over those of a decode micro-batch.
    pub decode: (f64, f64),
    /// Over those of a prefill micro-batch by itself.
    pub prefill: (f64, f64),
    /// Over those of a decode micro-batch with a chunk of prompts.
    pub mixed: (f64, f64),
    /// Over the interval of full prefill micro-batches, by request.
    pub crowded: f64,
}

impl Slopes {
    fn of(time: Sloped) -> Slopes {
        let [d0, d1, p0, p1, m0, m1, crowded] = time.by;
        Slopes { decode: (d0, d1), prefill: (p0, p1), mixed: (m0, m1), crowded }
    }

    /// Slopes of latencies and intervals, kind by kind.
    pub fn pairs(&self) -> [(f64, f64); 3] {
        [self.decode, self.prefill, self.mixed]
    }

    /// The sum of slopes times steps: what the time is at least, whatever the steps.
    pub fn at(&self, steps: &Steps) -> f64 {
        let times = [steps.decode, steps.prefill, steps.mixed];
        let pairs = self.pairs().into_iter().zip(times);
        let sum: f64 = pairs.map(|(by, of)| by.0 * of.0 + by.1 * of.1).sum();
        sum + self.crowded * steps.crowded
    }
}

/// A steady state with its slopes.
#[derive(Clone, Copy, Debug)]
pub struct SlopedCycle {
    /// The steady state.
    pub cycle: Cycle,
    /// Slopes of the time to the first token.
    pub ttft: Slopes,
    /// Slopes of the time of a later token.
    pub tpot: Slopes,
    /// Slopes of the time that a request stays.
    pub stay: Slopes,
}

/// The steady state of a replica that runs `batch` requests, with slopes that bound it from below:
/// at any other steps of as many micro-batches, prompts and replicas, none of its times is less than
/// [`Slopes::at`] them.
pub fn sloped_cycle(load: &Load, batch: u64, steps: &Steps) -> SlopedCycle {
    let pair = |of: (f64, f64), at: usize| (Sloped::input(of.0, at), Sloped::input(of.1, at + 1));
    let sloped = Steps {
        stages: steps.stages,
        micro_batches: steps.micro_batches,
        decode: pair(steps.decode, 0),
        prefill_requests: steps.prefill_requests,
        prefill: pair(steps.prefill, 2),
        mixed: pair(steps.mixed, 4),
        crowded: Sloped::input(steps.crowded, 6),
        lockstep: steps.lockstep,
    };
    let Cycle { ttft, tpot, stay } = cycle(load, batch, &sloped);
    SlopedCycle {
        cycle: Cycle { ttft: ttft.value, tpot: tpot.value, stay: stay.value },
        ttft: Slopes::of(ttft),
        tpot: Slopes::of(tpot),
        stay: Slopes::of(stay),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scheduling;
    use super::super::cycle::{micro_batches, prefill_requests};
    use super::*;
    use proptest::prelude::*;

    /// Times of a pipeline: intervals of decode, prefill and mixed steps, each with the part that its
    /// latency lies between one interval and all stages'.
    fn steps(load: &Load, batch: u64, stages: u64, lockstep: u64, times: [f64; 7]) -> Steps {
        let [decode, prefill, mixed, decodes, prefills, mixes, crowded] = times;
        let pair = |interval: f64, spread: f64| {
            (interval * (1.0 + spread * (stages - 1) as f64), interval)
        };
        Steps {
            stages,
            micro_batches: micro_batches(batch, stages).0,
            decode: pair(decode, decodes),
            prefill_requests: prefill_requests(load, batch),
            prefill: pair(prefill, prefills),
            mixed: pair(mixed, mixes),
            crowded,
            lockstep,
        }
    }

    fn any_times() -> impl Strategy<Value = [f64; 7]> {
        let part = || 0.0..1.0f64;
        (1.0..1e3f64, 1.0..1e5f64, 1.0..1e5f64, part(), part(), part(), 0.0..1e4f64)
            .prop_map(|(a, b, c, d, e, f, g)| [a, b, c, d, e, f, g])
    }

    fn any_load() -> impl Strategy<Value = Load> {
        let some = prop::option::of(1u64..5000);
        (1u64..5000, 1u64..600, some, any::<bool>(), prop::option::of(1u64..20)).prop_map(
            |(isl, osl, concurrency, mixed, waves)| Load {
                concurrency,
                waves,
                scheduling: Scheduling {
                    mixed,
                    held: f64::from(u8::from(mixed)),
                    ..Scheduling::ALONE
                },
                ..Load::new(isl, osl)
            },
        )
    }

    proptest! {
        #[test]
        fn slopes_bound_from_below(
            load in any_load(),
            batch in 1u64..2000,
            stages in 1u64..6,
            lockstep in 1u64..9,
            here in any_times(),
            there in any_times(),
        ) {
            let here = steps(&load, batch, stages, lockstep, here);
            let there = steps(&load, batch, stages, lockstep, there);
            let sloped = sloped_cycle(&load, batch, &here);
            let plain = cycle(&load, batch, &here);
            prop_assert_eq!(plain.stay, sloped.cycle.stay);
            let other = cycle(&load, batch, &there);
            for (slopes, at, time) in [
                (sloped.ttft, plain.ttft, other.ttft),
                (sloped.tpot, plain.tpot, other.tpot),
                (sloped.stay, plain.stay, other.stay),
            ] {
                prop_assert!((slopes.at(&here) - at).abs() <= 1e-9 * at, "{slopes:?}");
                prop_assert!(slopes.at(&there) <= time * (1.0 + 1e-9), "{slopes:?}");
                for (latency, interval) in slopes.pairs() {
                    let least = latency.min(latency + interval);
                    prop_assert!(least >= -1e-9 * (latency.abs() + interval.abs()), "{slopes:?}");
                }
            }
        }

        #[test]
        fn longer_steps_never_serve_better(
            load in any_load(),
            batch in 1u64..2000,
            stages in 1u64..6,
            lockstep in 1u64..9,
            here in any_times(),
            grow in prop::array::uniform5(1.0..3.0f64),
        ) {
            let here = steps(&load, batch, stages, lockstep, here);
            let [decode, prefill, mixed, crowded, both] = grow;
            // A latency grows by no less than its interval.
            let wait = |(l, i): (f64, f64), by: f64| (l + i * (by - 1.0) * both, i * by);
            let there = Steps {
                decode: wait(here.decode, decode),
                prefill: wait(here.prefill, prefill),
                mixed: wait(here.mixed, mixed),
                crowded: here.crowded * crowded,
                ..here
            };
            let (a, b) = (cycle(&load, batch, &here), cycle(&load, batch, &there));
            prop_assert!(b.tpot >= a.tpot * (1.0 - 1e-9), "{a:?} {b:?}");
            prop_assert!(b.stay >= a.stay * (1.0 - 1e-9), "{a:?} {b:?}");
        }
    }
}
