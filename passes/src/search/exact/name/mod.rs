//! Axes get names: counts become a schedule on a mesh.
//!
//! Axes of a kind are interchangeable as long as each keeps its part from use to use, so counts are
//! turned into axes along the branch: a move takes axes from the minor end of where they are, prefers
//! those that the reader must have there because a weight or a cache is stored so, and leaves the
//! rest in place. Requests and tokens take free axes from the major end, everything else from the
//! minor end, so that both phases and all layers come to the same names by themselves. Where that
//! ends in an order of axes that nobody can use without one more exchange, other ways to take free
//! axes are tried, a fixed number of them, and the one with fewest such ends is kept.

mod atoms;
mod carry;
mod stored;

pub(super) use atoms::{Atom, Atoms, StoredNames, stream_axes};

use super::flow::{Branch, Flow, Node, Routed, Way};
use super::group::GroupId;
use super::moves::{Bundle, Role};
use super::net::Plane;
use super::pick::{Carry, Picked, Reader};
use super::unit::{Unit, Use};
use crate::schedule::FuncSchedule;
use atoms::{Lists, refs};
use shardc_ir::graph::{Inst, Value};
use shardc_ir::layout::Layout;
use shardc_ir::mesh::AxisRef;
use shardc_ir::ops::Op;
use std::cell::Cell;
use std::collections::BTreeMap;

/// Names the decisions for one function.
pub(super) struct Namer<'a> {
    flow: &'a Flow<'a>,
    plane: &'a Plane,
    atoms: &'a Atoms,
    /// Axes of requests and tokens in the stream.
    stream: Lists,
    stored: &'a mut StoredNames,
    /// Axes of the groups named so far.
    named: BTreeMap<GroupId, Lists>,
    /// Axes of requests and tokens as they are routed, and the ways there.
    spread: Option<(Lists, BTreeMap<Value, Vec<Layout>>)>,
    pub schedule: FuncSchedule,
    /// How free axes are taken: two bits for every time, from the lowest on.
    variant: Cell<u32>,
    /// Ends that need one more exchange.
    misfits: Cell<u32>,
}

/// Ways to take free axes that are tried for a branch.
const VARIANTS: u32 = 256;

impl<'a> Namer<'a> {
    /// A namer of a function whose stream has the given axes for requests and tokens.
    pub fn new(
        flow: &'a Flow<'a>,
        plane: &'a Plane,
        atoms: &'a Atoms,
        stream: Lists,
        stored: &'a mut StoredNames,
    ) -> Self {
        let mut namer = Namer {
            flow,
            plane,
            atoms,
            stream,
            stored,
            named: BTreeMap::new(),
            spread: None,
            schedule: FuncSchedule::default(),
            variant: Cell::new(0),
            misfits: Cell::new(0),
        };
        namer.enter_stream();
        namer
    }

    /// Ends that need one more exchange than was counted.
    pub fn misfits(&self) -> u32 {
        self.misfits.get()
    }

    /// Names what was picked for a branch, in the way that fits best.
    pub fn branch(&mut self, branch: &Branch, picked: &Picked) {
        let before = (self.stored.clone(), self.named.clone(), self.schedule.clone());
        let counted = self.misfits.get();
        let mut best: Option<(u32, u32)> = None;
        for variant in 0..VARIANTS {
            let left = self.attempt(branch, picked, variant, counted);
            let misfits = self.misfits.get();
            if best.is_none_or(|(m, _)| misfits < m) {
                best = Some((misfits, variant));
            }
            (*self.stored, self.named, self.schedule) = before.clone();
            // Bits that nobody asked for make no difference.
            if misfits == counted || left > 0 {
                break;
            }
        }
        let variant = best.map_or(0, |(_, v)| v);
        self.attempt(branch, picked, variant, counted);
    }

    /// One way to name a branch; the bits of the variant that were not used.
    fn attempt(&mut self, branch: &Branch, picked: &Picked, variant: u32, counted: u32) -> u32 {
        self.variant.set(variant);
        self.misfits.set(counted);
        self.try_branch(branch, picked);
        self.variant.get()
    }

    /// The next decision on how free axes are taken: from the other end, and in the other order.
    fn decide(&self) -> (bool, bool) {
        let bits = self.variant.get();
        self.variant.set(bits >> 2);
        (bits & 1 == 1, bits & 2 == 2)
    }

    fn misfit(&self, is: bool) {
        self.misfits.set(self.misfits.get() + u32::from(is));
    }

    /// The layout of the carried parameter, and of all sums with the stream.
    fn enter_stream(&mut self) {
        let x = self.flow.stream.outputs[0].value;
        if self.flow.func.params.contains(&x) {
            let dims = self.flow.stream.outputs[0].dims.iter();
            let dims = dims.map(|on| on.map_or(Vec::new(), |on| refs(&self.stream[on])));
            let layout = Layout { dims: dims.collect(), unreduced: Vec::new() };
            self.schedule.params.insert(x, layout);
        }
        let lists = self.stream.clone();
        for &(inst, ..) in &self.flow.groups.joins {
            let assignment = self.flow.stream.assignment(
                self.flow.func,
                &self.flow.dims,
                inst,
                &refs_of(&lists),
            );
            self.schedule.assignments.insert(inst, assignment);
        }
    }

    fn try_branch(&mut self, branch: &Branch, picked: &Picked) {
        for &norm in &branch.anchors {
            let lists = self.like(&self.flow.units[norm], &self.stream.clone());
            self.settle(norm, lists);
        }
        self.spread(branch, picked);
        let mut groups: Vec<GroupId> = picked.choices.keys().copied().collect();
        groups.retain(|g| !self.named.contains_key(g));
        for group in groups {
            let mut lists = self.as_spread(branch, group);
            let to = Reader::Group(group);
            for carry in picked.carries.iter().filter(|c| c.to == to) {
                self.feed(group, picked, carry, &mut lists);
            }
            self.complete(group, picked, lists);
        }
        for carry in picked.carries.iter().filter(|c| c.to == Reader::End) {
            let wants = self.wants_of_stream(&carry.bundle);
            let (end, ways) = self.carry(carry, &wants, &[]);
            for (axes, want) in end.iter().zip(&wants) {
                self.misfit(want.as_ref().is_some_and(|w| branch.joins() && w != axes));
            }
            for (value, layouts) in ways {
                for (inst, position) in self.ends(branch, value) {
                    self.schedule.ways.insert((inst, position), layouts.clone());
                }
            }
        }
    }

    /// What dispatch and combine take from how tokens are spread.
    fn as_spread(&mut self, branch: &Branch, group: GroupId) -> BTreeMap<usize, Vec<Atom>> {
        let mut lists = BTreeMap::new();
        let (Some((tokens, _)), Some(routed)) = (&self.spread, routed(&branch.root)) else {
            return lists;
        };
        if group != routed.dispatch && group != branch_combine(&branch.root) {
            return lists;
        }
        for (i, on) in self.flow.stream.uses.iter().enumerate() {
            let here = on.class.and_then(|c| self.flow.units[group].use_of(c));
            lists.extend(here.map(|h| (h, tokens[i].clone())));
        }
        if group == routed.dispatch {
            self.record_spread_ways(group);
        }
        lists
    }

    /// Who takes the result of a branch: a sum with the stream, or the layers.
    fn ends(&self, branch: &Branch, value: Value) -> Vec<(Inst, usize)> {
        let func = self.flow.func;
        let takes = |inst: &Inst| {
            let joins = self.flow.groups.joins.iter().any(|j| j.0 == *inst && j.2 == branch.result);
            joins || matches!(func.insts[*inst].op, Op::Repeat(_))
        };
        let takers = func.body.iter().copied().filter(takes);
        takers
            .flat_map(|inst| positions(&func.insts[inst].operands, value).map(move |p| (inst, p)))
            .collect()
    }

    /// Names how tokens are spread, the router and the ways of its results.
    fn spread(&mut self, branch: &Branch, picked: &Picked) {
        let Some((_, early)) = picked.spread else { return };
        let to_spread = picked.carries.iter().find(|c| c.to == Reader::Spread);
        let Some(carry) = to_spread else { return };
        let (end, ways) = self.carry(carry, &vec![None; carry.bundle.roles.len()], &[]);
        let lists = self.flow.stream.uses.iter().map(|on| {
            let role = on.class.and_then(|c| carry.bundle.role_of(c));
            role.map_or(Vec::new(), |r| end[r].clone())
        });
        let lists: Lists = lists.collect();
        self.spread = Some((lists.clone(), ways));
        let Some(routed) = routed(&branch.root) else { return };
        let tokens = if early { self.stream.clone() } else { lists.clone() };
        let names = self.like(&self.flow.units[routed.router], &tokens);
        if !early {
            self.record_spread_ways(routed.router);
        }
        self.settle(routed.router, names);
        let Some(carry) = picked.carries.iter().find(|c| c.to == Reader::Routing) else { return };
        let wants: Vec<Option<Vec<Atom>>> =
            carry
                .bundle
                .roles
                .iter()
                .map(|role| match role {
                    Role::Split(class) => {
                        let at =
                            self.flow.stream.uses.iter().position(|u| {
                                self.same_dim(routed.routing.uses.as_slice(), u, *class)
                            });
                        at.map(|i| lists[i].clone())
                    }
                    Role::Pending => None,
                })
                .collect();
        let (_, ways) = self.carry(carry, &wants, &[]);
        for group in [routed.dispatch, branch_combine(&branch.root)] {
            self.record_ways(group, &ways);
        }
    }

    /// Whether a use of the stream is that of `class` among others in the same place.
    fn same_dim(&self, uses: &[Use], on: &Use, class: usize) -> bool {
        on.class == Some(class)
            || uses
                .iter()
                .zip(&self.flow.stream.uses)
                .any(|(u, s)| u.class == Some(class) && s.class == on.class)
    }

    /// The ways of values as tokens are spread, for a group that reads them so.
    fn record_spread_ways(&mut self, group: GroupId) {
        let ways = self.spread.as_ref().map(|s| s.1.clone()).unwrap_or_default();
        self.record_ways(group, &ways);
    }

    fn record_ways(&mut self, group: GroupId, ways: &BTreeMap<Value, Vec<Layout>>) {
        for &inst in &self.flow.units[group].insts {
            let operands = &self.flow.func.insts[inst].operands;
            for (value, layouts) in ways.iter().filter(|w| !w.1.is_empty()) {
                for position in positions(operands, *value) {
                    self.schedule.ways.insert((inst, position), layouts.clone());
                }
            }
        }
    }

    /// Requests and tokens of a group as they are in `tokens`, nothing else.
    fn like(&self, unit: &Unit, tokens: &Lists) -> Lists {
        let of = |on: &Use| {
            let at = on.class.and_then(|class| self.flow.stream.use_of(class));
            at.map_or(Vec::new(), |i| tokens[i].clone())
        };
        unit.uses.iter().map(of).collect()
    }

    fn wants_of_stream(&self, bundle: &Bundle) -> Vec<Option<Vec<Atom>>> {
        let want = |role: &Role| match role {
            Role::Split(class) => {
                let at = self.flow.stream.use_of(*class);
                Some(at.map_or(Vec::new(), |i| self.stream[i].clone()))
            }
            Role::Pending => None,
        };
        bundle.roles.iter().map(want).collect()
    }

    /// Follows a bundle to a group; its axes at the end are the group's.
    fn feed(
        &mut self,
        group: GroupId,
        picked: &Picked,
        carry: &Carry,
        lists: &mut BTreeMap<usize, Vec<Atom>>,
    ) {
        let unit = &self.flow.units[group];
        let fixed = self.fixed(group, picked);
        let want = |role: &Role| match role {
            Role::Split(class) => {
                let on = unit.use_of(*class)?;
                fixed.get(&on).or_else(|| lists.get(&on)).cloned()
            }
            Role::Pending => lists.get(&unit.passing()?).cloned(),
        };
        let wants: Vec<Option<Vec<Atom>>> = carry.bundle.roles.iter().map(want).collect();
        let reserved: Vec<Atom> = fixed.values().flatten().copied().collect();
        let (end, ways) = self.carry(carry, &wants, &reserved);
        for (role, axes) in carry.bundle.roles.iter().zip(end) {
            let on = match role {
                Role::Split(class) => unit.use_of(*class),
                Role::Pending => unit.passing(),
            };
            if let Some(on) = on {
                let known = fixed.get(&on).or_else(|| lists.get(&on));
                self.misfit(known.is_some_and(|k| *k != axes));
                lists.entry(on).or_insert(axes);
            }
        }
        self.record_ways(group, &ways);
    }
}

fn refs_of(lists: &Lists) -> Vec<Vec<AxisRef>> {
    lists.iter().map(|l| refs(l)).collect()
}

/// Where `value` stands among operands.
fn positions(operands: &[Value], value: Value) -> impl Iterator<Item = usize> + use<'_> {
    operands.iter().enumerate().filter(move |(_, v)| **v == value).map(|(i, _)| i)
}

/// The routed experts of a tree.
fn routed(node: &Node) -> Option<&Routed> {
    match &node.way {
        Way::Routed(routed) => Some(routed),
        Way::Step(from) | Way::Fork(from, _) => routed(from),
        Way::Meet(parts) => parts.iter().find_map(routed),
        Way::Start(_) | Way::Free => None,
    }
}

/// The combine of a tree with routed experts.
fn branch_combine(node: &Node) -> GroupId {
    match &node.way {
        Way::Routed(_) => node.unit,
        Way::Step(from) | Way::Fork(from, _) => branch_combine(from),
        Way::Meet(parts) => {
            let found = parts.iter().find(|p| routed(p).is_some());
            found.map_or(node.unit, branch_combine)
        }
        Way::Start(_) | Way::Free => node.unit,
    }
}
