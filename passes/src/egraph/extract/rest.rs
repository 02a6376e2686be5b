//! The least that the operators from some stage on can cost a state.
//!
//! Stage by stage from the last one, what its choices cost is handed to the layouts of what they read: a
//! layout gets the least that any choice costs from there, and the choices keep what they cost beyond that
//! (directional arc consistency of weighted constraints: Larrosa and Schiex 2004). Costs are moved, never
//! made, so the shares of the layouts that a state has bound what is still to come; where no value has two
//! readers, exactly. Of the readers of one value only one is charged for collectives, as they may share
//! them: the one that can do with the least, such as a norm, which no partial sum will do for.

use super::live::{Pick, Stage};
use super::space::Space;
use super::turns::{Turns, bits};

/// The least costs of a space.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    /// By stage, ns from it on that depend on no state.
    fixed: Vec<u64>,
    /// By stage, ns from it on whatever the state.
    any: Vec<u64>,
    /// By value, what its readers hand to its layouts, the last reader first.
    handed: Vec<Vec<Share>>,
}

/// What a reader hands to the layouts of a value.
#[derive(Clone, Debug)]
struct Share {
    stage: usize,
    /// ns by layout.
    least: Vec<u64>,
}

impl Rest {
    /// The least costs of a space, given its stages.
    pub fn of(space: &Space, stages: &[Stage], turns: &Turns) -> Self {
        let end = stages.len();
        let (fixed, any) = (vec![0; end + 1], vec![0; end + 1]);
        let mut rest = Rest { fixed, any, handed: vec![Vec::new(); space.values.len()] };
        let payers = payers(space, stages, turns);
        for at in (0..end).rev() {
            let alone = rest.hand_on((space, stages, turns), at, &payers);
            rest.fixed[at] = rest.fixed[at + 1].saturating_add(alone);
            let all: Vec<u64> = stages[at].live.iter().map(|_| u64::MAX).collect();
            rest.any[at] = rest.of_state(&stages[at].live, (at, &all));
        }
        rest
    }

    /// The least that a state before stage `at` has still to pay, `u64::MAX` where it leads nowhere.
    pub fn of_state(&self, live: &[usize], (at, key): (usize, &[u64])) -> u64 {
        let slot = |(&value, &mask): (&usize, &u64)| self.of_value(value, (at, mask));
        live.iter().zip(key).map(slot).fold(self.fixed[at], u64::saturating_add)
    }

    /// The same whatever the state.
    pub fn of_any(&self, at: usize) -> u64 {
        self.any[at]
    }

    /// What readers from stage `at` on hand to the layouts of a mask; each goes on from the best.
    fn of_value(&self, value: usize, (at, mask): (usize, u64)) -> u64 {
        let readers = self.handed[value].iter().take_while(|share| share.stage >= at);
        let least = |share: &Share| {
            let of = bits(mask).map_while(|view| share.least.get(view));
            of.min().copied().unwrap_or(u64::MAX)
        };
        readers.map(least).fold(0, u64::saturating_add)
    }

    /// Hands what the choices of a stage cost, with what lies behind them, to what they read; returns the
    /// least of it where they read nothing.
    fn hand_on(
        &mut self,
        (space, stages, turns): (&Space, &[Stage], &Turns),
        at: usize,
        payers: &[usize],
    ) -> u64 {
        let stage = &stages[at];
        let after = stages.get(at + 1).map_or(&[][..], |s| &s.live);
        let mut costs: Vec<u64> = stage.picks.iter().map(|p| self.onward(p, at, after)).collect();
        let mut slots: Vec<usize> =
            stage.picks.iter().flat_map(|p| &p.needs).map(|need| need.0).collect();
        slots.sort_unstable();
        slots.dedup();
        if slots.is_empty() {
            return costs.into_iter().min().unwrap_or(u64::MAX);
        }
        // What was made last comes first: there the costs go on along the branch.
        slots.sort_by_key(|&slot| std::cmp::Reverse(born(stages, at, stage.live[slot])));
        for slot in slots {
            let value = stage.live[slot];
            let pays = payers[value] == at;
            let way = |pick: &Pick, from: usize| {
                let views = pick.needs.iter().filter(|need| need.0 == slot).map(|need| need.1);
                let ways = views.map(|view| turns.least(value, 1 << from, view));
                let way = ways.max().unwrap_or(0);
                if pays || way == u64::MAX { way } else { 0 }
            };
            let views = 0..space.values[value].views.len();
            let ways: Vec<Vec<u64>> =
                views.map(|from| stage.picks.iter().map(|p| way(p, from)).collect()).collect();
            let least = move_costs(&mut costs, &ways);
            self.handed[value].push(Share { stage: at, least });
        }
        0
    }

    /// What a choice costs with what is handed to the layouts that it makes.
    fn onward(&self, pick: &Pick, at: usize, after: &[usize]) -> u64 {
        let made = after.iter().zip(&pick.next).filter(|(_, (_, made))| *made != 0);
        let of = |(&value, &(_, made)): (&usize, &(Option<usize>, u64))| {
            self.of_value(value, (at + 1, made))
        };
        made.map(of).fold(pick.cost, u64::saturating_add)
    }
}

/// Moves what choices cost to layouts, given the way from each layout to what each choice reads: returns
/// what every layout gets, and leaves the choices what they cost beyond that.
fn move_costs(costs: &mut [u64], ways: &[Vec<u64>]) -> Vec<u64> {
    let total = |cost: u64, way: u64| cost.saturating_add(way);
    let least = |ways: &Vec<u64>| {
        costs.iter().zip(ways).map(|(&cost, &way)| total(cost, way)).min().unwrap_or(u64::MAX)
    };
    let handed: Vec<u64> = ways.iter().map(least).collect();
    for (choice, cost) in costs.iter_mut().enumerate() {
        let beyond = |(ways, &handed): (&Vec<u64>, &u64)| match total(*cost, ways[choice]) {
            u64::MAX => u64::MAX,
            total => total - handed,
        };
        *cost = ways.iter().zip(&handed).map(beyond).min().unwrap_or(u64::MAX);
    }
    handed
}

/// The first stage before which a value that is live at a stage has been made.
fn born(stages: &[Stage], at: usize, value: usize) -> usize {
    let earlier = stages[..at].iter().rev();
    at - earlier.take_while(|s| s.live.binary_search(&value).is_ok()).count()
}

/// By value, the reader that is charged for the collectives on it: the one to which the way from what can
/// be made first is longest.
fn payers(space: &Space, stages: &[Stage], turns: &Turns) -> Vec<usize> {
    let mut made: Vec<u64> = space.values.iter().map(|v| v.stored).collect();
    let choices = space.steps.iter().flat_map(|s| &s.choices);
    choices.flat_map(|c| &c.gives).for_each(|&(value, view)| made[value] |= 1 << view);
    let mut payers = vec![(usize::MAX, 0); space.values.len()];
    for (at, stage) in stages.iter().enumerate() {
        let mut ways = vec![u64::MAX; stage.live.len()];
        for &(slot, view) in stage.picks.iter().flat_map(|p| &p.needs) {
            let value = stage.live[slot];
            ways[slot] = turns.least(value, made[value], view).min(ways[slot]);
        }
        for (&value, &way) in stage.live.iter().zip(&ways).filter(|(_, way)| **way < u64::MAX) {
            if payers[value].0 == usize::MAX || way > payers[value].1 {
                payers[value] = (at, way);
            }
        }
    }
    payers.into_iter().map(|(stage, _)| stage).collect()
}
