//! The steps out of a state.

use super::op::OpKind;
use super::space::{Space, State, nests};
use shardc_ir::layout::local_extent;

/// A step in units: what it is, whose devices take part, where it leads.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The collective.
    pub kind: OpKind,
    /// Units whose devices take part, as bits; none for a permute.
    pub group: u16,
    /// The state after the step.
    pub next: State,
}

/// Calls `visit` with every step out of `state`.
///
/// A permute takes two edges: from a layout to the hub of all layouts with the same parts per
/// dimension, which is priced, and from the hub to each of them, which is free; in a thin space it
/// takes one, as its price depends on both ends. Slices and reduce-scatters go one unit at a time;
/// neighbouring ones are fused afterwards. With `nested`, a hub only leads to layouts whose every
/// dimension nests with the goal's.
pub fn edges(space: &Space<'_>, state: &State, nested: bool, visit: &mut impl FnMut(Edge)) {
    if state.hub {
        Arrangements { space, hub: state, nested, visit }
            .fill(0, State { dims: [0; 8], hub: false, ..*state });
        return;
    }
    gathers(space, state, 0, 0, state, visit);
    slices(space, state, visit);
    exchanges(space, state, Exchange { next: *state, group: 0, touched: 0 }, 0, visit);
    reductions(space, state, visit);
    match hub_of(space, state) {
        Some(hub) if space.thin => permutes(space, state, &hub, visit),
        Some(next) => visit(Edge { kind: OpKind::CollectivePermute, group: 0, next }),
        None => {}
    }
}

/// All gathers of minor units from the dimensions `dim..`, in one step.
fn gathers(
    space: &Space<'_>,
    state: &State,
    dim: usize,
    group: u16,
    next: &State,
    visit: &mut impl FnMut(Edge),
) {
    if dim == space.dims.len() {
        if group != 0 {
            visit(Edge { kind: OpKind::AllGather, group, next: *next });
        }
        return;
    }
    gathers(space, state, dim + 1, group, next, visit);
    let (mut next, mut group) = (*next, group);
    for unit in state.stack(dim) {
        next.dims[dim] >>= 4;
        group |= 1 << unit;
        gathers(space, state, dim + 1, group, &next, visit);
    }
}

fn slices(space: &Space<'_>, state: &State, visit: &mut impl FnMut(Edge)) {
    let used = state.used();
    for unit in (0..space.units.len()).filter(|u| used >> u & 1 == 0) {
        if has_spare_twin(space, unit, used) {
            continue;
        }
        append_everywhere(space, state, unit, OpKind::AllSlice, visit);
    }
}

/// Whether an equal spare unit with a lower number is free too; slicing by either is alike.
fn has_spare_twin(space: &Space<'_>, unit: usize, used: u16) -> bool {
    let twin = |other: usize| {
        let (a, b) = (&space.units[unit], &space.units[other]);
        used >> other & 1 == 0 && a.spare && b.spare && a.size == b.size && a.even == b.even
    };
    (0..unit).any(twin)
}

fn append_everywhere(
    space: &Space<'_>,
    state: &State,
    unit: usize,
    kind: OpKind,
    visit: &mut impl FnMut(Edge),
) {
    for dim in 0..space.dims.len() {
        let mut next = *state;
        next.pending &= !(1 << unit);
        next.push(dim, unit);
        if space.legal(&next, dim) {
            visit(Edge { kind, group: 1 << unit, next });
        }
    }
}

#[derive(Clone, Copy)]
struct Exchange {
    next: State,
    group: u16,
    touched: u16,
}

/// All exchanges that move minor units between disjoint pairs of dimensions, sources ascending.
fn exchanges(
    space: &Space<'_>,
    state: &State,
    so_far: Exchange,
    first: usize,
    visit: &mut impl FnMut(Edge),
) {
    let rank = space.dims.len();
    for src in (first..rank).filter(|&d| so_far.touched >> d & 1 == 0 && state.dims[d] != 0) {
        for tgt in (0..rank).filter(|&d| d != src && so_far.touched >> d & 1 == 0) {
            let mut group = so_far.group;
            for (count, unit) in state.stack(src).enumerate() {
                group |= 1 << unit;
                let mut next = so_far.next;
                next.transfer(src, tgt, count as u32 + 1);
                if !tail_legal(space, &next, tgt, count as u32 + 1) {
                    continue;
                }
                visit(Edge { kind: OpKind::AllToAll, group, next });
                let touched = so_far.touched | 1 << src | 1 << tgt;
                exchanges(space, state, Exchange { next, group, touched }, src + 1, visit);
            }
        }
    }
}

/// Whether each of the `count` minor units of `dim` may sit there.
fn tail_legal(space: &Space<'_>, state: &State, dim: usize, count: u32) -> bool {
    let mut shorter = *state;
    (0..count).all(|_| {
        let legal = space.legal(&shorter, dim);
        shorter.dims[dim] >>= 4;
        legal
    })
}

/// Completes units of the innermost pending kind: any of them everywhere, or one into a dimension.
fn reductions(space: &Space<'_>, state: &State, visit: &mut impl FnMut(Edge)) {
    let kinds = space.kinds.iter().map(|(_, bits)| bits & state.pending);
    let Some(innermost) = kinds.into_iter().find(|&bits| bits != 0) else { return };
    let done = innermost & !space.goal.pending;
    for unit in (0..space.units.len()).filter(|u| done >> u & 1 == 1) {
        append_everywhere(space, state, unit, OpKind::ReduceScatter, visit);
    }
    for group in reduced_sets(space, done) {
        let next = State { pending: state.pending & !group, ..*state };
        visit(Edge { kind: OpKind::AllReduce, group, next });
    }
}

/// The sets of units that one all-reduce may complete: all subsets of a few, else everything or
/// everything that the goal does not split by.
fn reduced_sets(space: &Space<'_>, done: u16) -> Vec<u16> {
    if done.count_ones() <= 4 {
        let next = |&group: &u16| Some((group - 1) & done).filter(|&g| g != 0);
        return std::iter::successors(Some(done).filter(|&d| d != 0), next).collect();
    }
    let mut sets = vec![done, done & !space.goal.used()];
    sets.dedup();
    sets.retain(|&set| set != 0);
    sets
}

/// All permutes out of `state`, whose hub is given.
fn permutes(space: &Space<'_>, state: &State, hub: &State, visit: &mut impl FnMut(Edge)) {
    let mut other = |edge: Edge| {
        if edge.next != *state {
            visit(edge);
        }
    };
    Arrangements { space, hub, nested: false, visit: &mut other }
        .fill(0, State { dims: [0; 8], hub: false, ..*hub });
}

/// The meeting point of all layouts that a permute reaches, or `None` where the dimensions have
/// too many primes to name it.
///
/// Where a dimension does not split evenly its parts depend on the order of the primes, so that
/// only layouts with equal parts meet.
pub fn hub_of(space: &Space<'_>, state: &State) -> Option<State> {
    let mut hub = State { dims: [0; 8], hub: true, ..*state };
    let mut primes = Vec::new();
    for dim in 0..space.dims.len() {
        primes.clear();
        primes.extend(
            state
                .stack(dim)
                .flat_map(|unit| space.units[unit].atoms.iter().rev().map(|a| a.size(space.mesh))),
        );
        primes.reverse();
        hub.dims[dim] = hub_entry(space, dim, &primes)?;
    }
    Some(hub)
}

/// A hub's entry for dimension `dim` split by `primes`: the first order of those primes, largest
/// first where it can be, that cuts the dimension into the same parts.
pub fn hub_entry(space: &Space<'_>, dim: usize, primes: &[u64]) -> Option<u64> {
    let mut sorted = primes.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    if sorted.len() > 16 {
        return None;
    }
    let extent = space.extents[dim];
    if extent.is_multiple_of(primes.iter().product()) || sorted == primes {
        return space.pack_primes(&sorted);
    }
    let key = (dim, primes.to_vec());
    if let Some(entry) = space.orders.borrow().get(&key) {
        return *entry;
    }
    let alike = |order: &[u64]| same_parts(extent, primes, order);
    let order = if primes.iter().product::<u64>() <= MAX_ORDERED {
        first_order(sorted, Vec::new(), &alike)
    } else {
        None
    };
    let entry = space.pack_primes(&order.unwrap_or_else(|| primes.to_vec()));
    space.orders.borrow_mut().insert(key, entry);
    entry
}

/// Parts of one unevenly split dimension up to which the orders of its primes are compared; beyond,
/// each order is taken to cut differently.
const MAX_ORDERED: u64 = 1024;

/// The first order of `left`, appended to `chosen`, that `alike` accepts.
fn first_order(
    left: Vec<u64>,
    chosen: Vec<u64>,
    alike: &impl Fn(&[u64]) -> bool,
) -> Option<Vec<u64>> {
    if left.is_empty() {
        return alike(&chosen).then_some(chosen);
    }
    let fresh = |&i: &usize| i == 0 || left[i] != left[i - 1];
    (0..left.len()).filter(fresh).find_map(|i| {
        let (mut rest, mut longer) = (left.clone(), chosen.clone());
        longer.push(rest.remove(i));
        first_order(rest, longer, alike)
    })
}

/// Whether two orders of the same primes cut a dimension into the same parts.
pub fn same_parts(extent: u64, a: &[u64], b: &[u64]) -> bool {
    let shards: u64 = a.iter().product();
    if extent.is_multiple_of(shards) || a == b {
        return true;
    }
    let shape = |primes: &[u64]| {
        primes.iter().fold(vec![extent], |parts: Vec<u64>, &p| {
            let split = |n: u64| (0..p).map(move |i| n / p + u64::from(i < n % p));
            parts.into_iter().flat_map(split).collect()
        })
    };
    local_extent(extent, shards) > 0 && shape(a) == shape(b)
}

/// Enumerates the layouts of a hub.
struct Arrangements<'s, F> {
    space: &'s Space<'s>,
    hub: &'s State,
    nested: bool,
    visit: &'s mut F,
}

impl<F: FnMut(Edge)> Arrangements<'_, F> {
    fn fill(&mut self, dim: usize, state: State) {
        if dim == self.space.dims.len() {
            (self.visit)(Edge { kind: OpKind::CollectivePermute, group: 0, next: state });
            return;
        }
        let wanted = self.space.parts(self.hub, dim);
        self.stack(dim, state, wanted);
    }

    /// Extends dimension `dim` of `state` by units that make up `wanted` more parts.
    fn stack(&mut self, dim: usize, state: State, wanted: u64) {
        if wanted == 1 {
            if self.meets(dim, &state) {
                self.fill(dim + 1, state);
            }
            return;
        }
        let used = state.used();
        for unit in 0..self.space.units.len() {
            let size = self.space.units[unit].size;
            if used >> unit & 1 == 1 || !wanted.is_multiple_of(size) {
                continue;
            }
            if has_spare_twin(self.space, unit, used) {
                continue;
            }
            let mut next = state;
            next.push(dim, unit);
            let nests = !self.nested || nests(next.dims[dim], self.space.goal.dims[dim]);
            if nests && self.space.legal(&next, dim) {
                self.stack(dim, next, wanted / size);
            }
        }
    }

    /// Whether the dimension's parts are the hub's.
    fn meets(&self, dim: usize, state: &State) -> bool {
        let extent = self.space.extents[dim];
        if extent.is_multiple_of(self.space.parts(self.hub, dim)) {
            return true;
        }
        let mut one = State { dims: [0; 8], pending: 0, hub: false };
        one.dims[dim] = state.dims[dim];
        hub_of(self.space, &one).is_some_and(|h| h.dims[dim] == self.hub.dims[dim])
    }
}
