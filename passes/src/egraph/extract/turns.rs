//! What it costs to turn one state into another: the collectives that make the layouts it lacks.

use super::space::{Space, Value};

/// Of every value, the cost of the cheapest collectives from one layout to another.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    values: Vec<Vec<Vec<u64>>>,
}

impl Turns {
    /// All pairs of layouts of every value.
    pub fn of(space: &Space) -> Self {
        Turns { values: space.values.iter().map(between).collect() }
    }

    /// Whether a state of some `values` has, or makes for at most `room`, all layouts of another.
    pub fn turns(&self, values: &[usize], (from, to): (&[u64], &[u64]), room: u64) -> bool {
        let pairs = values.iter().zip(from.iter().zip(to));
        let left = |room, (&value, (&has, &wants)): (&usize, (&u64, &u64))| {
            self.value_turns(value, has, wants, room)
        };
        pairs.into_iter().try_fold(room, left).is_some()
    }

    /// What is left of `room` after layouts `wants` of a value have been made of `has`.
    pub fn value_turns(&self, value: usize, has: u64, wants: u64, room: u64) -> Option<u64> {
        let makes = |room: u64, view| room.checked_sub(self.least(value, has, view));
        bits(wants & !has).try_fold(room, makes)
    }

    /// The cost of the cheapest collectives to a layout of a value from those of a mask.
    pub fn least(&self, value: usize, has: u64, view: usize) -> u64 {
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
