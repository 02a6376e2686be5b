//! What it costs to turn one state into another: the collectives that make the layouts it lacks.

use super::frontier::Key;
use super::space::{Choice, Space, Step, Value};
use std::collections::BTreeSet;

/// Of every value, the cost of the cheapest collectives from one layout to another.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    values: Vec<Vec<Vec<u64>>>,
}

impl Turns {
    /// All pairs of layouts of every value.
    pub(super) fn of(space: &Space) -> Self {
        Turns { values: space.values.iter().map(between).collect() }
    }

    /// By number of operators done, the least that the others can cost: each its cheapest choice, and
    /// for each value that one of them makes, the mean over its readers of the collectives that lead
    /// to what they read. All of a value's readers together pay no less than that.
    pub(super) fn rest(&self, space: &Space) -> Vec<u64> {
        let (mut made, mut readers) =
            (vec![(0u64, usize::MAX); space.values.len()], vec![0u64; space.values.len()]);
        for (at, step) in space.steps.iter().enumerate() {
            for &(value, view) in step.choices.iter().flat_map(|c| &c.gives) {
                made[value].0 |= 1 << view;
                made[value].1 = made[value].1.min(at);
            }
            let read: BTreeSet<usize> =
                step.choices.iter().flat_map(|c| &c.needs).map(|n| n.0).collect();
            read.into_iter().for_each(|value| readers[value] += 1);
        }
        let paid = |(value, view): (usize, usize), from: usize| match made[value] {
            (views, at) if at >= from && at < usize::MAX => {
                let way = self.least(value, views | space.values[value].stored, view);
                if way == u64::MAX { 0 } else { way / readers[value].max(1) }
            }
            _ => 0,
        };
        let least = |step: &Step, from: usize| {
            let cost = |c: &Choice| {
                let ways = c.needs.iter().map(|&need| paid(need, from));
                ways.fold(c.cost, u64::saturating_add)
            };
            step.choices.iter().map(cost).min().unwrap_or(0)
        };
        let after = |from: usize| {
            let rest = space.steps[from..].iter().map(|step| least(step, from));
            rest.fold(0, u64::saturating_add)
        };
        (0..=space.steps.len()).map(after).collect()
    }

    /// Whether one of some `others`, of the same live values, has all that `state` has, or makes the
    /// rest, at no more than its cost.
    pub(super) fn reached<'k>(
        &self,
        (state, cost): (&Key, u64),
        others: impl Iterator<Item = (&'k Key, u64)>,
    ) -> bool {
        let mut others = others.filter_map(|(key, c)| Some((key, cost.checked_sub(c)?)));
        others.any(|(key, room)| self.turns(key, state, room))
    }

    /// Whether `from` has, or makes for at most `room`, all layouts of `to`.
    pub(super) fn turns(&self, from: &[(u32, u64)], to: &[(u32, u64)], mut room: u64) -> bool {
        if from.len() != to.len() {
            return false;
        }
        for (&(value, has), &(other, wants)) in from.iter().zip(to) {
            if value != other {
                return false;
            }
            for view in bits(wants & !has) {
                match room.checked_sub(self.least(value as usize, has, view)) {
                    Some(left) => room = left,
                    None => return false,
                }
            }
        }
        true
    }

    /// The cost of the cheapest collectives to a layout of a value from those of a mask.
    pub(super) fn least(&self, value: usize, has: u64, view: usize) -> u64 {
        let rows = &self.values[value];
        bits(has).map(|u| rows[u][view]).min().unwrap_or(u64::MAX)
    }
}

/// The positions of the ones of a mask.
pub(super) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (at < 64).then_some(at as usize)
    })
}

/// Floyd and Warshall's algorithm.
fn between(value: &Value) -> Vec<Vec<u64>> {
    let n = value.views.len();
    let mut out = vec![vec![u64::MAX; n]; n];
    for (i, row) in out.iter_mut().enumerate() {
        row[i] = 0;
    }
    for step in &value.moves {
        let cost = &mut out[step.from][step.to];
        *cost = step.cost.min(*cost);
    }
    for via in 0..n {
        let onward = out[via].clone();
        for row in &mut out {
            let first = row[via];
            for (cost, rest) in row.iter_mut().zip(&onward) {
                *cost = first.saturating_add(*rest).min(*cost);
            }
        }
    }
    out
}
