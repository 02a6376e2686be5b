//! A branch with every choice and every way priced at one point.

use super::axes::State;
use super::flow::{Branch, End, Flow, Node, Routed, Way, collect};
use super::group::GroupId;
use super::link::Link;
use super::moves::{Bundle, UseInfo};
use super::table::{Point, Priced, Table};
use super::unit::{Port, Unit};
use shardc_ir::dim::Dim;
use shardc_ir::graph::Value;

/// A group with the links to those that feed it.
#[derive(Clone, Debug)]
pub(super) struct Net {
    pub unit: GroupId,
    pub way: NetWay,
}

/// How a group is fed.
#[derive(Clone, Debug)]
pub(super) enum NetWay {
    /// By the stream; the maker's choices are the stream's.
    Start(Box<Link>),
    Free,
    Step(Box<Net>, Box<Link>),
    Fork(Box<Net>, Vec<Arm>),
    Meet(Vec<(Net, Link)>),
    Routed(Box<RoutedNet>),
}

/// Groups between a fork and where its arms meet; one link more than there are groups.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    pub units: Vec<GroupId>,
    pub links: Vec<Link>,
}

/// Routed experts. *Spread* is how tokens lie as they are routed, a state of the stream.
#[derive(Clone, Debug)]
pub(super) struct RoutedNet {
    pub router: GroupId,
    pub dispatch: GroupId,
    /// The experts, and what works on their rows before the combine.
    pub rows: Vec<GroupId>,
    /// Tokens from the stream's state to the spread.
    pub tokens: Link,
    /// Choices of experts from where the router ran to the spread.
    pub routing: Link,
    /// From dispatch through `rows` to the combine.
    pub links: Vec<Link>,
    /// The router's choice in each state of the stream.
    pub router_in: Vec<Option<State>>,
    /// The spread of each choice of dispatch and of combine.
    pub dispatch_spread: Vec<Option<State>>,
    pub combine_spread: Vec<Option<State>>,
}

/// A branch at one point.
#[derive(Clone, Debug)]
pub(super) struct BranchNet {
    pub root: Net,
    /// From the last group to the stream, or to anywhere.
    pub last: Link,
    /// The choice of each norm of the stream in each of its states.
    pub anchors: Vec<(GroupId, Vec<Option<State>>)>,
    /// Whether the branch ends in the stream.
    pub joins: bool,
}

/// A function at one point.
#[derive(Clone, Debug)]
pub(super) struct Plane {
    pub tables: Vec<Table>,
    pub stream: Table,
    pub branches: Vec<BranchNet>,
}

impl Plane {
    /// Prices a function.
    pub fn new(flow: &Flow<'_>, priced: &[Priced], idle: &Priced, point: &Point<'_>) -> Self {
        let mut met: Vec<GroupId> = Vec::new();
        for branch in &flow.branches {
            collect(&branch.root, &mut met);
            met.extend(&branch.anchors);
        }
        let pairs = flow.units.iter().zip(priced).enumerate();
        let table = |(id, (unit, priced)): (GroupId, (&Unit, &Priced))| {
            if met.contains(&id) { Table::new(unit, priced, point) } else { Table::empty(point) }
        };
        let tables: Vec<Table> = pairs.map(table).collect();
        let stream = Table::new(&flow.stream, idle, point);
        let mut tables = tables;
        if let Some(held) = stream_held(flow, &stream, point) {
            for (table, unit) in tables.iter_mut().zip(&flow.units) {
                let reads = |p: &Port| matches!(p.source, super::group::Source::Residual(_));
                if !unit.inputs.iter().any(reads) {
                    table.transient.iter_mut().filter(|t| **t > 0.0).for_each(|t| *t += held);
                }
            }
        }
        let mut plane = Plane { tables, stream, branches: Vec::new() };
        for branch in &flow.branches {
            let pricing = Pricing { flow, plane: &plane, idle, point };
            let net = pricing.branch(branch);
            plane.branches.push(net);
        }
        plane
    }
}

/// The fewest bytes of the stream that a device holds while the groups of a branch run, where memory
/// must hold this step's activations.
fn stream_held(flow: &Flow<'_>, stream: &Table, point: &Point<'_>) -> Option<f64> {
    let largest = point.largest.as_ref().filter(|_| !flow.groups.joins.is_empty())?;
    let port = flow.stream.outputs.first()?;
    let ty = flow.func.ty(port.value);
    let bytes = |state: State| {
        let share = |(dim, on): (&Dim, &Option<usize>)| {
            let parts = on.map_or(1, |on| stream.lattice.parts(state, on));
            Dim::fixed(dim.eval(largest).div_ceil(parts))
        };
        ty.with_dims(ty.dims.iter().zip(&port.dims).map(share).collect()).bytes(largest) as f64
    };
    (0..stream.lattice.len()).map(bytes).reduce(f64::min)
}

struct Pricing<'a> {
    flow: &'a Flow<'a>,
    plane: &'a Plane,
    idle: &'a Priced,
    point: &'a Point<'a>,
}

impl Pricing<'_> {
    fn branch(&self, branch: &Branch) -> BranchNet {
        let root = self.net(&branch.root);
        let (joins, end) = match &branch.end {
            End::Stream(unit) => (true, unit),
            End::Anywhere(unit) => (false, unit),
        };
        let table = Table::new(end, self.idle, self.point);
        let last = self.link(branch.root.unit, (end, &table));
        let anchors = branch.anchors.iter().map(|&norm| (norm, self.in_stream(norm)));
        BranchNet { root, last, anchors: anchors.collect(), joins }
    }

    fn net(&self, node: &Node) -> Net {
        let reader = self.reader(node.unit);
        let way = match &node.way {
            Way::Start(anchor) => NetWay::Start(Box::new(self.stream_link(*anchor, reader))),
            Way::Free => NetWay::Free,
            Way::Step(from) => {
                NetWay::Step(Box::new(self.net(from)), Box::new(self.link(from.unit, reader)))
            }
            Way::Fork(fork, arms) => {
                let arm = |units: &Vec<GroupId>| self.arm(fork.unit, units, node.unit);
                NetWay::Fork(Box::new(self.net(fork)), arms.iter().map(arm).collect())
            }
            Way::Meet(parts) => {
                let part = |part: &Node| (self.net(part), self.link(part.unit, reader));
                NetWay::Meet(parts.iter().map(part).collect())
            }
            Way::Routed(routed) => NetWay::Routed(Box::new(self.routed(routed, node.unit))),
        };
        Net { unit: node.unit, way }
    }

    fn arm(&self, fork: GroupId, units: &[GroupId], end: GroupId) -> Arm {
        let mut links = Vec::new();
        let mut from = fork;
        for &to in units.iter().chain([&end]) {
            links.push(self.link(from, self.reader(to)));
            from = to;
        }
        Arm { units: units.to_vec(), links }
    }

    fn routed(&self, routed: &Routed, combine: GroupId) -> RoutedNet {
        let flow = self.flow;
        let spread =
            |unit: GroupId| project(&flow.units[unit], &self.plane.tables[unit], flow, self.plane);
        let tokens = self.anchor_unit(routed.anchor);
        let end = (&tokens, &self.plane.stream);
        let routing = Table::new(&routed.routing, self.idle, self.point);
        RoutedNet {
            router: routed.router,
            dispatch: routed.dispatch,
            rows: routed.rows.clone(),
            tokens: self.stream_link(routed.anchor, end),
            routing: self.link(routed.router, (&routed.routing, &routing)),
            links: self.arm(routed.dispatch, &routed.rows, combine).links,
            router_in: self.in_stream(routed.router),
            dispatch_spread: spread(routed.dispatch),
            combine_spread: spread(combine),
        }
    }

    fn reader(&self, unit: GroupId) -> (&Unit, &Table) {
        (&self.flow.units[unit], &self.plane.tables[unit])
    }

    fn link(&self, from: GroupId, to: (&Unit, &Table)) -> Link {
        let maker = &self.flow.units[from];
        let infos: Vec<UseInfo> = maker.uses.iter().map(UseInfo::of).collect();
        let bundle = Bundle::between(self.flow.func, &self.flow.dims, &maker.outputs, &infos, to.0);
        Link::new(&bundle, (maker, &maker.outputs, &self.plane.tables[from]), to, self.point)
    }

    /// The stream, or its norm, as a group whose choices are the stream's states.
    fn anchor_unit(&self, anchor: Option<GroupId>) -> Unit {
        let mut unit = self.flow.stream.clone();
        if let Some(norm) = anchor {
            let ports: Vec<Port> = self.flow.units[norm]
                .outputs
                .iter()
                .map(|p| {
                    let of = |d: usize| unit.use_of(self.flow.dims.class(p.value, d));
                    let dims = (0..p.dims.len()).map(of).collect();
                    Port { dims, ..p.clone() }
                })
                .collect();
            unit.inputs = ports.clone();
            unit.outputs = ports;
        }
        unit
    }

    fn stream_link(&self, anchor: Option<GroupId>, to: (&Unit, &Table)) -> Link {
        let mut maker = self.anchor_unit(anchor);
        if anchor.is_none() {
            // Whatever of the stream the reader reads lies as the stream does.
            let read = |p: &&Port| matches!(p.source, super::group::Source::Residual(_));
            let values: Vec<Value> = to.0.inputs.iter().filter(read).map(|p| p.value).collect();
            let like = maker.outputs[0].clone();
            maker.outputs = values.iter().map(|&value| Port { value, ..like.clone() }).collect();
            if maker.outputs.is_empty() {
                maker.outputs = vec![like];
            }
        }
        let infos: Vec<UseInfo> = maker.uses.iter().map(UseInfo::of).collect();
        let bundle = Bundle::between(self.flow.func, &self.flow.dims, &maker.outputs, &infos, to.0);
        Link::new(&bundle, (&maker, &maker.outputs, &self.plane.stream), to, self.point)
    }

    /// A group's choice in each state of the stream: requests and tokens alike, nothing else split.
    fn in_stream(&self, group: GroupId) -> Vec<Option<State>> {
        let (unit, table) = self.reader(group);
        let stream = &self.plane.stream.lattice;
        let of = |state: State| {
            let choice = table.lattice.find(|kind| {
                let counts = stream.of_kind(state, kind);
                let of = |u: &super::unit::Use| {
                    let on = u.class.and_then(|class| self.flow.stream.use_of(class));
                    on.map_or(0, |on| counts[on])
                };
                unit.uses.iter().map(of).collect()
            });
            let same = |c: State| {
                self.flow.stream.uses.iter().enumerate().all(|(on, u)| {
                    let there = u.class.and_then(|c| unit.use_of(c));
                    stream.parts(state, on) == there.map_or(1, |t| table.lattice.parts(c, t))
                })
            };
            choice.filter(|&c| table.is_legal(c) && same(c))
        };
        (0..stream.len()).map(of).collect()
    }
}

/// The stream's state in which each choice of a group has requests and tokens.
fn project(unit: &Unit, table: &Table, flow: &Flow<'_>, plane: &Plane) -> Vec<Option<State>> {
    let of = |choice: State| {
        let find = plane.stream.lattice.find(|kind| {
            let counts = table.lattice.of_kind(choice, kind);
            let of = |u: &super::unit::Use| {
                u.class.and_then(|c| unit.use_of(c)).map_or(0, |on| counts[on])
            };
            flow.stream.uses.iter().map(of).collect()
        });
        find.filter(|_| table.is_legal(choice))
    };
    (0..table.lattice.len()).map(of).collect()
}
