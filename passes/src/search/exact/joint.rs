//! Both phases at one point: weights and caches lie in one way, activations as each phase likes.
//!
//! What couples the phases is priced: every way to lay a parameter has a price, paid by the phase
//! that leads and earned by the one that follows, and every stored byte has a price, raised until
//! memory suffices. Whatever the prices, the sum of both phases' optima is a lower bound (Lagrange);
//! prices are moved to raise it. A plan comes from one phase's optimum with the other made to lay
//! its parameters alike.

use super::axes::Key;
use super::phase::{Objective, ParamName, Planes, Prices, Solution, Stored};

/// A point with both phases priced.
pub(super) struct Joint<'a> {
    /// Prefill, then decoding.
    pub planes: [&'a Planes; 2],
    /// What a nanosecond of a step of each phase counts.
    pub weight: [f64; 2],
    /// The stage that is fullest.
    pub share: &'a [f64],
    /// Bytes that weights, caches and activations of a device may take.
    pub room: f64,
    /// Bytes that activations take at least.
    pub least: f64,
    /// Requests of a replica whose caches are held.
    pub batch: f64,
}

/// A choice for both phases.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    /// Prefill, then decoding.
    pub solutions: [Solution; 2],
    /// Weighted sum of the steps, ns.
    pub cost: f64,
    /// Whether memory suffices, as far as it is known before lowering.
    pub fits: bool,
}

/// A range for the bytes of activations: at most `cap`, and what then is left for what is stored,
/// at most.
#[derive(Clone, Copy, Debug)]
struct Level {
    cap: Option<f64>,
    room: f64,
}

/// What a point comes to.
#[derive(Clone, Debug)]
pub(super) struct Solved {
    /// No plan costs less.
    pub bound: f64,
    /// Least ns of a step of each phase by itself.
    pub alone: [f64; 2],
    /// The best plan found: one that fits, failing that one that nearly does.
    pub best: Option<Pair>,
    /// Prices of parameters that gave the bound: prefill pays them, decoding earns them.
    pub prices: Prices,
}

/// Both phases' optima under some prices.
struct Priced {
    solutions: [Solution; 2],
    /// Weighted sum, prices of parameters included and of bytes not, ns.
    cost: f64,
    /// Bytes that count against memory.
    bytes: f64,
}

/// Price of a byte at which only bytes count, ns.
const DEAR: f64 = 1e3;
/// Prices of a byte that are tried.
const BYTE_PRICES: usize = 16;
/// The part of the price of weights that the phase pays that does not lead: whatever it is, the bound
/// holds, for both lay them alike.
const FOLLOWER: f64 = 0.5;
/// One level of activations from the next, and how many there are at most.
const LEVEL: f64 = 0.8;
const LEVELS: usize = 8;
/// A relative difference that is rounding.
const EQUAL: f64 = 1e-9;

impl Solved {
    fn offer(&mut self, pair: Option<Pair>) {
        let key = |p: &Pair| (!p.fits, p.cost);
        let better = |p: &Pair| self.best.as_ref().is_none_or(|b| key(p) < key(b));
        if let Some(pair) = pair.filter(better) {
            self.best = Some(pair);
        }
    }
}

impl Pair {
    /// Time of a step of prefill and of decoding.
    pub fn steps(&self) -> [f64; 2] {
        [self.solutions[0].cost, self.solutions[1].cost]
    }
}

impl Joint<'_> {
    /// Least time of a step of each phase by itself, memory with it where that phase leads.
    fn alone(&self) -> Option<[f64; 2]> {
        let lead = self.lead();
        let mut weight = [0.0; 2];
        weight[lead] = 1.0;
        let single = Joint { weight, ..*self };
        let level = Level { cap: None, room: self.room - self.least };
        let (bound, ..) = single.dual(&Prices::default(), level)?;
        let follows = self.planes[1 - lead].solve(&Objective::default())?.cost;
        Some(if lead == 0 { [bound, follows] } else { [follows, bound] })
    }

    /// The phase that pays for memory.
    fn lead(&self) -> usize {
        usize::from(self.weight[1] > 0.0)
    }

    /// Solves the point; prices of parameters begin with `known` and are moved `rounds` times. `None`
    /// where nothing fits.
    ///
    /// Activations are the most that any group takes, which is no sum; so they are cut into levels,
    /// each of which is solved by itself, and then the one with the least bound once more with care.
    pub fn solve(&self, rounds: usize, known: &Prices) -> Option<Solved> {
        let mut levels = self.levels();
        let (last, bound, price) = loop {
            let last = levels.pop()?;
            if let Some((bound, price, _)) = self.dual(known, last) {
                break (last, bound, price);
            }
        };
        let mut bounds = vec![(last, bound)];
        for level in levels.into_iter().rev() {
            // One price bounds every level; the least bound is then looked into.
            let priced = self.at(price, known, level)?;
            bounds.push((level, priced.cost + price * (priced.bytes - level.room)));
        }
        let mut solved: Vec<Option<Solved>> = bounds.iter().map(|_| None).collect();
        loop {
            let bound = |i: &usize| solved[*i].as_ref().map_or(bounds[*i].1, |s| s.bound);
            let least = (0..bounds.len()).min_by(|a, b| bound(a).total_cmp(&bound(b)))?;
            if solved[least].is_some() {
                break;
            }
            match self.solve_level(bounds[least].0, rounds, known) {
                Some(level) => solved[least] = Some(level),
                None if bounds.len() == 1 => return None,
                None => {
                    bounds.remove(least);
                    solved.remove(least);
                }
            }
        }
        let alone = self.alone()?;
        let all = solved.into_iter().flatten();
        let solved = all.reduce(|a, b| {
            let (mut least, other) = if a.bound <= b.bound { (a, b) } else { (b, a) };
            least.offer(other.best);
            least
        });
        solved.map(|solved| Solved { alone, ..solved })
    }

    /// Levels of activations from what the fastest prefill takes downwards; a single one where
    /// memory is no matter.
    fn levels(&self) -> Vec<Level> {
        let (lead, all) = (self.lead(), Objective::default());
        let free = Level { cap: None, room: self.room - self.least };
        let (Some(first), Some(stored)) =
            (self.planes[0].solve(&all), self.planes[lead].solve(&all))
        else {
            return vec![free];
        };
        let peak = first.transient.max(self.most_transient());
        if stored.bytes(self.batch, self.share) + peak <= self.room {
            return vec![free];
        }
        let mut caps = vec![None];
        let mut cap = peak * LEVEL;
        while cap > self.least && caps.len() < LEVELS {
            caps.push(Some(cap));
            cap *= LEVEL;
        }
        let next = caps.iter().skip(1).map(|c| c.unwrap_or(self.least)).chain([self.least]);
        caps.iter()
            .zip(next)
            .map(|(cap, next)| Level { cap: *cap, room: self.room - next })
            .collect()
    }

    /// What prefill takes where it lays its parameters as fits best.
    fn most_transient(&self) -> f64 {
        let dear = Objective {
            bytes: [DEAR, DEAR * self.batch],
            share: self.share,
            ..Objective::default()
        };
        let lean = self.planes[self.lead()].solve(&dear);
        let alike = lean.and_then(|s| {
            self.planes[0].solve(&Objective { only: Some(&s.stored), ..Objective::default() })
        });
        alike.map_or(0.0, |s| s.transient)
    }

    /// Solves the point for one level of activations.
    fn solve_level(&self, level: Level, rounds: usize, known: &Prices) -> Option<Solved> {
        let mut prices = known.clone();
        let mut solved =
            Solved { bound: 0.0, alone: [0.0; 2], best: None, prices: Prices::default() };
        let mut upper = f64::INFINITY;
        for round in 0..=rounds {
            let (bound, _, priced) = self.dual(&prices, level)?;
            if bound > solved.bound {
                solved.bound = bound;
                solved.prices = prices.clone();
            }
            upper = upper.min(self.try_with(&mut solved, 0, &priced.solutions[1], level));
            if self.weight[1 - self.lead()] > 0.0 {
                upper = upper.min(self.try_with(&mut solved, 1, &priced.solutions[0], level));
            }
            let gap = if upper.is_finite() { upper - solved.bound } else { bound * 0.1 };
            let aim = gap + solved.bound - bound;
            let done = round == rounds || gap <= EQUAL * solved.bound;
            if done || !self.reprice(&mut prices, &priced.solutions, aim) {
                break;
            }
        }
        Some(solved)
    }

    /// Takes one phase's solution and the best of the other, `bound`, that lays parameters alike; its
    /// cost if it fits the level.
    fn try_with(&self, solved: &mut Solved, bound: usize, free: &Solution, level: Level) -> f64 {
        if free.bytes(self.batch, self.share) > level.room {
            return f64::INFINITY;
        }
        let objective =
            Objective { only: Some(&free.stored), cap: level.cap, ..Objective::default() };
        let again = |phase: usize| self.planes[phase].solve(&objective);
        let (Some(other), Some(own)) = (again(bound), again(1 - bound)) else {
            return f64::INFINITY;
        };
        let cost = self.weight[bound] * other.cost + self.weight[1 - bound] * own.cost;
        let solutions = if bound == 0 { [other, own] } else { [own, other] };
        let stored = solutions[1].bytes(self.batch, self.share);
        let fits = stored + solutions[0].transient.max(self.least) <= self.room;
        solved.offer(Some(Pair { solutions, cost, fits }));
        cost
    }

    /// Both optima under prices of parameters and one of bytes.
    fn at(&self, byte: f64, prices: &Prices, level: Level) -> Option<Priced> {
        let (lead, follow) = (self.lead(), 1 - self.lead());
        let follows = if self.weight[follow] > 0.0 { FOLLOWER } else { 0.0 };
        let mut parts = [[1.0 - follows, 1.0]; 2];
        parts[follow] = [follows, 0.0];
        let mut out = [None, None];
        let (mut cost, mut bytes) = (0.0, 0.0);
        for phase in [lead, follow] {
            let weight = self.weight[phase];
            let [w, c] = parts[phase];
            let unit = if weight > 0.0 { 1.0 / weight } else { 0.0 };
            let ns = byte * unit;
            let objective = Objective {
                bytes: [ns * w, ns * c * self.batch],
                share: self.share,
                prices: Some((prices, if phase == 0 { unit } else { -unit })),
                only: None,
                cap: level.cap,
            };
            let solution = self.planes[phase].solve(&objective)?;
            let [stored, cached] = solution.stored_bytes(self.share);
            let counted = w * stored + c * self.batch * cached;
            bytes += counted;
            cost += weight * solution.cost - if weight > 0.0 { byte * counted } else { 0.0 };
            out[phase] = Some(solution);
        }
        let [prefill, decode] = out;
        Some(Priced { solutions: [prefill?, decode?], cost, bytes })
    }

    /// A bound with memory as a price, that price, and what gave it: between optima that do not fit and ones that
    /// do, the price at which both cost the same is tried next.
    fn dual(&self, prices: &Prices, level: Level) -> Option<(f64, f64, Priced)> {
        let mut low = self.at(0.0, prices, level)?;
        if low.bytes <= level.room {
            return Some((low.cost, 0.0, low));
        }
        let mut high = self.at(DEAR, prices, level)?;
        if high.bytes > level.room {
            return None;
        }
        for _ in 0..BYTE_PRICES {
            let price = (high.cost - low.cost) / (low.bytes - high.bytes);
            let bound = low.cost + price * (low.bytes - level.room);
            let next = self.at(price, prices, level)?;
            let least = next.cost + price * next.bytes;
            if least >= (low.cost + price * low.bytes) * (1.0 - EQUAL) {
                return Some((bound, price, high));
            }
            if next.bytes <= level.room { high = next } else { low = next }
        }
        // Any price bounds from below; the last one is as good as any.
        let price = (high.cost - low.cost) / (low.bytes - high.bytes);
        let last = self.at(price, prices, level)?;
        Some((last.cost + price * (last.bytes - level.room), price, high))
    }

    /// Makes ways to lay parameters dearer for the phase that chose them, and cheaper for the other:
    /// a step that would raise the bound by `aim` if it were linear. False where both agree.
    fn reprice(&self, prices: &mut Prices, solutions: &[Solution; 2], aim: f64) -> bool {
        let [prefill, decode] = solutions;
        let differ = differing(&prefill.stored, &decode.stored);
        if differ.is_empty() || self.weight.iter().any(|w| *w <= 0.0) {
            return false;
        }
        let step = aim / (2.0 * differ.len() as f64);
        for (name, a, b) in differ {
            let own = prices.entry(name).or_default();
            *own.entry(a).or_default() += step;
            *own.entry(b).or_default() -= step;
        }
        true
    }
}

/// Parameters that lie differently, with both ways.
fn differing(a: &Stored, b: &Stored) -> Vec<(ParamName, Key, Key)> {
    let pairs = a.iter().filter_map(|(name, key)| Some((name.clone(), *key, *b.get(name)?)));
    pairs.filter(|(_, a, b)| a != b).collect()
}
