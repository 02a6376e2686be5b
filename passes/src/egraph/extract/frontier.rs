//! The cheapest way through a space: dynamic programming over what is live between two operators.
//!
//! A state says which layouts of every live value have been made, so that what two readers share is
//! paid once. Two kinds of states lead nowhere better and are dropped: those that cost more than a
//! known solution, with the least that the rest can cost; and those that another one turns into by
//! collectives without costing more ([`Turns`]). Where more states remain than the limit, the cheapest
//! are kept, and the least of what the others could have come to bounds the optimum.

use super::space::{Choice, Move, Space};
use super::turns::{Turns, bits};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Most collectives in a row that lead a value from one layout to another, but for the cheapest way.
const MAX_WAY: usize = 3;

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

/// Layouts made of live values, by value.
pub(super) type Key = Vec<(u32, u64)>;

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

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
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
    /// The cost that a state must not exceed: so many cheaper ones are known already.
    below: u64,
}

impl Layer {
    fn new() -> Self {
        Layer { at: HashMap::default(), states: Vec::new(), below: u64::MAX }
    }

    /// Keeps so many states, the cheapest.
    fn thin(&mut self, count: usize) {
        self.states.sort_unstable_by(|a, b| (a.1.cost, &a.0).cmp(&(b.1.cost, &b.0)));
        if let Some((_, first)) = self.states.get(count) {
            self.below = first.cost;
        }
        self.states.truncate(count);
        self.at.clear();
        self.at.extend(self.states.iter().enumerate().map(|(i, (key, _))| (key.clone(), i)));
    }

    /// Keeps the cheaper of two entries for a state; of equal ones the earlier.
    fn offer(&mut self, key: Key, entry: Entry) {
        match self.at.get(&key) {
            Some(&at) if self.states[at].1.cost <= entry.cost => {}
            Some(&at) => self.states[at].1 = entry,
            None => {
                self.at.insert(key.clone(), self.states.len());
                self.states.push((key, entry));
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    cost: u64,
    peak: u64,
    parent: usize,
    acts: Vec<Act>,
}

/// A way to make a layout of a value from those that are there.
#[derive(Clone, Debug)]
struct Way {
    cost: u64,
    mask: u64,
    moves: Vec<usize>,
}

/// The cheapest program, if there is one within the limits, and the ns that none undercuts.
pub(super) fn solve(space: &Space, limits: Limits) -> (Option<Solution>, u64) {
    let mut finder = Finder::new(space, limits.bytes);
    finder.own = true;
    let own = finder.run(limits.states, limits.ceiling);
    finder.own = false;
    finder.ways.clear();
    let known = |s: &Option<Solution>| s.as_ref().map_or(limits.ceiling, |s| s.cost);
    let first = finder.run(limits.first, known(&own));
    // Nothing was dropped: what was found is the best.
    if finder.dropped == u64::MAX {
        let bound = known(&first);
        return (first, bound);
    }
    let first = first.or(own);
    let best = finder.run(limits.states, known(&first));
    let bound = finder.dropped.min(known(&best)).min(known(&first));
    (best.or(first).map(|s| Solution { bound, ..s }), bound)
}

struct Finder<'a> {
    space: &'a Space,
    bytes: u64,
    /// Whether only what the program itself does is looked at.
    own: bool,
    /// The least that the operators from here on can cost.
    rest: Vec<u64>,
    ways: HashMap<(usize, u64, usize), Arc<Vec<Way>>>,
    turns: Turns,
    /// The least that a dropped state could have come to.
    dropped: u64,
}

impl<'a> Finder<'a> {
    fn new(space: &'a Space, bytes: u64) -> Self {
        let (ways, turns) = (HashMap::new(), Turns::of(space));
        let rest = turns.rest(space);
        Finder { space, bytes, own: false, rest, ways, turns, dropped: u64::MAX }
    }

    fn run(&mut self, limit: usize, ceiling: u64) -> Option<Solution> {
        self.dropped = u64::MAX;
        let start: Key = self
            .space
            .values
            .iter()
            .enumerate()
            .filter(|(_, v)| v.stored != 0)
            .map(|(i, v)| (i as u32, v.stored))
            .collect();
        let nothing = Entry { cost: 0, peak: 0, parent: 0, acts: Vec::new() };
        let mut arena: Vec<Entry> = vec![nothing];
        let mut states: Vec<(Key, usize)> = vec![(start, 0)];
        for at in 0..self.space.steps.len() {
            let mut next = Layer::new();
            for (key, entry) in &states {
                let from = (arena[*entry].cost, arena[*entry].peak, *entry);
                self.step(at, key, from, ceiling, &mut next);
                if next.states.len() > SPARE * 2 * limit {
                    next.thin(SPARE * limit);
                    self.dropped = self.dropped.min(next.below.saturating_add(self.rest[at + 1]));
                }
            }
            states = self.keep(next, at + 1, limit, &mut arena);
        }
        let mut last = Layer::new();
        for (key, entry) in &states {
            let from = Entry { parent: *entry, acts: Vec::new(), ..arena[*entry].clone() };
            self.deliver(key, from, ceiling, &mut last);
        }
        let best = last.states.into_iter().map(|(_, e)| e).min_by_key(|e| e.cost)?;
        let (cost, peak) = (best.cost, best.peak);
        let mut acts = vec![best.acts];
        let mut at = best.parent;
        while at != 0 {
            acts.push(arena[at].acts.clone());
            at = arena[at].parent;
        }
        acts.reverse();
        Some(Solution { cost, bound: self.dropped.min(cost), peak, acts: acts.concat() })
    }

    /// Keeps the cheapest states of a layer, cheapest first, without those that lead nowhere better.
    fn keep(
        &mut self,
        next: Layer,
        at: usize,
        limit: usize,
        arena: &mut Vec<Entry>,
    ) -> Vec<(Key, usize)> {
        let mut sorted = next.states;
        sorted.sort_unstable_by(|a, b| (a.1.cost, &a.0).cmp(&(b.1.cost, &b.0)));
        let mut kept: Vec<(Key, usize)> = Vec::new();
        for (key, entry) in sorted {
            let cheaper = kept.iter().take(COMPARED).map(|(k, e)| (k, arena[*e].cost));
            if !self.own && self.turns.reached((&key, entry.cost), cheaper) {
                continue;
            }
            if kept.len() == limit {
                let left = entry.cost.saturating_add(self.rest[at]);
                self.dropped = self.dropped.min(left);
                break;
            }
            arena.push(entry);
            kept.push((key, arena.len() - 1));
        }
        kept
    }

    /// All states after one more operator.
    fn step(
        &mut self,
        at: usize,
        key: &Key,
        (cost, peak, parent): (u64, u64, usize),
        ceiling: u64,
        next: &mut Layer,
    ) {
        let space = self.space;
        for (c, choice) in space.steps[at].choices.iter().enumerate() {
            if self.own && !choice.own {
                continue;
            }
            let most = ceiling.saturating_sub(self.rest[at + 1]).min(next.below);
            let most = most.saturating_sub(choice.cost);
            let start = Entry { cost, peak, parent, acts: Vec::new() };
            for (key, mut entry) in self.fed(key, start, &choice.needs, most) {
                entry.cost = entry.cost.saturating_add(choice.cost);
                entry.acts.push(Act::Run(at, c));
                let mut key = given(key, choice);
                let held = self.held(&key);
                if held > self.bytes {
                    self.outgrows(entry.cost.saturating_add(self.rest[at + 1]));
                    continue;
                }
                entry.peak = entry.peak.max(held);
                key.retain(|(v, _)| !space.steps[at].dies.contains(&(*v as usize)));
                next.offer(key, entry);
            }
        }
    }

    /// Notes a state that does not fit. It may have stood in for one that was dropped and holds less, so
    /// what it would have come to is a bound only.
    fn outgrows(&mut self, least: u64) {
        self.dropped = self.dropped.min(least);
    }

    /// States in which everything returned has been made.
    fn deliver(&mut self, key: &Key, from: Entry, ceiling: u64, last: &mut Layer) {
        let returns = self.space.returns.clone();
        for (key, mut entry) in self.fed(key, from, &returns, ceiling) {
            let held = self.held(&key);
            if held > self.bytes {
                self.outgrows(entry.cost);
                continue;
            }
            entry.peak = entry.peak.max(held);
            last.offer(key, entry);
        }
    }

    fn held(&self, key: &Key) -> u64 {
        let of = |&(value, mask): &(u32, u64)| {
            let views = &self.space.values[value as usize].views;
            bits(mask).map(|i| views[i].bytes).fold(0, u64::saturating_add)
        };
        key.iter().map(of).fold(0, u64::saturating_add)
    }

    /// States in which all that is needed has been made, at a cost of at most `most`.
    fn fed(
        &mut self,
        key: &Key,
        entry: Entry,
        needs: &[(usize, usize)],
        most: u64,
    ) -> Vec<(Key, Entry)> {
        let mut found = vec![(key.clone(), entry)];
        for &(value, view) in needs {
            let mut next = Vec::new();
            for (key, entry) in found {
                let Some(slot) = key.iter().position(|(v, _)| *v as usize == value) else {
                    continue;
                };
                for way in self.ways(value, key[slot].1, view).iter() {
                    let cost = entry.cost.saturating_add(way.cost);
                    if cost > most {
                        continue;
                    }
                    let (mut key, mut entry) = (key.clone(), Entry { cost, ..entry.clone() });
                    key[slot].1 = way.mask;
                    entry.acts.extend(way.moves.iter().map(|&m| Act::Move(value, m)));
                    next.push((key, entry));
                }
            }
            found = next;
        }
        found
    }

    /// The ways to a layout of a value but those in whose place another one stands, with what it costs to
    /// make as much.
    fn ways(&mut self, value: usize, mask: u64, target: usize) -> Arc<Vec<Way>> {
        if let Some(known) = self.ways.get(&(value, mask, target)) {
            return known.clone();
        }
        let mut found = Vec::new();
        let start = Way { cost: 0, mask, moves: Vec::new() };
        self.explore(value, start, target, &mut found);
        found.extend(self.shortest(value, mask, target));
        found.sort_by_key(|way| (way.cost, way.moves.len()));
        let mut kept: Vec<Way> = Vec::new();
        for way in found {
            let room = |k: &Way| if self.own { 0 } else { way.cost - k.cost };
            let stands_in = |k: &Way| {
                let (has, wants) = ((value as u32, k.mask), (value as u32, way.mask));
                self.turns.turns(&[has], &[wants], room(k))
            };
            if !kept.iter().any(stands_in) {
                kept.push(way);
            }
        }
        let kept = Arc::new(kept);
        self.ways.insert((value, mask, target), kept.clone());
        kept
    }

    /// The collectives on a value that are looked at.
    fn moves(&self, value: usize) -> impl Iterator<Item = (usize, &'a Move)> {
        let own = self.own;
        let moves = self.space.values[value].moves.iter().enumerate();
        moves.filter(move |(_, m)| m.own || !own)
    }

    /// The cheapest way to `target`, of any length.
    fn shortest(&self, value: usize, mask: u64, target: usize) -> Option<Way> {
        let data = &self.space.values[value];
        let start = |i: usize| if mask >> i & 1 == 1 { 0 } else { u64::MAX };
        let mut cost: Vec<u64> = (0..data.views.len()).map(start).collect();
        let mut last: Vec<Option<usize>> = vec![None; data.views.len()];
        for _ in 0..data.views.len() {
            for (m, step) in self.moves(value) {
                let through = cost[step.from].saturating_add(step.cost);
                if through < cost[step.to] {
                    (cost[step.to], last[step.to]) = (through, Some(m));
                }
            }
        }
        let (mut moves, mut made, mut at) = (Vec::new(), mask, target);
        while let Some(m) = last[at] {
            moves.push(m);
            made |= 1 << at;
            at = data.moves[m].from;
        }
        moves.reverse();
        (cost[target] < u64::MAX).then_some(Way { cost: cost[target], mask: made, moves })
    }

    /// Ways to `target`, which end in it: backwards from it to what is there.
    fn explore(&self, value: usize, start: Way, target: usize, found: &mut Vec<Way>) {
        if start.mask >> target & 1 == 1 {
            found.push(start);
            return;
        }
        let mut todo = vec![(vec![target], 0u64, Vec::new())];
        while let Some((path, cost, moves)) = todo.pop() {
            let at = path[path.len() - 1];
            if start.mask >> at & 1 == 1 {
                let mask = path.iter().fold(start.mask, |m, v| m | 1 << v);
                let moves = moves.iter().rev().copied().collect();
                found.push(Way { cost, mask, moves });
                continue;
            }
            if moves.len() == MAX_WAY {
                continue;
            }
            for (m, step) in self.moves(value) {
                if step.to == at && !path.contains(&step.from) {
                    let longer = [&path[..], &[step.from]].concat();
                    let moves: Vec<usize> = [&moves[..], &[m]].concat();
                    todo.push((longer, cost.saturating_add(step.cost), moves));
                }
            }
        }
    }
}

/// A state after a choice: its results are there.
fn given(mut key: Key, choice: &Choice) -> Key {
    for &(value, view) in &choice.gives {
        match key.iter_mut().find(|(v, _)| *v as usize == value) {
            Some((_, mask)) => *mask |= 1 << view,
            None => key.push((value as u32, 1 << view)),
        }
    }
    key.sort_unstable();
    key
}
