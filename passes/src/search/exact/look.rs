//! A look at one batch of a cell: the best layouts there, and what no batch from there on exceeds.

use super::aim::{Busy, Service, What};
use super::cell::{Cell, Scene};
use super::cover::{Known, cover};
use super::joint::{Effort, Joint, Pair};
use super::phase::{Objective, Planes, Prices, Share};
use crate::search::layouts::Layouts;
use shardc_cost::serving::{Slopes, prefill_requests};
use shardc_cost::time::Ns;

/// Moves of the prices between phases at one look.
const ROUNDS: usize = 3;
/// Parts of a point that are looked into beyond the whole.
const NODES: usize = 6;
/// Times that weights are taken anew at what they led to.
const AIMS: usize = 2;
/// A relative difference of a bound that is not worth another try.
const CLOSE: f64 = 1e-4;
/// Batches at which a span is bounded at most.
const SAMPLES: u64 = 64;

/// What is known about the batches from one on.
#[derive(Debug)]
pub(super) struct Seen {
    pub batch: u64,
    /// Steps that are near the best.
    busy: Busy,
    /// Least times that a request stays.
    stays: Vec<Known>,
    /// Least times of a later token, where they are limited.
    tpots: Vec<Known>,
    prices: Prices,
}

/// A look at a batch of a cell.
pub(super) struct Look {
    pub seen: Seen,
    /// The most that a plan at this batch reaches; none where the limits cannot be met.
    pub most: f64,
    /// A plan that may be better than the best known one.
    pub layouts: Option<Layouts>,
}

/// One cell at one batch.
struct Spot<'s, 'a> {
    scene: &'s Scene<'a>,
    service: Service<'s>,
    batch: u64,
    planes: [&'s Planes; 2],
    share: &'s Share,
    room: f64,
    least: f64,
}

impl Scene<'_> {
    /// The first look at a cell, at one request of a replica, and the largest batch; `None` where
    /// nothing fits.
    pub fn open(&self, cell: &Cell, reached: f64) -> Option<(Look, u64)> {
        let decode = self.decode_planes(cell, 1);
        let most = self.largest_batch(cell, &decode);
        if most == 0 {
            return None;
        }
        Some((self.look_with(cell, (1, most), &decode, None, reached)?, most))
    }

    /// Looks at a batch, with what was seen at a smaller one; `None` where nothing fits.
    pub fn look(
        &self,
        cell: &Cell,
        (batch, last): (u64, u64),
        before: &Seen,
        reached: f64,
    ) -> Option<Look> {
        let decode = self.decode_planes(cell, self.service(cell).size(batch));
        self.look_with(cell, (batch, last), &decode, Some(before), reached)
    }

    fn look_with(
        &self,
        cell: &Cell,
        (batch, last): (u64, u64),
        decode: &Planes,
        before: Option<&Seen>,
        reached: f64,
    ) -> Option<Look> {
        let prefill = self.prefill_planes(cell, batch);
        let fewest = |share: &&Share| decode.fewest_bytes(batch as f64, share);
        let share = decode.shares.iter().max_by(|a, b| fewest(a).total_cmp(&fewest(b)))?;
        let least = match self.load().prefilled {
            true => 0.0,
            false => self.least_activations(cell).max(prefill.fewest_transient()),
        };
        let spot = Spot {
            scene: self,
            service: self.service(cell),
            batch,
            planes: [prefill.as_ref(), decode],
            share,
            room: self.room(cell),
            least,
        };
        let (seen, most, pair) = spot.look(last, before, reached)?;
        let layouts = pair.and_then(|pair| self.layouts(cell, spot.planes, &pair));
        Some(Look { seen, most, layouts })
    }

    /// Where to cut batches in two: in the middle of their ratio, or where prefill micro-batches grow.
    pub fn middle(&self, first: u64, last: u64) -> u64 {
        let middle = (first as f64 * last as f64).sqrt().round() as u64;
        let middle = middle.clamp(first, last);
        let together = |batch| prefill_requests(self.load(), batch);
        let grows = (first + 1..=last).filter(|b| together(*b) != together(b - 1));
        grows.min_by_key(|b| b.abs_diff(middle)).unwrap_or(middle)
    }

    /// The most that batches of a span may yield, and the last of them that may meet the limits;
    /// `None` where none does. All are larger than the one seen, whose steps are not longer.
    pub fn at_most(
        &self,
        cell: &Cell,
        seen: &Seen,
        (first, last): (u64, u64),
    ) -> Option<(f64, u64)> {
        let service = self.service(cell);
        let together = |batch| prefill_requests(self.load(), batch);
        let alike = together(first) == together(last);
        let step = ((last - first + 1) / SAMPLES).max(1);
        let (mut most, mut from, mut meets) = (0.0, first, None);
        while from <= last {
            let mut to = (from + step - 1).min(last);
            to = (from..=to).take_while(|b| together(*b) == together(from)).last().unwrap_or(from);
            let least = || seen.least(&service, (from, to), What::Tpot);
            if self.load().tpot_limit.is_none_or(|limit| least() <= limit.as_f64()) {
                let stay = seen.least(&service, (from, to), What::Stay);
                most = f64::max(most, service.score(to, stay));
                meets = Some(to);
            } else if alike {
                break;
            }
            from = to + 1;
        }
        meets.map(|meets| (most, if alike { meets } else { last }))
    }
}

impl Seen {
    /// The least that one of the times of some batches may be.
    fn least(&self, service: &Service<'_>, (from, to): (u64, u64), what: What) -> f64 {
        let known = if what == What::Tpot { &self.tpots } else { &self.stays };
        let asked = service.slopes_over((from, to), &self.busy, what);
        let of = |asked: &Slopes| cover(known, asked, service.stages);
        asked.iter().map(of).fold(0.0, f64::max)
    }
}

impl Spot<'_, '_> {
    /// What is seen here and up to `last`, the most that this batch reaches, and a pair of layouts
    /// that may reach more than `reached`.
    fn look(
        &self,
        last: u64,
        before: Option<&Seen>,
        reached: f64,
    ) -> Option<(Seen, f64, Option<Pair>)> {
        let busy = match before {
            Some(seen) => seen.busy.clone(),
            None => self.roughly()?,
        };
        let prices = before.map(|s| s.prices.clone()).unwrap_or_default();
        let batch = self.batch;
        let mut seen = Seen { batch, busy, stays: Vec::new(), tpots: Vec::new(), prices };
        let mut best: Option<(f64, Pair)> = None;
        let mut least = 0.0;
        for _ in 0..AIMS {
            let (known, pair) = self.bound(batch, What::Stay, &mut seen, reached)?;
            least = f64::max(least, known.least);
            seen.stays.push(known);
            let Some(pair) = pair else { break };
            let busy = Busy::of(&pair.solutions[0], &pair.solutions[1]);
            let cycle = self.service.cycle(batch, &busy);
            let far = cycle.stay > least * (1.0 + CLOSE);
            let stay = if self.service.within(&cycle) { cycle.stay } else { f64::INFINITY };
            let better = best.as_ref().is_none_or(|b| (!pair.fits, stay) < (!b.1.fits, b.0));
            if better {
                best = Some((stay, pair));
            }
            if !far || seen.busy == busy {
                break;
            }
            seen.busy = busy;
        }
        let mut most = self.service.score(batch, least);
        if let Some(limit) = self.scene.load().tpot_limit {
            self.look_within(limit, &mut seen, reached, (&mut most, &mut best))?;
        }
        if last > batch {
            self.look_ahead(last, &mut seen)?;
        }
        let promising = |(stay, _): &(f64, Pair)| self.service.score(batch, *stay) > reached;
        Some((seen, most, best.filter(promising).map(|b| b.1)))
    }

    /// What is seen here of a limit on the time of a token: whether it can be met, and a pair that
    /// meets it sooner.
    fn look_within(
        &self,
        limit: Ns,
        seen: &mut Seen,
        reached: f64,
        (most, best): (&mut f64, &mut Option<(f64, Pair)>),
    ) -> Option<()> {
        let batch = self.batch;
        let (known, pair) = self.bound(batch, What::Tpot, seen, 0.0)?;
        *most = if known.least > limit.as_f64() { 0.0 } else { *most };
        seen.tpots.push(known);
        if let Some(pair) = pair.filter(|_| *most > reached) {
            let busy = Busy::of(&pair.solutions[0], &pair.solutions[1]);
            let cycle = self.service.cycle(batch, &busy);
            let better = best.as_ref().is_none_or(|b| cycle.stay < b.0);
            if better && self.service.within(&cycle) {
                *best = Some((cycle.stay, pair));
            }
        }
        Some(())
    }

    /// What is seen from here of the batches up to `last`.
    fn look_ahead(&self, last: u64, seen: &mut Seen) -> Option<()> {
        let batch = self.batch;
        let (known, _) = self.bound(last, What::Stay, seen, f64::INFINITY)?;
        seen.stays.push(known);
        for slopes in self.service.units() {
            let (known, _) = self.bound_sum(batch, slopes, seen, 0.0)?;
            seen.stays.push(known.clone());
            seen.tpots.push(known);
        }
        if self.scene.load().tpot_limit.is_some() {
            let (known, _) = self.bound(last, What::Tpot, seen, f64::INFINITY)?;
            seen.tpots.push(known);
        }
        Some(())
    }

    /// Steps of each phase by itself.
    fn roughly(&self) -> Option<Busy> {
        let all = Objective::default();
        let of = |phase: usize| self.planes[phase].solve(&all);
        Some(Busy::of(&of(0)?, &of(1)?))
    }

    /// Bounds one of the times that replicas of `batch` requests have, at this spot's steps and memory.
    /// Plans are made only where the time may be short enough to reach more than `reached`.
    fn bound(
        &self,
        batch: u64,
        what: What,
        seen: &mut Seen,
        reached: f64,
    ) -> Option<(Known, Option<Pair>)> {
        let slopes = self.service.slopes(batch, &seen.busy, what);
        let enough = match (what, self.scene.load().tpot_limit) {
            (What::Tpot, Some(limit)) if reached < f64::INFINITY => limit.as_f64(),
            _ => self.service.longest(batch, reached),
        };
        self.bound_sum(batch, slopes, seen, enough)
    }

    /// Bounds a sum of step times; plans are made only where it may be less than `enough`.
    fn bound_sum(
        &self,
        batch: u64,
        slopes: Slopes,
        seen: &mut Seen,
        enough: f64,
    ) -> Option<(Known, Option<Pair>)> {
        let target = self.service.target(batch, self.planes, &seen.busy, &slopes);
        let joint = Joint {
            planes: self.planes,
            counts: self.scene.counts(),
            target: &target,
            share: self.share,
            room: self.room,
            least: self.least,
            batch: self.batch as f64,
        };
        let effort = Effort { rounds: ROUNDS, nodes: NODES, enough };
        let solved = joint.solve(effort, &seen.prices)?;
        seen.prices = solved.prices;
        Some((Known { slopes, least: solved.bound }, solved.best))
    }
}
