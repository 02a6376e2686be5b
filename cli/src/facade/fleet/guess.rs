//! Guesses at what a fleet serves, without a simulation.

use super::{ENOUGH, FleetJudge, FleetPlan, PoolPlan, link};
use crate::slots::Slots;
use shardc_cost::serving::{Load, Scheduling};
use shardc_cost::simulate::Arrival;
use shardc_cost::time::Ns;
use shardc_ir::diag::Result;
use shardc_passes::strategy::Degrees;

/// Of ten requests one may be late: an exponential wait exceeds this many means so often.
const LATE: f64 = std::f64::consts::LN_10;
/// What a pool is guessed to serve in time at least, of what it serves at all: so far below the others
/// that only its order counts.
const LEAST: f64 = 0.01;
/// Requests a second of a replica among which the largest is sought, as powers of two, and halvings.
const RATES: (f64, f64) = (-14.0, 10.0);
const HALVINGS: u32 = 24;
/// Stalls beyond which their mean decides.
const MANY: u64 = 64;

/// The stream in numbers, and how long instances take for one prompt.
pub(super) struct Prompts {
    /// Tokens of the mean prompt.
    mean: u64,
    /// Tokens that one of ten prompts exceeds.
    long: u64,
    /// Mean square over the square of the mean.
    spread: f64,
    /// ns of the mean and of the long prompt, each alone; none where an instance is not possible.
    alone: Slots<Degrees, Result<Option<[f64; 2]>>>,
}

impl Prompts {
    /// Of a stream.
    pub fn of(requests: &[Arrival]) -> Self {
        let mut lengths: Vec<u64> = requests.iter().map(|r| u64::from(r.isl)).collect();
        lengths.sort_unstable();
        let count = lengths.len().max(1) as f64;
        let mean = lengths.iter().map(|&n| n as f64).sum::<f64>() / count;
        let square = lengths.iter().map(|&n| (n as f64).powi(2)).sum::<f64>() / count;
        let long = lengths.get((lengths.len() * 9).div_ceil(10).max(1) - 1).copied().unwrap_or(1);
        let spread = square / mean.max(1.0).powi(2);
        Prompts { mean: (mean.round() as u64).max(1), long, spread, alone: Slots::default() }
    }
}

impl FleetJudge<'_> {
    /// A guess at the requests a second that a fleet serves: what its pools come to in the steady state
    /// of the stream's mean request, of which one pool holds up the other, as far as nine of ten requests
    /// then meet both limits.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub fn guess(&self, fleet: &FleetPlan) -> Result<f64> {
        let whole = self.request.load;
        let load = Load {
            max_batch: fleet.max_batch,
            // `in_time` sees to that.
            ttft_limit: None,
            tpot_limit: self.limits.tpot,
            prefill_tokens: fleet.chunk.unwrap_or(whole.prefill_tokens),
            least_prefill_tokens: None,
            scheduling: Scheduling { mixed: fleet.chunk.is_some(), ..whole.scheduling },
            ..whole
        };
        let first = &fleet.first;
        let Some(decode) = &fleet.decode else {
            let in_time = self.rate(first, load)? * self.in_time(first, fleet.chunk)?;
            return Ok(in_time.min(self.undisturbed(first, fleet.chunk, load)?));
        };
        let prompts = self.rate(first, Load { osl: 1, tpot_limit: None, ..load })?;
        let prompts = prompts * self.in_time(first, fleet.chunk)?;
        let answers = Load { prefilled: true, osl: load.osl.max(2), ..load };
        let tpot_limit = self.after_transfer(decode, answers)?;
        Ok(prompts.min(self.rate(decode, Load { tpot_limit, ..answers })?))
    }

    /// What nine of ten requests have left of their time for a later token, the transfer of their cache
    /// to a pool for decoding dealt over them.
    fn after_transfer(&self, pool: &PoolPlan, answers: Load) -> Result<Option<Ns>> {
        let Some(limit) = self.limits.tpot else { return Ok(None) };
        let free = Load { tpot_limit: None, ..answers };
        let Ok(plan) = self.steady(&pool.degrees, free)? else { return Ok(Some(limit)) };
        // Memory is kept for the longest request, each.
        let held = plan.serving.replica_batch.saturating_mul(self.request.context()).max(1);
        let token = plan.memory.kv_cache as f64 / held as f64;
        let (bytes_per_s, latency) = link(self.cluster);
        let spare = |r: &Arrival| {
            let sent = f64::from(r.isl) * token / bytes_per_s * 1e9 + latency.as_f64();
            limit.as_f64() - sent / f64::from(r.osl.saturating_sub(1).max(1))
        };
        let mut spares: Vec<f64> = self.requests.iter().filter(|r| r.osl > 1).map(spare).collect();
        spares.sort_by(f64::total_cmp);
        let most = spares.get(spares.len() / 10).copied().unwrap_or(limit.as_f64());
        Ok(Some(Ns::from_ns(most.max(1.0))))
    }

    /// Requests a second of which nine of ten meet the limit on a later token although prompts of others
    /// come in between, each as a stall, at random.
    fn undisturbed(&self, pool: &PoolPlan, chunk: Option<u64>, load: Load) -> Result<f64> {
        let Some(limit) = self.limits.tpot else { return Ok(f64::INFINITY) };
        let plan = self.steady(&pool.degrees, load)?;
        let (Ok(plan), Some([prompt, _])) = (plan, self.alone_on(&pool.degrees)?) else {
            return Ok(0.0);
        };
        let spare = (limit.as_f64() - plan.serving.decode_step.as_f64()).max(0.0);
        let step = chunk.map_or(prompt, |n| prompt * n as f64 / self.prompts.mean as f64);
        let requests: Vec<(u64, f64)> = self
            .requests
            .iter()
            .map(|r| {
                let tokens = f64::from(r.osl.saturating_sub(1));
                let stall = prompt.min(step * tokens.max(1.0)).max(1.0);
                ((tokens * spare / stall) as u64, tokens * limit.as_f64() / 1e9)
            })
            .collect();
        let good = |rate: f64| {
            let each = requests.iter().map(|&(stalls, seconds)| at_most(stalls, rate * seconds));
            each.sum::<f64>() / requests.len().max(1) as f64
        };
        let (mut low, mut high) = RATES;
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if good(middle.exp2()) >= ENOUGH { low = middle } else { high = middle }
        }
        Ok(low.exp2() * pool.instances.saturating_mul(pool.degrees.dp) as f64)
    }

    /// Requests a second that a pool serves in the steady state.
    fn rate(&self, pool: &PoolPlan, load: Load) -> Result<f64> {
        let devices = pool.instances.saturating_mul(pool.degrees.devices());
        Ok(match self.steady(&pool.degrees, load)? {
            Err(_) => 0.0,
            Ok(plan) => {
                let tokens = plan.serving.tokens_per_s_per_device * devices as f64;
                tokens / load.output().max(1) as f64
            }
        })
    }

    /// How busy prompts may keep a pool so that nine of ten get their first token in time: the wait of a
    /// queue with random arrivals (Pollaczek and Khinchine's formula, the work dealt evenly over
    /// replicas), exponential in its tail, beside the time of a long prompt itself. Chunks of it are in
    /// several stages at once.
    fn in_time(&self, pool: &PoolPlan, chunk: Option<u64>) -> Result<f64> {
        let Some(limit) = self.limits.ttft else { return Ok(1.0) };
        let Some([mean, long]) = self.alone_on(&pool.degrees)? else { return Ok(LEAST) };
        let Degrees { pp, dp, .. } = pool.degrees;
        let servers = pool.instances.max(1).saturating_mul(dp).saturating_mul(pp) as f64;
        let chunks = chunk.map_or(1, |n| self.prompts.long.div_ceil(n.max(1)).max(1));
        let rounds = chunks.saturating_add(pp - 1) as f64 / chunks.saturating_mul(pp) as f64;
        let spare = limit.as_f64() - long * rounds;
        let wait = LATE * mean / servers * self.prompts.spread / 2.0;
        Ok((spare / (spare.max(0.0) + wait)).max(LEAST))
    }

    /// ns of the mean and of the long prompt, each alone on an instance; none where it is not possible.
    fn alone_on(&self, degrees: &Degrees) -> Result<Option<[f64; 2]>> {
        let slot = self.prompts.alone.slot(*degrees);
        slot.get_or_init(|| self.alone(degrees)).clone()
    }

    fn alone(&self, degrees: &Degrees) -> Result<Option<[f64; 2]>> {
        let time = |isl: u64| -> Result<Option<f64>> {
            let (ttft_limit, tpot_limit): (Option<Ns>, Option<Ns>) = (None, None);
            let whole = self.request.load;
            let whole = Load { least_prefill_tokens: None, ttft_limit, tpot_limit, ..whole };
            let load = Load { isl, osl: 1, prefill_tokens: 1, ..whole };
            let plan = self.steady(degrees, load)?;
            Ok(plan.ok().map(|plan| plan.serving.prefill_step.as_f64()))
        };
        Ok(time(self.prompts.mean)?.zip(time(self.prompts.long)?).map(|(mean, long)| [mean, long]))
    }
}

/// The probability that a Poisson variable of this mean is at most `most`.
fn at_most(most: u64, mean: f64) -> f64 {
    if most > MANY {
        return if mean < most as f64 { 1.0 } else { 0.0 };
    }
    let mut term = (-mean).exp();
    let mut sum = term;
    for n in 1..=most {
        term *= mean / n as f64;
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_counted_as_poisson_says() {
        assert!((at_most(0, 1.0) - (-1.0f64).exp()).abs() < 1e-12);
        assert!((at_most(2, 2.0) - 5.0 * (-2.0f64).exp()).abs() < 1e-12);
        assert_eq!((at_most(100, 99.0), at_most(100, 101.0)), (1.0, 0.0));
    }

    #[test]
    fn a_stream_is_summed_up() {
        let request = |isl: u32| Arrival { at: 0, isl, osl: 1 };
        let prompts = Prompts::of(&[1, 1, 1, 1, 1, 1, 1, 1, 1, 11].map(request));
        assert_eq!((prompts.mean, prompts.long), (2, 1));
        assert!((prompts.spread - 13.0 / 4.0).abs() < 1e-12);
    }
}
