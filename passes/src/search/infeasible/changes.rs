//! Changes of a request that make it possible, each tried before it is proposed.

use super::asked::{Asked, Demand};
use super::{Cause, Requests};
use crate::search::{Found, NothingFits, Refusal};
use crate::strategy::Degrees;
use shardc_cost::serving::Unservable;
use shardc_cost::time::Ns;
use shardc_ir::diag::Result;

/// Numbers of devices that are tried where memory lacks; most are refused at once.
const MEMORY_TRIES: usize = 40;
/// Numbers of devices that are tried otherwise; each is a search.
const OTHER_TRIES: usize = 3;
/// Plans whose longest context is looked for.
const CONTEXT_TRIES: usize = 8;

/// Proposes changes of one request.
pub(super) struct Proposer<'a> {
    pub asked: &'a Asked,
    pub world: &'a mut dyn Requests,
}

impl Proposer<'_> {
    /// Every change that was found to work, nearest first, as the user would make it.
    pub(super) fn propose(
        &mut self,
        conflict: &[Demand],
        nothing: &NothingFits,
    ) -> Result<Vec<String>> {
        let cause = Cause::of(nothing);
        let mut out = Vec::new();
        for &demand in conflict {
            out.extend(self.relaxed(demand, nothing)?);
        }
        let long = matches!(cause, Cause::Cache | Cause::Prompts);
        if long && !conflict.contains(&Demand::MaxLen) {
            out.extend(self.context(nothing)?);
        }
        out.extend(self.devices(cause)?);
        // Other formats change what the model computes, so they come last.
        if cause == Cause::Cache {
            let asked = Asked { cache_f8: true, ..self.asked.clone() };
            let possible = self.world.cache_bits() > 8 && self.possible(&asked)?.is_some();
            out.extend(possible.then(|| "`--kv-dtype f8e4m3`".to_string()));
        }
        if matches!(cause, Cause::Cache | Cause::Weights) {
            let asked = Asked { weights_f8: true, ..self.asked.clone() };
            let possible = self.world.weight_bits() > 8 && self.possible(&asked)?.is_some();
            out.extend(possible.then(|| "weights in 8 bits (`--dtype f8e4m3`)".to_string()));
        }
        Ok(out)
    }

    fn possible(&mut self, asked: &Asked) -> Result<Option<Found>> {
        self.world.possible(asked)
    }

    /// The least that a demand must give way.
    fn relaxed(&mut self, demand: Demand, nothing: &NothingFits) -> Result<Option<String>> {
        let exact = match demand {
            Demand::Tpot | Demand::Ttft => self.limit(demand, nothing)?,
            Demand::Concurrency => self.concurrency()?,
            Demand::Layout => self.layout()?.map(|d| d.flag()),
            Demand::MemFraction => self.mem_fraction()?,
            Demand::MaxLen => return self.context(nothing),
            Demand::Pins | Demand::Search => None,
        };
        let option = demand.option();
        if let Some(value) = exact {
            return Ok(Some(format!("`{option} {value}`")));
        }
        let dropped = demand.dropped(self.asked);
        Ok(self.possible(&dropped)?.map(|_| format!("no `{option}`")))
    }

    /// The tightest limit that the fastest plan keeps, in hundredths of a millisecond.
    fn limit(&mut self, demand: Demand, nothing: &NothingFits) -> Result<Option<String>> {
        let Some((_, Refusal::Service { cause, .. })) = &nothing.closest else { return Ok(None) };
        let best = match (demand, cause) {
            (Demand::Tpot, Unservable::Tpot { best, .. }) => *best,
            (Demand::Ttft, Unservable::Ttft { best, .. }) => *best,
            _ => return Ok(None),
        };
        let hundredths = best.get().div_ceil(10_000);
        let limit = Some(Ns::new(hundredths.saturating_mul(10_000)));
        let mut asked = self.asked.clone();
        match demand {
            Demand::Tpot => asked.load.tpot_limit = limit,
            _ => asked.load.ttft_limit = limit,
        }
        let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
        Ok(self.possible(&asked)?.map(|_| text))
    }

    /// The most requests in flight with which some plan keeps the limits.
    fn concurrency(&mut self) -> Result<Option<String>> {
        let Some(asked) = self.asked.load.concurrency else { return Ok(None) };
        let dropped = Demand::Concurrency.dropped(self.asked);
        let Some(found) = self.possible(&dropped)? else { return Ok(None) };
        let with = |n: u64| {
            let mut asked = Asked { forced: Some(found.best.degrees), ..self.asked.clone() };
            asked.load.concurrency = Some(n);
            asked
        };
        let world = &mut *self.world;
        let most = most(1, asked, &mut |n| Ok(world.attempt(&with(n))?.is_ok()))?;
        Ok(most.map(|n| n.to_string()))
    }

    /// The least part of memory that is enough, in hundredths.
    fn mem_fraction(&mut self) -> Result<Option<String>> {
        let (mut low, mut high) = ((self.asked.mem_fraction * 100.0) as u64, 100);
        let with = |n: u64| Asked { mem_fraction: n as f64 / 100.0, ..self.asked.clone() };
        if self.world.attempt(&with(high))?.is_err() {
            return Ok(None);
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            match self.world.attempt(&with(middle))?.is_ok() {
                true => high = middle,
                false => low = middle,
            }
        }
        Ok(Some((high as f64 / 100.0).to_string()))
    }

    /// The layout nearest to the forced one that works.
    fn layout(&mut self) -> Result<Option<Degrees>> {
        let Some(forced) = self.asked.forced else { return Ok(None) };
        let mut layouts = self.world.layouts(self.asked.devices);
        layouts.sort_by_key(|d| (d.distance(&forced), *d));
        for degrees in layouts {
            let asked = Asked { forced: Some(degrees), ..self.asked.clone() };
            if self.possible(&asked)?.is_some() {
                return Ok(Some(degrees));
            }
        }
        Ok(None)
    }

    /// The longest context that some plan holds: that of the nearest plan, then of every plan that
    /// holds a longer one.
    fn context(&mut self, nothing: &NothingFits) -> Result<Option<String>> {
        let Some((nearest, _)) = &nothing.closest else { return Ok(None) };
        let mut degrees = *nearest;
        let mut longest = None;
        for _ in 0..CONTEXT_TRIES {
            let with = |tokens: u64| {
                let asked = self.asked.with_context(tokens);
                Asked { forced: Some(degrees), ..asked }
            };
            let least = longest.unwrap_or(1);
            let world = &mut *self.world;
            let most =
                most(least, self.asked.max_len, &mut |n| Ok(world.attempt(&with(n))?.is_ok()))?;
            longest = most.or(longest);
            let longer = self.asked.with_context(longest.map_or(2, |n| n + 1));
            match (self.asked.forced, self.possible(&longer)?) {
                (None, Some(found)) => degrees = found.best.degrees,
                _ => break,
            }
        }
        let change = |tokens: u64| {
            let Asked { load, .. } = self.asked.with_context(tokens);
            match tokens < self.asked.request() {
                true => format!("max context {tokens} (`--isl {} --osl {}`)", load.isl, load.osl),
                false => format!("max context {tokens} (`--max-len {tokens}`)"),
            }
        };
        Ok(longest.filter(|n| *n > 1).map(change))
    }

    /// The next larger number of devices that works.
    fn devices(&mut self, cause: Cause) -> Result<Option<String>> {
        let tries = match cause {
            Cause::Weights | Cause::Cache => MEMORY_TRIES,
            Cause::Prompts | Cause::Limits | Cause::Degrees => OTHER_TRIES,
        };
        if self.asked.forced.is_some() {
            return Ok(None);
        }
        for (devices, flag) in self.world.more_devices().into_iter().take(tries) {
            let asked = Asked { devices, ..self.asked.clone() };
            if self.possible(&asked)?.is_some() {
                return Ok(Some(format!("{devices} devices (`{flag}`)")));
            }
        }
        Ok(None)
    }
}

/// The largest of `low..=high` that works, if all smaller ones do where a larger one does.
fn most(low: u64, high: u64, works: &mut dyn FnMut(u64) -> Result<bool>) -> Result<Option<u64>> {
    if !works(low)? {
        return Ok(None);
    }
    let (mut low, mut high) = (low, high.saturating_add(1));
    while high - low > 1 {
        let middle = low.midpoint(high);
        match works(middle)? {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(Some(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_found_by_halving() {
        let find = |limit: u64, high: u64| most(1, high, &mut |n| Ok(n <= limit)).ok().flatten();
        assert_eq!(find(79_392, 131_072), Some(79_392));
        assert_eq!(find(131_072, 131_072), Some(131_072));
        assert_eq!(find(0, 8), None);
        assert_eq!(find(u64::MAX, u64::MAX), Some(u64::MAX - 1));
    }
}
