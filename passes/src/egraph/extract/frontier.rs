//! The cheapest way through a space: dynamic programming over what is live between two operators.
//!
//! A state says which layouts of every live value have been made ([`Stage`]), so that what two readers
//! share is paid once. It promises what it cost and the least that the rest can cost ([`Rest`]). Two
//! kinds of states lead nowhere better and are dropped: those that promise more than a known solution
//! costs; and those that another one turns into by collectives without costing more ([`Turns`]). Where
//! more states remain than the limit, those that promise least are kept, and the least of what the others
//! promise bounds the optimum.

use super::live::{Pick, Stage};
use super::rest::Rest;
use super::space::Space;
use super::turns::{Turns, bits};
use super::ways::{Way, Ways};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Cheaper states that a state is compared with: the cheapest ones stand in for most of the others.
const COMPARED: usize = 64;

/// States looked at for each that is kept: others stand in for most of them.
const SPARE: usize = 4;

/// States kept between two operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Kept while looking for a first solution.
    pub first: usize,
    /// Kept afterwards.
    pub states: usize,
    /// Bytes that a device may hold beside what is stored.
    pub bytes: u64,
    /// ns beyond which a program is of no use.
    pub ceiling: u64,
}

/// One thing that is done, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A collective: value and move.
    Move(usize, usize),
    /// An operator: step and choice.
    Run(usize, usize),
}

/// The cheapest program that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Solution {
    /// ns.
    pub cost: u64,
    /// ns that no program of the space undercuts.
    pub bound: u64,
    /// Most bytes held at once.
    pub peak: u64,
    /// What is done.
    pub acts: Vec<Act>,
}

/// Layouts made of live values, by slot.
type Key = Vec<u64>;

/// A quick hash of short lists of numbers: a product with an odd constant (that of the golden ratio)
/// and a rotation for each.
#[derive(Clone, Copy, Debug, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

/// States between two operators, in the order in which they were met.
#[derive(Debug)]
struct Layer {
    at: HashMap<Key, usize, BuildHasherDefault<Mixed>>,
    states: Vec<(Key, Entry)>,
    /// What a state must not promise more than: so many that promise less are known already.
    below: u64,
}

impl Layer {
    fn new() -> Self {
        Layer { at: HashMap::default(), states: Vec::new(), below: u64::MAX }
    }

    /// The states that promise least first.
    fn sort(&mut self) {
        self.states
            .sort_unstable_by(|a, b| (a.1.least, a.1.cost, &a.0).cmp(&(b.1.least, b.1.cost, &b.0)));
    }

    /// Keeps so many states, those that promise least.
    fn thin(&mut self, count: usize) {
        self.sort();
        if let Some((_, first)) = self.states.get(count) {
            self.below = first.least;
        }
        self.states.truncate(count);
        self.at.clear();
        self.at.extend(self.states.iter().enumerate().map(|(i, (key, _))| (key.clone(), i)));
    }

    /// Keeps the cheaper of two entries for a state; of equal ones the earlier.
    fn offer(&mut self, key: &[u64], cost: u64, entry: impl FnOnce() -> Entry) {
        match self.at.get(key) {
            Some(&at) if self.states[at].1.cost <= cost => {}
            Some(&at) => self.states[at].1 = entry(),
            None => {
                self.at.insert(key.to_vec(), self.states.len());
                self.states.push((key.to_vec(), entry()));
            }
        }
    }
}

/// How a state came about.
#[derive(Clone, Debug)]
struct Entry {
    /// ns so far.
    cost: u64,
    /// ns of any program that goes on from here, at least.
    least: u64,
    peak: u64,
    parent: usize,
    acts: Vec<Act>,
}

/// The cheapest program, if there is one within the limits, and the ns that none undercuts.
pub(super) fn solve(space: &Space, limits: Limits) -> (Option<Solution>, u64) {
    let stages = Stage::all(space);
    let turns = Turns::of(space);
    let rest = Rest::of(space, &stages, &turns);
    let mut own_ways = Ways::new(space, true);
    let mut all_ways = Ways::new(space, false);
    let mut run = |own: bool, states: usize, ceiling: u64| {
        let ways = if own { &mut own_ways } else { &mut all_ways };
        let (bytes, dropped) = (limits.bytes, u64::MAX);
        let (turns, rest) = (&turns, &rest);
        let mut finder =
            Finder { space, stages: &stages, turns, rest, ways, own, bytes, ceiling, dropped };
        let found = finder.run(states);
        (found, finder.dropped)
    };
    let known = |s: &Option<Solution>| s.as_ref().map_or(limits.ceiling, |s| s.cost);
    let (own, _) = run(true, limits.states, limits.ceiling);
    let (first, dropped) = run(false, limits.first, known(&own));
    // Nothing was dropped: what was found is the best.
    if dropped == u64::MAX {
        let bound = known(&first);
        return (first, bound);
    }
    let first = first.or(own);
    let (best, dropped) = run(false, limits.states, known(&first));
    let bound = dropped.min(known(&best)).min(known(&first));
    (best.or(first).map(|s| Solution { bound, ..s }), bound)
}

/// The ns that no program of the space undercuts, without looking for one.
pub(super) fn bound(space: &Space) -> u64 {
    let stages = Stage::all(space);
    let rest = Rest::of(space, &stages, &Turns::of(space));
    let Some(first) = stages.first() else { return 0 };
    rest.of_state(&first.live, (0, &start(space, first)))
}

/// The state before everything.
fn start(space: &Space, first: &Stage) -> Key {
    first.live.iter().map(|&value| space.values[value].stored).collect()
}

struct Finder<'f, 'a> {
    space: &'a Space,
    stages: &'a [Stage],
    turns: &'a Turns,
    rest: &'a Rest,
    ways: &'f mut Ways<'a>,
    /// Whether only what the program itself does is looked at.
    own: bool,
    bytes: u64,
    /// ns beyond which a program is of no use.
    ceiling: u64,
    /// The least that a dropped state promised.
    dropped: u64,
}

/// A way through one stage from one state, under way.
struct Walk<'a> {
    at: usize,
    pick: &'a Pick,
    from: &'a Entry,
    /// Number of that entry.
    parent: usize,
    /// ns that it may come to before the operator.
    most: u64,
    /// Layouts made so far, by slot, and how: value, ways, and which of them.
    masks: Key,
    path: Vec<(usize, Arc<Vec<Way>>, usize)>,
    /// The state that it leads to.
    key: Key,
}

impl Finder<'_, '_> {
    fn run(&mut self, limit: usize) -> Option<Solution> {
        let (stages, space) = (self.stages, self.space);
        let first = stages.first()?;
        let start = start(space, first);
        let nothing = Entry { cost: 0, least: 0, peak: 0, parent: 0, acts: Vec::new() };
        let mut arena: Vec<Entry> = vec![nothing];
        let mut states: Vec<(Key, usize)> = vec![(start, 0)];
        for at in 0..stages.len() {
            let mut next = Layer::new();
            for (key, entry) in &states {
                self.stage(at, key, (&arena[*entry], *entry), &mut next);
                if next.states.len() > SPARE * 2 * limit {
                    next.thin(SPARE * limit);
                    self.dropped = self.dropped.min(next.below);
                }
            }
            states = self.keep(next, at + 1, limit, &mut arena);
        }
        let &(_, last) = states.first()?;
        let Entry { cost, peak, .. } = arena[last];
        let (mut acts, mut at) = (Vec::new(), last);
        while at != 0 {
            acts.push(&arena[at].acts[..]);
            at = arena[at].parent;
        }
        acts.reverse();
        Some(Solution { cost, bound: self.dropped.min(cost), peak, acts: acts.concat() })
    }

    /// Keeps the states of a layer that promise least, without those that lead nowhere better.
    fn keep(
        &mut self,
        mut next: Layer,
        at: usize,
        limit: usize,
        arena: &mut Vec<Entry>,
    ) -> Vec<(Key, usize)> {
        next.sort();
        let live = self.stages.get(at).map_or(&[][..], |s| &s.live);
        let mut kept: Vec<(Key, usize)> = Vec::new();
        for (key, entry) in next.states {
            let stands_in = |(other, number): &(Key, usize)| {
                let room = entry.cost.checked_sub(arena[*number].cost);
                room.is_some_and(|room| self.turns.turns(live, (other, &key), room))
            };
            if !self.own && kept.iter().take(COMPARED).any(stands_in) {
                continue;
            }
            if kept.len() == limit {
                self.dropped = self.dropped.min(entry.least);
                break;
            }
            arena.push(entry);
            kept.push((key, arena.len() - 1));
        }
        kept
    }

    /// All states after one more operator.
    fn stage(&mut self, at: usize, key: &Key, (from, parent): (&Entry, usize), next: &mut Layer) {
        let (stages, own) = (self.stages, self.own);
        for pick in stages[at].picks.iter().filter(|p| p.own || !own) {
            let most = self.ceiling.min(next.below).saturating_sub(self.rest.of_any(at + 1));
            let Some(most) = most.checked_sub(pick.cost) else { continue };
            let (masks, path, key) = (key.clone(), Vec::new(), Vec::new());
            let mut walk = Walk { at, pick, from, parent, most, masks, path, key };
            self.feed(&mut walk, 0, from.cost, next);
        }
    }

    /// Makes what the operator needs from number `need` on, in every way.
    fn feed(&mut self, walk: &mut Walk<'_>, need: usize, cost: u64, next: &mut Layer) {
        let Some(&(slot, view)) = walk.pick.needs.get(need) else {
            return self.arrive(walk, cost, next);
        };
        let value = self.stages[walk.at].live[slot];
        let before = walk.masks[slot];
        let ways = self.ways.to(self.turns, value, before, view);
        for (i, way) in ways.iter().enumerate() {
            let cost = cost.saturating_add(way.cost);
            if cost > walk.most {
                break;
            }
            walk.masks[slot] = way.mask;
            walk.path.push((value, ways.clone(), i));
            self.feed(walk, need + 1, cost, next);
            walk.path.pop();
        }
        walk.masks[slot] = before;
    }

    /// Offers the state after the operator.
    fn arrive(&mut self, walk: &mut Walk<'_>, cost: u64, next: &mut Layer) {
        let Walk { at, pick, ref masks, .. } = *walk;
        let mask = |&(slot, made): &(Option<usize>, u64)| slot.map_or(0, |s| masks[s]) | made;
        walk.key.clear();
        walk.key.extend(pick.next.iter().map(mask));
        let cost = cost.saturating_add(pick.cost);
        let live = self.stages.get(at + 1).map_or(&[][..], |s| &s.live);
        let rest = self.rest.of_state(live, (at + 1, &walk.key));
        let least = cost.saturating_add(rest);
        if least > self.ceiling.min(next.below) || rest == u64::MAX {
            return;
        }
        let held = self.held(at, &walk.masks).saturating_add(pick.bytes);
        if held > self.bytes {
            // It may have stood in for one that was dropped and holds less, so what it promises is a
            // bound only.
            self.dropped = self.dropped.min(least);
            return;
        }
        next.offer(&walk.key, cost, || {
            let moves = walk
                .path
                .iter()
                .flat_map(|(value, ways, i)| ways[*i].moves.iter().map(|&m| Act::Move(*value, m)));
            let run = (at < self.space.steps.len()).then_some(Act::Run(at, pick.choice));
            let (peak, parent) = (walk.from.peak.max(held), walk.parent);
            Entry { cost, least, peak, parent, acts: moves.chain(run).collect() }
        });
    }

    /// Bytes that a state holds in a stage.
    fn held(&self, at: usize, masks: &[u64]) -> u64 {
        let stage = &self.stages[at];
        let of = |(&value, &mask): (&usize, &u64)| {
            let views = &self.space.values[value].views;
            bits(mask).map(|i| views[i].bytes).fold(0, u64::saturating_add)
        };
        stage.live.iter().zip(masks).map(of).fold(stage.bytes, u64::saturating_add)
    }
}
