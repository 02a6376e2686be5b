//! Shortest ways through a branch: dynamic programming over its groups.

use super::axes::State;
use super::block::{Block, Weights, lower};
use super::group::GroupId;
use super::link::Link;
use super::net::{Arm, BranchNet, Net, NetWay, Plane, RoutedNet};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What each choice of each group costs in the sum that is minimised; infinite for choices that
/// are not allowed.
pub(super) type Costs = Vec<Vec<f64>>;

/// Costs by choice of a group; a lane for each state of the stream in which the branch begins, or for
/// each spread of routed tokens; a single lane where neither matters.
pub(super) struct Rows {
    pub by: Begin,
    pub block: Block,
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
    /// The costs by choice from a beginning.
    pub fn at(&self, state: State) -> Vec<f64> {
        self.block.lane(self.lane(state))
    }

    fn lane(&self, state: State) -> usize {
        if self.block.lanes() == 1 { 0 } else { state }
    }
}

/// Solves branches of one function; what was computed for a group is kept.
pub(super) struct Solver<'a> {
    pub plane: &'a Plane,
    pub costs: &'a Costs,
    /// What times of ways between groups count.
    pub weights: Weights,
    known: RefCell<BTreeMap<GroupId, Rc<Rows>>>,
    forks: RefCell<BTreeMap<GroupId, Rc<Forked>>>,
    routed: RefCell<BTreeMap<GroupId, Rc<Vec<Block>>>>,
    entered: RefCell<BTreeMap<GroupId, Rc<Block>>>,
}

pub(super) const INF: f64 = f64::INFINITY;

impl<'a> Solver<'a> {
    /// A solver under some costs.
    pub fn new(plane: &'a Plane, costs: &'a Costs, weights: Weights) -> Self {
        Solver {
            plane,
            costs,
            weights,
            known: RefCell::default(),
            forks: RefCell::default(),
            routed: RefCell::default(),
            entered: RefCell::default(),
        }
    }

    /// The least cost of a branch in each state of the stream: it begins and, if it joins the
    /// stream, ends there.
    pub fn by_state(&self, branch: &BranchNet) -> Vec<f64> {
        let rows = self.full_rows(branch);
        let ends = branch.last.carry(&rows.block, self.weights);
        let of = |state: State| {
            let lane = rows.lane(state);
            let least = || (0..ends.rows()).map(|e| ends.row(e)[lane]).fold(INF, f64::min);
            let anchors = self.anchors(branch, state);
            anchors + if branch.joins { ends.row(state)[lane] } else { least() }
        };
        (0..self.plane.stream.lattice.len()).map(of).collect()
    }

    /// Costs by choice of a branch's last group, for each state of the stream.
    fn full_rows(&self, branch: &BranchNet) -> Rc<Rows> {
        let rows = self.rows(&branch.root);
        match rows.by {
            Begin::Stream => rows,
            Begin::Spread => {
                let block = self.meet_spread(&branch.root, &rows.block, &[]);
                Rc::new(Rows { by: Begin::Stream, block })
            }
        }
    }

    fn anchors(&self, branch: &BranchNet, state: State) -> f64 {
        let cost = |(norm, choice): &(GroupId, Vec<Option<State>>)| {
            choice[state].map_or(INF, |c| self.costs[*norm][c])
        };
        branch.anchors.iter().map(cost).sum()
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
        let from_stream = |block| Rows { by: Begin::Stream, block };
        match &net.way {
            NetWay::Start(link) => {
                let block = link.carry_from(link.out.iter().copied(), self.weights);
                from_stream(self.with_own(net.unit, block))
            }
            NetWay::Free => from_stream(Block::of_lane(&self.costs[net.unit])),
            NetWay::Step(from, link) => {
                let from = self.rows(from);
                let block = self.with_own(net.unit, link.carry(&from.block, self.weights));
                Rows { by: from.by, block }
            }
            NetWay::Fork(fork, arms) => {
                let forked = self.forked(net.unit, fork.unit, arms);
                let from = self.rows(fork);
                Rows { by: from.by, block: self.through_fork(net.unit, &from.block, &forked) }
            }
            NetWay::Meet(parts) => from_stream(self.meet(net, parts)),
            NetWay::Routed(routed) => {
                let block = self.spreads(routed, net.unit).last().cloned();
                Rows { by: Begin::Spread, block: block.unwrap_or_else(|| Block::new(0, 1)) }
            }
        }
    }

    fn with_own(&self, unit: GroupId, mut block: Block) -> Block {
        block.add(&self.costs[unit]);
        block
    }

    /// The costs of all arms from every choice of the fork to every choice where they meet.
    pub fn forked(&self, unit: GroupId, fork: GroupId, arms: &[Arm]) -> Rc<Forked> {
        if let Some(known) = self.forks.borrow().get(&unit) {
            return known.clone();
        }
        let own = &self.costs[unit];
        let live: Vec<State> = (0..own.len()).filter(|&c| own[c].is_finite()).collect();
        let ways: Vec<Block> = arms.iter().map(|arm| self.along(arm, &live)).collect();
        let outs = |choice: State| -> Option<Vec<State>> {
            let allowed = self.costs[fork][choice].is_finite();
            arms.iter().map(|arm| arm.links[0].out[choice].filter(|_| allowed)).collect()
        };
        let outs = (0..self.costs[fork].len()).map(outs);
        let forked = Rc::new(Forked::new(live, &ways, outs));
        self.forks.borrow_mut().insert(unit, forked.clone());
        forked
    }

    /// Costs by choice of the fork, a lane for each choice where arms meet: found from their end, where
    /// fewer choices are allowed than there are states in which a fork may leave its arms.
    fn along(&self, arm: &Arm, ends: &[State]) -> Block {
        let choices = arm.links.last().map_or(0, |link| link.wanted.len());
        let mut block = Block::new(choices, ends.len());
        ends.iter().enumerate().for_each(|(lane, &end)| block.row_mut(end)[lane] = 0.0);
        for (i, link) in arm.links.iter().enumerate().rev() {
            block = link.carry_back(&block, self.weights);
            if let Some(&unit) = i.checked_sub(1).and_then(|i| arm.units.get(i)) {
                block.add(&self.costs[unit]);
            }
        }
        block
    }

    fn through_fork(&self, unit: GroupId, fork: &Block, forked: &Forked) -> Block {
        // Of choices that leave every arm alike only the cheapest counts.
        let mut least = Block::new(forked.sums.len(), fork.lanes());
        for (choice, alike) in forked.alike.iter().enumerate() {
            if let Some(at) = alike {
                lower(least.row_mut(*at), fork.row(choice), 0.0);
            }
        }
        let mut block = Block::new(self.costs[unit].len(), fork.lanes());
        for (at, sums) in forked.sums.iter().enumerate() {
            let from = least.row(at);
            if from.iter().all(|c| c.is_infinite()) {
                continue;
            }
            for (&choice, sum) in forked.live.iter().zip(sums).filter(|(_, s)| s.is_finite()) {
                lower(block.row_mut(choice), from, *sum);
            }
        }
        self.with_own(unit, block)
    }

    fn meet(&self, net: &Net, parts: &[(Net, Link)]) -> Block {
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
            Some((part, rows)) => self.meet_spread(part, &rows.block, &plain),
            None => {
                let states = self.plane.stream.lattice.len();
                let mut met = Block::new(self.costs[net.unit].len(), states);
                for row in 0..met.rows() {
                    let sum = |n: State| plain.iter().map(|p| p.block.row(row)[p.lane(n)]).sum();
                    met.row_mut(row).iter_mut().enumerate().for_each(|(n, m)| *m = sum(n));
                }
                met
            }
        };
        self.with_own(net.unit, met)
    }

    /// Costs of a part by choice of the group that reads it.
    pub fn carried(&self, part: &Net, link: &Link) -> Rows {
        let rows = self.rows(part);
        Rows { by: rows.by, block: link.carry(&rows.block, self.weights) }
    }

    /// For each state of the stream the best spread: the cost of getting there, of the routed part
    /// and of the others, which read the stream as it is or as it is spread.
    fn meet_spread(&self, part: &Net, rows: &Block, plain: &[Rows]) -> Block {
        let states = self.plane.stream.lattice.len();
        let mut met = Block::new(rows.rows(), states);
        let Some(routed) = routed_of(part) else { return met };
        let entry = self.entries(routed);
        let mut from = vec![INF; states];
        for row in 0..rows.rows() {
            for (d, &cost) in rows.row(row).iter().enumerate().filter(|(_, c)| c.is_finite()) {
                from.copy_from_slice(entry.row(d));
                for p in plain {
                    let others = p.block.row(row);
                    let there = others[p.lane(d)];
                    let add = |(n, f): (usize, &mut f64)| *f += others[p.lane(n)].min(there);
                    from.iter_mut().enumerate().for_each(add);
                }
                lower(met.row_mut(row), &from, cost);
            }
        }
        met
    }

    /// The cost of having tokens and their experts spread as wanted: a row for each spread, a lane for
    /// each state of the stream.
    pub fn entries(&self, routed: &RoutedNet) -> Rc<Block> {
        if let Some(known) = self.entered.borrow().get(&routed.dispatch) {
            return known.clone();
        }
        let entries = Rc::new(self.find_entries(routed));
        self.entered.borrow_mut().insert(routed.dispatch, entries.clone());
        entries
    }

    fn find_entries(&self, routed: &RoutedNet) -> Block {
        let tokens = routed.tokens.carry_from(routed.tokens.out.iter().copied(), self.weights);
        let routing = self.routing_rows(routed);
        let router: Vec<f64> = (routed.router_in.iter())
            .map(|choice| choice.map_or(INF, |c| self.costs[routed.router][c]))
            .collect();
        let mut entries = tokens;
        for (d, after) in router.iter().enumerate() {
            let before = routing.row(d);
            let own = router.iter().zip(before).map(|(r, b)| (r + b).min(*after));
            entries.row_mut(d).iter_mut().zip(own).for_each(|(e, own)| *e += own);
        }
        entries
    }

    /// From each state of the stream in which the router may run, the cost of its results' ways.
    pub fn routing_rows(&self, routed: &RoutedNet) -> Block {
        let starts = routed.router_in.iter().map(|choice| routed.routing.out[(*choice)?]);
        routed.routing.carry_from(starts, self.weights)
    }

    /// Costs by choice of dispatch, of what works on the rows, and of the combine, for each spread,
    /// without the entry.
    pub fn spreads(&self, routed: &RoutedNet, combine: GroupId) -> Rc<Vec<Block>> {
        if let Some(known) = self.routed.borrow().get(&combine) {
            return known.clone();
        }
        let spreads = Rc::new(self.find_spreads(routed, combine));
        self.routed.borrow_mut().insert(combine, spreads.clone());
        spreads
    }

    fn find_spreads(&self, routed: &RoutedNet, combine: GroupId) -> Vec<Block> {
        let states = self.plane.stream.lattice.len();
        let mut first = Block::new(routed.dispatch_spread.len(), states);
        for (choice, spread) in routed.dispatch_spread.iter().enumerate() {
            if let Some(d) = spread {
                first.row_mut(choice)[*d] = self.costs[routed.dispatch][choice];
            }
        }
        let mut blocks = vec![first];
        for (unit, link) in routed.rows.iter().chain([&combine]).zip(&routed.links) {
            let carried = link.carry(&blocks[blocks.len() - 1], self.weights);
            blocks.push(self.with_own(*unit, carried));
        }
        if let Some(last) = blocks.last_mut() {
            for (choice, spread) in routed.combine_spread.iter().enumerate() {
                let other = |(d, _): &(usize, &mut f64)| Some(*d) != *spread;
                let row = last.row_mut(choice).iter_mut().enumerate();
                row.filter(other).for_each(|(_, cost)| *cost = INF);
            }
        }
        blocks
    }
}

/// A fork with its arms.
pub(super) struct Forked {
    /// Choices where the arms meet that are allowed.
    live: Vec<State>,
    /// By choice of the fork, a number that is equal for choices that leave every arm alike.
    alike: Vec<Option<usize>>,
    /// By that number, the costs of all arms together for each such choice.
    sums: Vec<Vec<f64>>,
}

impl Forked {
    /// `outs` are the states in which choices of the fork leave the arms.
    fn new(
        live: Vec<State>,
        ways: &[Block],
        outs: impl Iterator<Item = Option<Vec<State>>>,
    ) -> Self {
        let mut known: BTreeMap<Vec<State>, usize> = BTreeMap::new();
        let mut sums: Vec<Vec<f64>> = Vec::new();
        let alike = outs.enumerate().map(|(choice, outs)| {
            let next = sums.len();
            let number = *known.entry(outs?).or_insert(next);
            if number == next {
                let sum = |lane: usize| ways.iter().map(|way| way.row(choice)[lane]).sum();
                sums.push((0..live.len()).map(sum).collect());
            }
            Some(number)
        });
        let alike = alike.collect();
        Forked { alike, live, sums }
    }

    /// The costs of all arms from each choice of the fork to one where they meet.
    pub fn costs_to(&self, end: State) -> Vec<f64> {
        let lane = self.live.iter().position(|&c| c == end);
        let cost = |alike: &Option<usize>| match (alike, lane) {
            (Some(at), Some(lane)) => self.sums[*at][lane],
            _ => INF,
        };
        self.alike.iter().map(cost).collect()
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
