//! Shortest ways through a branch: dynamic programming over its groups.

use super::axes::State;
use super::group::GroupId;
use super::link::Link;
use super::net::{Arm, BranchNet, Net, NetWay, Plane, RoutedNet};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What each choice of each group costs in the sum that is minimised; infinite for choices that
/// are not allowed.
pub(super) type Costs = Vec<Vec<f64>>;

/// Costs by choice of a group, for each state of the stream in which the branch begins, or for
/// each spread of routed tokens; a single row where neither matters.
pub(super) struct Rows {
    pub by: Begin,
    pub rows: Vec<Vec<f64>>,
}

/// What a branch or its part begins in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// A state of the stream.
    Stream,
    /// A spread of routed tokens.
    Spread,
}

impl Rows {
    /// The row of a beginning.
    pub fn at(&self, state: State) -> &Vec<f64> {
        if self.rows.len() == 1 { &self.rows[0] } else { &self.rows[state] }
    }
}

/// Solves branches of one function; what was computed for a group is kept.
pub(super) struct Solver<'a> {
    pub plane: &'a Plane,
    pub costs: &'a Costs,
    known: RefCell<BTreeMap<GroupId, Rc<Rows>>>,
    forks: RefCell<BTreeMap<GroupId, Rc<Forked>>>,
}

pub(super) const INF: f64 = f64::INFINITY;

impl<'a> Solver<'a> {
    /// A solver under some costs.
    pub fn new(plane: &'a Plane, costs: &'a Costs) -> Self {
        Solver { plane, costs, known: RefCell::default(), forks: RefCell::default() }
    }

    /// The least cost of a branch in each state of the stream: it begins and, if it joins the
    /// stream, ends there.
    pub fn by_state(&self, branch: &BranchNet) -> Vec<f64> {
        let rows = self.full_rows(branch);
        let of = |state: State| {
            let anchors = self.anchors(branch, state);
            let cost = || anchors + self.end(branch, rows.at(state), state);
            if anchors.is_finite() { cost() } else { INF }
        };
        (0..self.plane.stream.lattice.len()).map(of).collect()
    }

    /// Costs by choice of a branch's last group, for each state of the stream.
    pub fn full_rows(&self, branch: &BranchNet) -> Rc<Rows> {
        let rows = self.rows(&branch.root);
        match rows.by {
            Begin::Stream => rows,
            Begin::Spread => {
                let met = self.meet_spread(&branch.root, &rows.rows, &[]);
                Rc::new(Rows { by: Begin::Stream, rows: met })
            }
        }
    }

    fn anchors(&self, branch: &BranchNet, state: State) -> f64 {
        let cost = |(norm, choice): &(GroupId, Vec<Option<State>>)| {
            choice[state].map_or(INF, |c| self.costs[*norm][c])
        };
        branch.anchors.iter().map(cost).sum()
    }

    /// The least cost of ending a branch.
    fn end(&self, branch: &BranchNet, row: &[f64], state: State) -> f64 {
        let ends = branch.last.carry(row);
        if branch.joins { ends[state] } else { ends.into_iter().fold(INF, f64::min) }
    }

    /// Costs by choice of a group.
    pub fn rows(&self, net: &Net) -> Rc<Rows> {
        if let Some(known) = self.known.borrow().get(&net.unit) {
            return known.clone();
        }
        let rows = Rc::new(self.find_rows(net));
        self.known.borrow_mut().insert(net.unit, rows.clone());
        rows
    }

    fn find_rows(&self, net: &Net) -> Rows {
        match &net.way {
            NetWay::Start(link) => {
                let row = |state: State| match link.out[state] {
                    Some(at) => self.with_own(net.unit, link.carry_from(at)),
                    None => vec![INF; self.costs[net.unit].len()],
                };
                let rows = (0..link.out.len()).map(row).collect();
                Rows { by: Begin::Stream, rows }
            }
            NetWay::Free => Rows { by: Begin::Stream, rows: vec![self.costs[net.unit].clone()] },
            NetWay::Step(from, link) => {
                let from = self.rows(from);
                let carry = |row: &Vec<f64>| self.with_own(net.unit, link.carry(row));
                Rows { by: from.by, rows: from.rows.iter().map(carry).collect() }
            }
            NetWay::Fork(fork, arms) => {
                let forked = self.forked(net.unit, fork.unit, arms);
                let from = self.rows(fork);
                let row = |row: &Vec<f64>| self.through_fork(net.unit, row, &forked);
                Rows { by: from.by, rows: from.rows.iter().map(row).collect() }
            }
            NetWay::Meet(parts) => self.meet(net, parts),
            NetWay::Routed(routed) => {
                Rows { by: Begin::Spread, rows: self.spreads(routed, net.unit) }
            }
        }
    }

    fn with_own(&self, unit: GroupId, mut row: Vec<f64>) -> Vec<f64> {
        row.iter_mut().zip(&self.costs[unit]).for_each(|(r, c)| *r += c);
        row
    }

    /// Per arm and state in which the fork leaves it, the costs by choice where arms meet.
    pub fn forked(&self, unit: GroupId, fork: GroupId, arms: &[Arm]) -> Rc<Forked> {
        if let Some(known) = self.forks.borrow().get(&unit) {
            return known.clone();
        }
        let of = |arm: &Arm| {
            let mut known: BTreeMap<State, usize> = BTreeMap::new();
            let mut rows = Vec::new();
            let choices = arm.links[0].out.iter().enumerate().map(|(choice, out)| {
                let at = out.filter(|_| self.costs[fork][choice].is_finite())?;
                Some(*known.entry(at).or_insert_with(|| {
                    rows.push(self.along(arm, at));
                    rows.len() - 1
                }))
            });
            let choices: Vec<Option<usize>> = choices.collect();
            Across { choices, rows }
        };
        let arms: Vec<Across> = arms.iter().map(of).collect();
        let forked = Rc::new(Forked::new(arms, &self.costs[unit], self.costs[fork].len()));
        self.forks.borrow_mut().insert(unit, forked.clone());
        forked
    }

    /// Costs by choice where arms meet, from one state at the fork.
    fn along(&self, arm: &Arm, start: State) -> Vec<f64> {
        let mut row = arm.links[0].carry_from(start);
        for (unit, link) in arm.units.iter().zip(&arm.links[1..]) {
            row = link.carry(&self.with_own(*unit, row));
        }
        row
    }

    fn through_fork(&self, unit: GroupId, fork: &[f64], forked: &Forked) -> Vec<f64> {
        // Of choices that leave every arm alike only the cheapest counts.
        let mut least = vec![INF; forked.sums.len()];
        for (cost, alike) in fork.iter().zip(&forked.alike) {
            if let Some(at) = alike {
                least[*at] = least[*at].min(*cost);
            }
        }
        let mut best = vec![INF; forked.live.len()];
        for (cost, sums) in least.iter().zip(&forked.sums).filter(|(c, _)| c.is_finite()) {
            best.iter_mut().zip(sums).for_each(|(slot, sum)| *slot = slot.min(cost + sum));
        }
        let mut row = vec![INF; self.costs[unit].len()];
        for (&choice, cost) in forked.live.iter().zip(best) {
            row[choice] = cost + self.costs[unit][choice];
        }
        row
    }

    fn meet(&self, net: &Net, parts: &[(Net, Link)]) -> Rows {
        let mut plain: Vec<Rows> = Vec::new();
        let mut spread: Option<(&Net, Rows)> = None;
        for (part, link) in parts {
            let carried = self.carried(part, link);
            match carried.by {
                Begin::Stream => plain.push(carried),
                Begin::Spread => spread = Some((part, carried)),
            }
        }
        let met = match spread {
            Some((part, rows)) => self.meet_spread(part, &rows.rows, &plain),
            None => {
                let states = self.plane.stream.lattice.len();
                (0..states).map(|n| add_rows(&plain, n, None)).collect()
            }
        };
        let rows = met.into_iter().map(|row| self.with_own(net.unit, row)).collect();
        Rows { by: Begin::Stream, rows }
    }

    /// Costs of a part by choice of the group that reads it.
    pub fn carried(&self, part: &Net, link: &Link) -> Rows {
        let rows = self.rows(part);
        Rows { by: rows.by, rows: rows.rows.iter().map(|r| link.carry(r)).collect() }
    }

    /// For each state of the stream the best spread: the cost of getting there, of the routed part
    /// and of the others, which read the stream as it is or as it is spread.
    fn meet_spread(&self, part: &Net, rows: &[Vec<f64>], plain: &[Rows]) -> Vec<Vec<f64>> {
        let Some(routed) = routed_of(part) else { return Vec::new() };
        let entry = self.entries(routed);
        let states = self.plane.stream.lattice.len();
        let one = |n: State| {
            let mut best = vec![INF; rows.first().map_or(0, Vec::len)];
            for (d, row) in rows.iter().enumerate() {
                if !entry[n][d].is_finite() {
                    continue;
                }
                let others = add_rows(plain, n, Some(d));
                for (i, slot) in best.iter_mut().enumerate() {
                    let other = others.get(i).copied().unwrap_or(0.0);
                    *slot = slot.min(entry[n][d] + row[i] + other);
                }
            }
            best
        };
        (0..states).map(one).collect()
    }

    /// The cost of having tokens and their experts spread as wanted, from each state of the stream.
    pub fn entries(&self, routed: &RoutedNet) -> Vec<Vec<f64>> {
        let states = self.plane.stream.lattice.len();
        let (tokens, routing) = (self.square(&routed.tokens), self.routing_rows(routed));
        let router =
            |state: State| routed.router_in[state].map_or(INF, |c| self.costs[routed.router][c]);
        (0..states)
            .map(|n| {
                (0..states)
                    .map(|d| {
                        let before = router(n) + routing[n].as_ref().map_or(INF, |r| r[d]);
                        tokens[n].as_ref().map_or(INF, |t| t[d]) + before.min(router(d))
                    })
                    .collect()
            })
            .collect()
    }

    fn square(&self, link: &Link) -> Vec<Option<Vec<f64>>> {
        link.out.iter().map(|out| out.map(|at| link.carry_from(at))).collect()
    }

    /// From each state of the stream in which the router may run, the cost of its results' ways.
    fn routing_rows(&self, routed: &RoutedNet) -> Vec<Option<Vec<f64>>> {
        let row = |choice: &Option<State>| {
            let at = routed.routing.out[(*choice)?]?;
            Some(routed.routing.carry_from(at))
        };
        routed.router_in.iter().map(row).collect()
    }

    /// Costs by choice of combine for each spread, without the entry.
    fn spreads(&self, routed: &RoutedNet, combine: GroupId) -> Vec<Vec<f64>> {
        let states = self.plane.stream.lattice.len();
        let last = |d: State| self.spread(routed, combine, d).pop().unwrap_or_default();
        (0..states).map(last).collect()
    }

    /// Costs by choice of dispatch, of what works on the rows, and of the combine, for one spread.
    pub fn spread(&self, routed: &RoutedNet, combine: GroupId, d: State) -> Vec<Vec<f64>> {
        let keep = |costs: &[f64], spread: &[Option<State>]| -> Vec<f64> {
            costs.iter().zip(spread).map(|(c, s)| if *s == Some(d) { *c } else { INF }).collect()
        };
        let mut rows = vec![keep(&self.costs[routed.dispatch], &routed.dispatch_spread)];
        for (unit, link) in routed.rows.iter().chain([&combine]).zip(&routed.links) {
            rows.push(self.with_own(*unit, link.carry(&rows[rows.len() - 1])));
        }
        if let Some(last) = rows.last_mut() {
            *last = keep(last, &routed.combine_spread);
        }
        rows
    }
}

/// An arm of a fork, from every state in which the fork leaves it.
pub(super) struct Across {
    /// By choice of the fork, the row.
    pub choices: Vec<Option<usize>>,
    /// Costs by choice where the arms meet.
    pub rows: Vec<Vec<f64>>,
}

/// A fork with its arms.
pub(super) struct Forked {
    pub arms: Vec<Across>,
    /// By choice of the fork, a number that is equal for choices that leave every arm alike.
    alike: Vec<Option<usize>>,
    /// Choices where the arms meet that are allowed.
    live: Vec<usize>,
    /// By that number, the costs of all arms together for each such choice.
    sums: Vec<Vec<f64>>,
}

impl Forked {
    fn new(arms: Vec<Across>, own: &[f64], choices: usize) -> Self {
        let live: Vec<usize> = (0..own.len()).filter(|&c| own[c].is_finite()).collect();
        let mut known: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        let mut sums: Vec<Vec<f64>> = Vec::new();
        let alike = (0..choices).map(|choice| {
            let outs: Vec<usize> = arms.iter().map(|a| a.choices[choice]).collect::<Option<_>>()?;
            let next = sums.len();
            let number = *known.entry(outs).or_insert(next);
            if number == next {
                let sum = |&c: &usize| {
                    arms.iter().map(|a| a.choices[choice].map_or(INF, |o| a.rows[o][c])).sum()
                };
                sums.push(live.iter().map(sum).collect());
            }
            Some(number)
        });
        let alike = alike.collect();
        Forked { arms, alike, live, sums }
    }
}

/// The routed experts at the start of a part.
pub(super) fn routed_of(net: &Net) -> Option<&RoutedNet> {
    match &net.way {
        NetWay::Routed(routed) => Some(routed),
        NetWay::Step(from, _) | NetWay::Fork(from, _) => routed_of(from),
        _ => None,
    }
}

/// The sum over parts of the cheaper of two rows: of the stream's state, and of the spread.
pub(super) fn add_rows(parts: &[Rows], n: State, d: Option<State>) -> Vec<f64> {
    let mut sum: Vec<f64> = Vec::new();
    for rows in parts {
        let here = rows.at(n);
        if sum.is_empty() {
            sum = vec![0.0; here.len()];
        }
        for (i, slot) in sum.iter_mut().enumerate() {
            *slot += d.map_or(here[i], |d| here[i].min(rows.at(d)[i]));
        }
    }
    sum
}
