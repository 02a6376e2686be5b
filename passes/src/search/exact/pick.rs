//! From least costs back to what was chosen.

use super::axes::State;
use super::block::{Block, Times};
use super::fares::kind_of_step;
use super::group::GroupId;
use super::link::Link;
use super::moves::{Bundle, Move};
use super::net::{Arm, BranchNet, Net, NetWay, RoutedNet};
use super::solve::{Begin, INF, Rows, Solver, routed_of};
use std::collections::BTreeMap;

/// What was chosen for a branch.
#[derive(Clone, Debug, Default)]
pub(super) struct Picked {
    /// The choice of each group.
    pub choices: BTreeMap<GroupId, State>,
    /// The ways of values between groups, in the order in which readers run.
    pub carries: Vec<Carry>,
    /// Of routed experts: how tokens are spread, and whether the router ran before that.
    pub spread: Option<(State, bool)>,
}

/// The way of a bundle to one reader.
#[derive(Clone, Debug)]
pub(super) struct Carry {
    pub bundle: Bundle,
    /// Where it begins.
    pub from: Origin,
    /// Who reads.
    pub to: Reader,
    pub moves: Vec<Move>,
    /// What the way takes.
    pub times: Times,
}

impl Carry {
    /// Collectives on the way, one for each value that is sent.
    pub fn kernels(&self) -> u64 {
        let of = |m: &Move| {
            let sent =
                self.bundle.values.iter().map(|v| kind_of_step(&self.bundle, v, m.from, m.to));
            sent.flatten().count() as u64
        };
        self.moves.iter().map(of).sum()
    }
}

/// Where a bundle begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A group.
    Group(GroupId),
    /// The stream, or its norm.
    Stream,
    /// The stream, or its norm, as tokens are spread.
    Spread,
}

/// Who reads a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A group.
    Group(GroupId),
    /// Whatever reads the stream, or its norm, as tokens are spread.
    Spread,
    /// Dispatch and combine, which read the router's results as tokens are spread.
    Routing,
    /// The residual stream, or nobody further.
    End,
}

/// Where a part of a branch begins.
#[derive(Clone, Copy, Debug)]
struct At {
    stream: State,
    spread: Option<State>,
    /// Whether a part that could begin in either begins in the spread.
    spreads: bool,
}

impl At {
    /// The state in which a part that is not routed begins.
    fn state(self) -> State {
        self.spread.filter(|_| self.spreads).unwrap_or(self.stream)
    }
}

/// Picks what makes up the least cost of a branch in a state of the stream.
pub(super) fn pick(solver: &Solver<'_>, branch: &BranchNet, state: State) -> Picked {
    let mut picker = Picker { solver, picked: Picked::default() };
    for (norm, choices) in &branch.anchors {
        picker.picked.choices.extend(choices[state].map(|c| (*norm, c)));
    }
    let root = &branch.root;
    let mut at = At { stream: state, spread: None, spreads: false };
    let rows = solver.rows(root);
    let row = match rows.by {
        Begin::Stream => rows.at(state),
        Begin::Spread => {
            let ends = branch.last.carry(&rows.block, solver.weights);
            let spread = picker.best_spread(root, state, |d| match branch.joins {
                true => ends.row(state)[d],
                false => (0..ends.rows()).map(|e| ends.row(e)[d]).fold(INF, f64::min),
            });
            at.spread = Some(spread);
            rows.at(spread)
        }
    };
    let wanted = &branch.last.wanted;
    let last = if branch.joins { state } else { least(&carry(solver, &branch.last, &row)) };
    let choice = picker.back(&branch.last, &row, last, (Origin::Group(root.unit), Reader::End));
    debug_assert!(wanted.len() > last);
    picker.node(root, choice, at);
    picker.picked.carries.reverse();
    picker.picked
}

/// Costs of one beginning by choice of the reader.
fn carry(solver: &Solver<'_>, link: &Link, row: &[f64]) -> Vec<f64> {
    link.carry(&Block::of_lane(row), solver.weights).lane(0)
}

/// Position of the least entry, the first among equals.
fn least(row: &[f64]) -> usize {
    let best = row.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(i, _)| i)
}

struct Picker<'s, 'a> {
    solver: &'s Solver<'a>,
    picked: Picked,
}

impl Picker<'_, '_> {
    /// Follows a link back from a reader's choice: records the way, gives the maker's choice.
    fn back(
        &mut self,
        link: &Link,
        row: &[f64],
        reader: State,
        (from, to): (Origin, Reader),
    ) -> State {
        let mut states = link.scatter(&Block::of_lane(row)).lane(0);
        let begun = states.clone();
        let trail = link.moves.trace(&mut states, self.solver.weights);
        let Some((end, whole)) = link.wanted[reader] else { return 0 };
        let (start, moves, way) = link.moves.way(&trail, end);
        let times = [way[0] + whole[0], way[1] + whole[1]];
        self.picked.carries.push(Carry { bundle: link.bundle.clone(), from, to, moves, times });
        let made = |c: &usize| link.out[*c] == Some(start) && row[*c] == begun[start];
        (0..row.len()).find(made).unwrap_or(0)
    }

    /// Follows a link back to one state of the stream or spread.
    fn back_to_stream(&mut self, link: &Link, at: State, reader: State, ends: (Origin, Reader)) {
        let mut row = vec![INF; link.out.len()];
        row[at] = 0.0;
        self.back(link, &row, reader, ends);
    }

    fn node(&mut self, net: &Net, choice: State, at: At) {
        self.picked.choices.insert(net.unit, choice);
        let reader = Reader::Group(net.unit);
        match &net.way {
            NetWay::Free => {}
            NetWay::Start(link) => {
                let origin = if at.spreads { Origin::Spread } else { Origin::Stream };
                self.back_to_stream(link, at.state(), choice, (origin, reader));
            }
            NetWay::Step(from, link) => {
                let row = self.row(from, at);
                let made = self.back(link, &row, choice, (Origin::Group(from.unit), reader));
                self.node(from, made, at);
            }
            NetWay::Fork(fork, arms) => self.fork(net, fork, arms, choice, at),
            NetWay::Meet(parts) => self.meet(parts, choice, at, reader),
            NetWay::Routed(routed) => self.routed(net.unit, routed, choice, at),
        }
    }

    /// The row of a part by where it begins.
    fn row(&self, part: &Net, at: At) -> Vec<f64> {
        let rows = self.solver.rows(part);
        let state = match (rows.by, at.spread) {
            (Begin::Spread, Some(spread)) => spread,
            _ => at.state(),
        };
        rows.at(state)
    }

    fn fork(&mut self, net: &Net, fork: &Net, arms: &[Arm], choice: State, at: At) {
        let forked = self.solver.forked(net.unit, fork.unit, arms);
        let ways = forked.costs_to(choice);
        let row = self.row(fork, at);
        let sums: Vec<f64> = row.iter().zip(ways).map(|(row, way)| row + way).collect();
        let made = least(&sums);
        for arm in arms {
            self.arm(net.unit, fork.unit, arm, made, choice);
        }
        self.node(fork, made, at);
    }

    fn arm(&mut self, end: GroupId, fork: GroupId, arm: &Arm, made: State, choice: State) {
        let mut first = vec![INF; arm.links[0].out.len()];
        first[made] = 0.0;
        let mut rows = vec![first];
        for (unit, link) in arm.units.iter().zip(&arm.links) {
            let row = carry(self.solver, link, &rows[rows.len() - 1]);
            let own = &self.solver.costs[*unit];
            rows.push(row.iter().zip(own).map(|(r, c)| r + c).collect());
        }
        let makers: Vec<GroupId> = [&[fork], arm.units.as_slice()].concat();
        let mut reader = (end, choice);
        for (i, link) in arm.links.iter().enumerate().rev() {
            let ends = (Origin::Group(makers[i]), Reader::Group(reader.0));
            let chosen = self.back(link, &rows[i], reader.1, ends);
            if i > 0 {
                self.picked.choices.insert(makers[i], chosen);
            }
            reader = (makers[i], chosen);
        }
    }

    fn meet(&mut self, parts: &[(Net, Link)], choice: State, at: At, reader: Reader) {
        let carried: Vec<Rows> =
            parts.iter().map(|(part, link)| self.solver.carried(part, link)).collect();
        let routed = carried.iter().position(|r| r.by == Begin::Spread);
        let mut begin = at;
        if let Some(i) = routed {
            let cost = |j: usize, state: State| {
                let row = carried[j].block.row(choice);
                if row.len() == 1 { row[0] } else { row[state] }
            };
            let sum = |d: State| {
                let other = |j: usize| match j == i {
                    true => cost(i, d),
                    false => cost(j, at.stream).min(cost(j, d)),
                };
                (0..carried.len()).map(other).sum()
            };
            begin.spread = Some(self.best_spread(&parts[i].0, at.stream, sum));
        }
        for ((part, link), costs) in parts.iter().zip(&carried) {
            let row = costs.block.row(choice);
            let cost = |state: State| if row.len() == 1 { row[0] } else { row[state] };
            let spreads = |d: State| costs.by == Begin::Stream && cost(d) < cost(at.state());
            let at = At { spreads: begin.spread.map_or(at.spreads, spreads), ..begin };
            let row = self.row(part, at);
            let made = self.back(link, &row, choice, (Origin::Group(part.unit), reader));
            self.node(part, made, at);
        }
    }

    /// The best spread where what comes of each costs so much.
    fn best_spread(&self, part: &Net, stream: State, cost: impl Fn(State) -> f64) -> State {
        let Some(routed) = routed_of(part) else { return stream };
        let entry = self.solver.entries(routed);
        let sums: Vec<f64> = (0..entry.rows()).map(|d| entry.row(d)[stream] + cost(d)).collect();
        least(&sums)
    }

    fn routed(&mut self, combine: GroupId, routed: &RoutedNet, choice: State, at: At) {
        let spread = at.spread.unwrap_or(at.stream);
        let blocks = self.solver.spreads(routed, combine);
        let rows: Vec<Vec<f64>> = blocks.iter().map(|b| b.lane(spread)).collect();
        let of = |unit: GroupId| Origin::Group(unit);
        let makers: Vec<GroupId> = [&[routed.dispatch], routed.rows.as_slice()].concat();
        let mut reader = (combine, choice);
        for (i, link) in routed.links.iter().enumerate().rev() {
            let ends = (of(makers[i]), Reader::Group(reader.0));
            let chosen = self.back(link, &rows[i], reader.1, ends);
            self.picked.choices.insert(makers[i], chosen);
            reader = (makers[i], chosen);
        }
        let router = |state: State| {
            routed.router_in[state].map_or(INF, |c| self.solver.costs[routed.router][c])
        };
        let routing = self.solver.routing_rows(routed);
        let before = routing.row(spread)[at.stream] + router(at.stream);
        let early = before < router(spread) || spread == at.stream;
        let ran = if early { at.stream } else { spread };
        if let Some(c) = routed.router_in[ran] {
            self.picked.choices.insert(routed.router, c);
            let mut row = vec![INF; routed.routing.out.len()];
            row[c] = 0.0;
            self.back(&routed.routing, &row, spread, (of(routed.router), Reader::Routing));
        }
        self.picked.spread = Some((spread, early));
        let ends = (Origin::Stream, Reader::Spread);
        self.back_to_stream(&routed.tokens, at.stream, spread, ends);
    }
}
