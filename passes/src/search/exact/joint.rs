//! Both phases at one point: weights and caches lie in one way, activations as each phase likes.
//!
//! What couples the phases is priced: every way to lay a parameter has a price, paid by prefill and
//! earned by decoding, and every stored byte has a price, raised until memory suffices. Whatever the
//! prices, the sum of both phases' optima is a lower bound (Lagrange); prices are moved to raise it.
//! A plan comes from one phase's optimum with the other made to lay its parameters alike. Where that
//! leaves a gap, ways to lay a parameter on which two optima differ are prescribed or ruled out, and
//! what remains is bounded anew, the least bound first (branch and bound).

use super::aim::Target;
use super::axes::Key;
use super::phase::{Limits, Objective, ParamName, Planes, Prices, Solution, Stored};

/// A point with both phases priced.
pub(super) struct Joint<'a> {
    /// Prefill, then decoding.
    pub planes: [&'a Planes; 2],
    /// Whether each phase counts.
    pub counts: [bool; 2],
    /// What is bounded.
    pub target: &'a Target,
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
    /// The bounded sum.
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
    /// The best plan found: one that fits, failing that one that nearly does.
    pub best: Option<Pair>,
    /// Prices of parameters that gave the bound: prefill pays them, decoding earns them.
    pub prices: Prices,
}

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Moves of the prices of parameters.
    pub rounds: usize,
    /// Parts of the point that are looked into beyond the whole.
    pub nodes: usize,
    /// A bound that is high enough.
    pub enough: f64,
}

/// A part of a point: some ways to lay parameters are prescribed or ruled out.
struct Node {
    bound: f64,
    limits: Limits,
    prices: Prices,
    /// A price of bytes that is near the one that bounds best, if one is known.
    byte: Option<f64>,
}

impl Node {
    /// The part in which a parameter lies in one way, and the one in which it does not.
    fn halves(self, name: ParamName, key: Key) -> [Node; 2] {
        let mut without = self.limits.clone();
        without.never.entry(name.clone()).or_default().insert(key);
        let mut with = self.limits;
        with.only.insert(name, key);
        let Node { bound, byte, .. } = self;
        let node = |limits| Node { bound, limits, prices: self.prices.clone(), byte };
        [node(with), node(without)]
    }
}

/// A bound, the price of a byte that gave it, and optima at that price.
type Dual = (f64, f64, Priced);

/// A node whose bound was raised.
struct Looked {
    node: Node,
    /// A parameter on which optima differ, and a way to lay it.
    apart: Option<(ParamName, Key)>,
    prices: Prices,
}

/// Both phases' optima under some prices; none of a phase that does not count.
struct Priced {
    solutions: [Option<Solution>; 2],
    /// The sum, prices of parameters included and of bytes not.
    cost: f64,
    /// Bytes that count against memory.
    bytes: f64,
    /// How an optimum at the same prices that does not fit lays parameters.
    beyond: Option<[Option<Stored>; 2]>,
}

impl Priced {
    fn stored(&self) -> [Option<Stored>; 2] {
        self.solutions.each_ref().map(|s| s.as_ref().map(|s| s.stored.clone()))
    }

    /// A parameter on which optima differ: those of the phases, or the one that fits and the one that
    /// does not.
    fn apart(&self) -> Option<(ParamName, Key)> {
        let [prefill, decode] = self.stored();
        let phases = match (&prefill, &decode) {
            (Some(a), Some(b)) => differing(a, b).into_iter().next(),
            _ => None,
        };
        let memory = || {
            let beyond = self.beyond.as_ref()?;
            let pairs = [&prefill, &decode].into_iter().zip(beyond);
            pairs.flat_map(|(a, b)| Some(differing(a.as_ref()?, b.as_ref()?))).flatten().next()
        };
        phases.or_else(memory).map(|(name, key, _)| (name, key))
    }
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
/// A part of a price of bytes by which one is known well enough.
const NEAR: f64 = 1e-3;
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

impl Joint<'_> {
    /// The phase that pays for caches.
    fn lead(&self) -> usize {
        usize::from(self.counts[1])
    }

    fn both(&self) -> bool {
        self.counts == [true, true]
    }

    /// Solves the point; prices of parameters begin with `known`. `None` where nothing fits.
    ///
    /// Activations are the most that any group takes, which is no sum; so they are cut into levels,
    /// each of which is solved by itself, those with the least bound first.
    pub fn solve(&self, effort: Effort, known: &Prices) -> Option<Solved> {
        let free = Level { cap: None, room: self.room - self.least };
        let dual = self.dual_within(known, free, (&Limits::default(), None), effort.enough);
        let (bound, price, priced) = dual?;
        if bound + self.target.constant >= effort.enough {
            return Some(Solved {
                bound: bound + self.target.constant,
                best: None,
                prices: known.clone(),
            });
        }
        let mut bounds: Vec<(Level, f64)> = Vec::new();
        let levels = self.levels(&priced);
        let mut first = Some((bound, price, priced)).filter(|_| levels.len() == 1);
        for level in levels {
            // One price bounds every level; the least bound is then looked into.
            let bound = match level.cap {
                None => bound + price * (free.room - level.room),
                Some(_) => match self.at(price, known, level, &Limits::default()) {
                    Some(priced) => priced.cost + price * (priced.bytes - level.room),
                    None => continue,
                },
            };
            bounds.push((level, bound));
        }
        let mut solved: Vec<Option<Solved>> = bounds.iter().map(|_| None).collect();
        loop {
            let bound = |i: &usize| solved[*i].as_ref().map_or(bounds[*i].1, |s| s.bound);
            let least = (0..bounds.len()).min_by(|a, b| bound(a).total_cmp(&bound(b)))?;
            if solved[least].is_some() {
                break;
            }
            match self.solve_level(bounds[least].0, effort, known, first.take()) {
                Some(level) => solved[least] = Some(level),
                None if bounds.len() == 1 => return None,
                None => {
                    bounds.remove(least);
                    solved.remove(least);
                }
            }
        }
        let merged = solved.into_iter().flatten().reduce(|a, b| {
            let (mut least, other) = if a.bound <= b.bound { (a, b) } else { (b, a) };
            least.offer(other.best);
            least
        });
        merged.map(|s| Solved { bound: s.bound + self.target.constant, ..s })
    }

    /// Levels of activations from what prefill takes downwards; a single one where memory is no
    /// matter.
    fn levels(&self, priced: &Priced) -> Vec<Level> {
        let free = Level { cap: None, room: self.room - self.least };
        let Some(prefill) = priced.solutions[0].as_ref().filter(|_| self.counts[0]) else {
            return vec![free];
        };
        let stored = priced.solutions.iter().flatten().map(|s| s.bytes(self.batch, self.share));
        let stored = stored.fold(0.0, f64::max);
        if stored + self.planes[0].most_transient() <= self.room {
            return vec![free];
        }
        let peak = prefill.transient.max(self.most_transient());
        if stored + peak <= self.room {
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

    /// Solves the point for one level of activations, constants aside.
    fn solve_level(
        &self,
        level: Level,
        effort: Effort,
        known: &Prices,
        mut first: Option<Dual>,
    ) -> Option<Solved> {
        let mut solved = Solved { bound: 0.0, best: None, prices: Prices::default() };
        let (limits, prices) = (Limits::default(), known.clone());
        let root = Node { bound: 0.0, limits, prices, byte: None };
        let (mut open, mut upper, mut closed) = (vec![root], f64::INFINITY, f64::INFINITY);
        for count in 0.. {
            let least = (0..open.len()).min_by(|a, b| open[*a].bound.total_cmp(&open[*b].bound));
            let Some(node) = least.map(|i| open.swap_remove(i)) else { break };
            let tight = node.bound >= upper * (1.0 - EQUAL) || node.bound >= closed;
            let enough = node.bound + self.target.constant >= effort.enough;
            if tight || enough || count > effort.nodes {
                closed = closed.min(node.bound);
                break;
            }
            let rounds = if count == 0 { effort.rounds } else { effort.rounds.min(1) };
            let found = (&mut solved, &mut upper);
            let tries = (rounds, effort.enough);
            let Some(looked) = self.look_into(node, level, tries, found, first.take()) else {
                continue;
            };
            match looked.apart {
                None => closed = closed.min(looked.node.bound),
                Some((name, key)) => open.extend(looked.node.halves(name, key)),
            }
            if count == 0 {
                solved.prices = looked.prices;
            }
        }
        solved.bound = closed.min(upper);
        solved.bound.is_finite().then_some(solved)
    }

    /// Raises the bound of a node, and makes plans of what gives it; `None` where nothing fits.
    fn look_into(
        &self,
        mut node: Node,
        level: Level,
        (rounds, enough): (usize, f64),
        (solved, upper): (&mut Solved, &mut f64),
        mut first: Option<Dual>,
    ) -> Option<Looked> {
        let mut prices = node.prices.clone();
        for round in 0..=rounds {
            let dual = || self.dual_within(&prices, level, (&node.limits, node.byte), enough);
            let (bound, byte, priced) = first.take().or_else(dual)?;
            node.byte = Some(byte).filter(|byte| *byte > 0.0);
            if bound >= node.bound {
                node.bound = bound;
                node.prices = prices.clone();
            }
            for phase in [0, 1] {
                if let Some(free) = &priced.solutions[phase] {
                    *upper = upper.min(self.try_with(solved, 1 - phase, free, level));
                }
            }
            let gap = if upper.is_finite() { *upper - node.bound } else { bound * 0.1 };
            let aim = gap + node.bound - bound;
            let moved = match &priced.solutions {
                [Some(prefill), Some(decode)] if round < rounds && gap > EQUAL * bound => {
                    self.reprice(&mut prices, [prefill, decode], aim)
                }
                _ => false,
            };
            if !moved {
                let apart = priced.apart().filter(|_| gap > EQUAL * bound);
                let prices = node.prices.clone();
                return Some(Looked { node, apart, prices });
            }
        }
        None
    }

    /// Takes one phase's solution and the best of the other, `bound`, that lays parameters alike; its
    /// cost if it fits the level.
    fn try_with(&self, solved: &mut Solved, bound: usize, free: &Solution, level: Level) -> f64 {
        if free.bytes(self.batch, self.share) > level.room {
            return f64::INFINITY;
        }
        let aim = Some(&self.target.aims[bound]);
        let (only, cap) = (Some(&free.stored), level.cap);
        let objective = Objective { aim, only, cap, ..Objective::default() };
        let Some(other) = self.planes[bound].solve(&objective) else { return f64::INFINITY };
        let own = self.planes[1 - bound].cost_of(free, &self.target.aims[1 - bound]);
        let (cost, own) = (other.cost + own, Solution { cost: own, ..free.clone() });
        let solutions = if bound == 0 { [other, own] } else { [own, other] };
        let stored = solutions[1].bytes(self.batch, self.share);
        let transient = if self.counts[0] { solutions[0].transient } else { 0.0 };
        let fits = stored + transient.max(self.least) <= self.room;
        solved.offer(Some(Pair { solutions, cost, fits }));
        cost
    }

    /// Both optima under prices of parameters and one of bytes.
    fn at(&self, byte: f64, prices: &Prices, level: Level, limits: &Limits) -> Option<Priced> {
        let (lead, follow) = (self.lead(), 1 - self.lead());
        let follows = if self.both() { FOLLOWER } else { 0.0 };
        let mut parts = [[1.0 - follows, 1.0]; 2];
        parts[follow] = [follows, 0.0];
        let mut out = [None, None];
        let (mut cost, mut bytes) = (0.0, 0.0);
        for phase in [lead, follow] {
            if !self.counts[phase] {
                continue;
            }
            let [w, c] = parts[phase];
            let objective = Objective {
                aim: Some(&self.target.aims[phase]),
                bytes: [byte * w, byte * c * self.batch],
                share: self.share,
                prices: Some((prices, if phase == 0 { 1.0 } else { -1.0 })),
                only: None,
                limits: Some(limits),
                cap: level.cap,
            };
            let solution = self.planes[phase].solve(&objective)?;
            let [stored, cached] = solution.stored_bytes(self.share);
            let counted = w * stored + c * self.batch * cached;
            bytes += counted;
            cost += solution.cost - byte * counted;
            out[phase] = Some(solution);
        }
        Some(Priced { solutions: out, cost, bytes, beyond: None })
    }

    /// A bound with memory as a price, that price, and what gave it: between optima that do not fit
    /// and ones that do, the price at which both cost the same is tried next. Any price bounds from
    /// below, so the first one whose bound is high `enough` ends it. `near` is a price that may be the
    /// one looked for.
    fn dual_within(
        &self,
        prices: &Prices,
        level: Level,
        (limits, near): (&Limits, Option<f64>),
        enough: f64,
    ) -> Option<Dual> {
        let enough = enough - self.target.constant;
        let at = |price: f64| {
            let found = self.at(price, prices, level, limits)?;
            Some((found.cost + price * (found.bytes - level.room), price, found))
        };
        let fits = |dual: &Dual| dual.2.bytes <= level.room;
        let (mut low, mut high): (Option<Dual>, Option<Dual>) = (None, None);
        for price in near.into_iter().flat_map(|n| [n, n * (1.0 - NEAR), n * (1.0 + NEAR)]) {
            // Just below a price at which memory suffices, or just above one at which it does not.
            let known = if low.is_some() { price > near? } else { price <= near? };
            if !known || (low.is_some() && high.is_some()) {
                continue;
            }
            let next = at(price)?;
            if next.0 >= enough {
                return Some(next);
            }
            let to = if fits(&next) { &mut high } else { &mut low };
            *to = Some(next);
        }
        if let (Some(low), Some(mut high)) = (&low, high.take_if(|_| low.is_some())) {
            high.2.beyond = Some(low.2.stored());
            return Some((high.0.max(low.0), high.1, high.2));
        }
        let mut low = match low {
            Some(low) => low,
            None => at(0.0)?,
        };
        if fits(&low) || low.0 >= enough {
            return Some(low);
        }
        let mut high = match high {
            Some(high) => high,
            None => at(DEAR)?,
        };
        if !fits(&high) {
            return None;
        }
        let mut bound = (low.0, low.1);
        for _ in 0..=BYTE_PRICES {
            let (a, b) = (&low.2, &high.2);
            let next = at((b.cost - a.cost) / (a.bytes - b.bytes))?;
            bound = (next.0, next.1);
            let crossing = a.cost + next.1 * (a.bytes - level.room);
            if next.0 >= crossing - EQUAL * crossing.abs() || next.0 >= enough {
                break;
            }
            if fits(&next) { high = next } else { low = next }
        }
        let mut priced = high.2;
        priced.beyond = Some(low.2.stored());
        Some((bound.0, bound.1, priced))
    }

    /// Makes ways to lay parameters dearer for the phase that chose them, and cheaper for the other:
    /// a step that would raise the bound by `aim` if it were linear. False where both agree.
    fn reprice(&self, prices: &mut Prices, solutions: [&Solution; 2], aim: f64) -> bool {
        let [prefill, decode] = solutions;
        let differ = differing(&prefill.stored, &decode.stored);
        if differ.is_empty() {
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
