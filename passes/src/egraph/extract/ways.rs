//! Ways to a layout of a value from those that are there: collectives in a row.

use super::space::{Move, Space, Value};
use super::turns::Turns;
use std::collections::HashMap;
use std::sync::Arc;

/// Most collectives in a row that lead a value from one layout to another, but for the cheapest way.
const MAX_WAY: usize = 3;

/// A way to make a layout of a value from those that are there.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// ns.
    pub cost: u64,
    /// What is there afterwards.
    pub mask: u64,
    /// The collectives, in order.
    pub moves: Vec<usize>,
}

/// A value, the layouts that are there, and the one that is wanted.
type Question = (usize, u64, usize);

/// The ways of a space; each question is answered once.
pub(super) struct Ways<'a> {
    space: &'a Space,
    /// Whether only what the program itself does is looked at.
    own: bool,
    /// By value and layout, the collectives that make it.
    into: Vec<Vec<Vec<usize>>>,
    known: HashMap<Question, Arc<Vec<Way>>>,
}

impl<'a> Ways<'a> {
    /// Of all collectives, or of the program's `own` only.
    pub fn new(space: &'a Space, own: bool) -> Self {
        let into = |value: &Value| {
            let mut into = vec![Vec::new(); value.views.len()];
            let looked_at = value.moves.iter().enumerate().filter(|(_, m)| m.own || !own);
            looked_at.for_each(|(at, m)| into[m.to].push(at));
            into
        };
        let into = space.values.iter().map(into).collect();
        Ways { space, own, into, known: HashMap::new() }
    }

    /// The ways to layout `target` of a value of which `mask` is there, but those in whose place another
    /// one stands, with what it costs to make as much.
    pub fn to(&mut self, turns: &Turns, value: usize, mask: u64, target: usize) -> Arc<Vec<Way>> {
        let question = (value, mask, target);
        if let Some(known) = self.known.get(&question) {
            return known.clone();
        }
        let mut found = self.short(question);
        found.extend(self.cheapest(question));
        // Of ways that make the same the cheapest.
        found.sort_by_key(|way| (way.mask, way.cost, way.moves.len()));
        found.dedup_by_key(|way| way.mask);
        found.sort_by_key(|way| (way.cost, way.moves.len()));
        let mut kept: Vec<Way> = Vec::new();
        for way in found {
            let room = |k: &Way| if self.own { 0 } else { way.cost - k.cost };
            if !kept.iter().any(|k| turns.value_turns(value, k.mask, way.mask, room(k)).is_some()) {
                kept.push(way);
            }
        }
        let kept = Arc::new(kept);
        self.known.insert(question, kept.clone());
        kept
    }

    /// The cheapest way, of any length (Bellman and Ford's algorithm).
    fn cheapest(&self, (value, mask, target): Question) -> Option<Way> {
        let data = &self.space.values[value];
        let start = |i: usize| if mask >> i & 1 == 1 { 0 } else { u64::MAX };
        let mut cost: Vec<u64> = (0..data.views.len()).map(start).collect();
        let mut last: Vec<Option<usize>> = vec![None; data.views.len()];
        for _ in 0..data.views.len() {
            for &m in self.into[value].iter().flatten() {
                let step = &data.moves[m];
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

    /// The ways of at most [`MAX_WAY`] collectives, backwards from what is wanted to what is there.
    fn short(&self, (value, mask, target): Question) -> Vec<Way> {
        if mask >> target & 1 == 1 {
            return vec![Way { cost: 0, mask, moves: Vec::new() }];
        }
        let moves = &self.space.values[value].moves;
        let mut found = Vec::new();
        let mut todo = vec![(target, Way { cost: 0, mask: 1 << target, moves: Vec::new() })];
        while let Some((at, way)) = todo.pop() {
            for &m in &self.into[value][at] {
                let Move { from, cost, .. } = moves[m];
                let is_there = mask >> from & 1 == 1;
                if way.mask >> from & 1 == 1 || !is_there && way.moves.len() + 1 == MAX_WAY {
                    continue;
                }
                let moves = [&[m], &way.moves[..]].concat();
                let cost = way.cost.saturating_add(cost);
                match is_there {
                    true => found.push(Way { cost, mask: mask | way.mask, moves }),
                    false => todo.push((from, Way { cost, mask: way.mask | 1 << from, moves })),
                }
            }
        }
        found
    }
}
