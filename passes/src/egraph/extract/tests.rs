//! Extraction against a search of everything, on random spaces; limits give bounds that hold.

use super::super::node::{Head, Node};
use super::frontier::{Act, Limits, Solution, solve};
use super::space::{Choice, Move, Space, Step, Value, View};
use egg::Id;
use std::collections::BTreeMap;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
        (z ^ (z >> 31)) % n.max(1)
    }
}

fn node() -> Node {
    Node { head: Head::Part(0), args: Vec::new() }
}

fn value(random: &mut Random, stored: u64) -> Value {
    let views = 1 + random.below(4) as usize;
    let view = |i: usize| View { class: Id::from(i), bytes: 1 };
    let mut moves = Vec::new();
    for from in 0..views {
        for to in (0..views).filter(|&to| to != from) {
            if random.below(3) > 0 {
                moves.push(Move { from, to, cost: 1 + random.below(9), own: false, node: node() });
            }
        }
    }
    Value { views: (0..views).map(view).collect(), moves, stored }
}

/// Operators that read one or two earlier values each and make one; some results are read twice.
fn space(seed: u64) -> Space {
    let mut random = Random(seed);
    let mut values = vec![value(&mut random, 1), value(&mut random, 1)];
    let mut steps = Vec::new();
    for _ in 0..4 {
        let result = values.len();
        values.push(value(&mut random, 0));
        let read: Vec<usize> =
            (0..1 + random.below(2)).map(|_| random.below(result as u64) as usize).collect();
        let mut choices = Vec::new();
        for _ in 0..1 + random.below(4) {
            let mut view = |v: usize| (v, random.below(values[v].views.len() as u64) as usize);
            let mut needs: Vec<(usize, usize)> = read.iter().map(|&v| view(v)).collect();
            needs.sort_unstable();
            needs.dedup();
            let gives = vec![view(result)];
            let cost = 1 + random.below(20);
            choices.push(Choice {
                cost,
                own: false,
                needs,
                gives,
                node: node(),
                results: Vec::new(),
            });
        }
        steps.push(Step { choices, dies: Vec::new() });
    }
    let last = values.len() - 1;
    let mut space = Space { values, steps, returns: vec![(last, 0), (2, 0)] };
    space.deaths();
    space
}

/// What has been made of every value, and how many operators have run.
type State = (usize, Vec<u64>);

/// The least cost, by Dijkstra's algorithm over everything that can be done at every moment.
fn least(space: &Space) -> Option<u64> {
    let start: State = (0, space.values.iter().map(|v| v.stored).collect());
    let mut open: BTreeMap<State, u64> = BTreeMap::from([(start, 0)]);
    let mut done: BTreeMap<State, u64> = BTreeMap::new();
    while let Some((state, cost)) =
        open.iter().min_by_key(|(_, c)| **c).map(|(s, c)| (s.clone(), *c))
    {
        open.remove(&state);
        let (at, masks) = &state;
        let has = |&(v, i): &(usize, usize)| masks[v] >> i & 1 == 1;
        if *at == space.steps.len() && space.returns.iter().all(has) {
            return Some(cost);
        }
        let mut next: Vec<(State, u64)> = Vec::new();
        for (v, value) in space.values.iter().enumerate() {
            for m in value.moves.iter().filter(|m| has(&(v, m.from)) && !has(&(v, m.to))) {
                let mut masks = masks.clone();
                masks[v] |= 1 << m.to;
                next.push(((*at, masks), cost + m.cost));
            }
        }
        for choice in space.steps.get(*at).into_iter().flat_map(|s| &s.choices) {
            if choice.needs.iter().all(has) {
                let mut masks = masks.clone();
                choice.gives.iter().for_each(|&(v, i)| masks[v] |= 1 << i);
                next.push(((at + 1, masks), cost + choice.cost));
            }
        }
        done.insert(state, cost);
        for (state, cost) in next.into_iter().filter(|(s, _)| !done.contains_key(s)) {
            let known = open.entry(state).or_insert(cost);
            *known = (*known).min(cost);
        }
    }
    None
}

/// The cost of what a solution does, after checking that it can be done in that order.
fn replayed(space: &Space, solution: &Solution) -> Option<u64> {
    let mut masks: Vec<u64> = space.values.iter().map(|v| v.stored).collect();
    let mut cost = 0;
    for act in &solution.acts {
        match *act {
            Act::Move(v, m) => {
                let step = &space.values[v].moves[m];
                (masks[v] >> step.from & 1 == 1).then_some(())?;
                masks[v] |= 1 << step.to;
                cost += step.cost;
            }
            Act::Run(s, c) => {
                let choice = &space.steps[s].choices[c];
                choice.needs.iter().all(|&(v, i)| masks[v] >> i & 1 == 1).then_some(())?;
                choice.gives.iter().for_each(|&(v, i)| masks[v] |= 1 << i);
                cost += choice.cost;
            }
        }
    }
    space.returns.iter().all(|&(v, i)| masks[v] >> i & 1 == 1).then_some(cost)
}

const ALL: Limits = Limits { first: 50, states: 1 << 20, bytes: u64::MAX, ceiling: u64::MAX };

#[test]
fn extraction_finds_the_least_cost() {
    let mut solved = 0;
    for seed in 0..300 {
        let space = space(seed);
        let (found, wanted) = (solve(&space, ALL).0, least(&space));
        assert_eq!(found.as_ref().map(|s| s.cost), wanted, "seed {seed}");
        if let Some(solution) = found {
            assert_eq!(replayed(&space, &solution), Some(solution.cost), "seed {seed}");
            assert_eq!(solution.bound, solution.cost, "seed {seed}");
            solved += 1;
        }
    }
    assert!(solved > 100, "only {solved} spaces have a program");
}

#[test]
fn with_few_states_the_bound_holds() {
    let mut open = 0;
    for seed in 0..300 {
        let space = space(seed);
        let few = Limits { first: 1, states: 2, ..ALL };
        let (Some(found), Some(best)) = (solve(&space, few).0, least(&space)) else { continue };
        assert!(found.bound <= best && best <= found.cost, "seed {seed}");
        open += u32::from(found.bound < found.cost);
    }
    assert!(open > 0, "two states were always enough");
}

#[test]
fn memory_is_kept() {
    for seed in 0..100 {
        let space = space(seed);
        let Some(free) = solve(&space, ALL).0 else { continue };
        for bytes in 1..=free.peak {
            if let Some(tight) = solve(&space, Limits { bytes, ..ALL }).0 {
                assert!(tight.peak <= bytes && tight.cost >= free.cost, "seed {seed}");
            }
        }
    }
}
