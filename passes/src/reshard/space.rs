//! The states a reshard passes through, packed small, and what can be read off one: its local
//! size, whether it is legal, and the fewest bytes that still have to be received.

use super::bound::{bytes, receive_bound, ring_bound};
use super::thin::{Held, is_thin};
use super::units::{Atom, Unit, list_atoms};
use shardc_ir::layout::{Layout, Partial, local_extent, primes};
use shardc_ir::mesh::Mesh;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Dimensions that a state can describe.
pub const MAX_DIMS: usize = 8;

/// Units that a state can describe.
pub const MAX_UNITS: usize = 15;

/// A layout in units, or (with `hub`) the meeting point of all layouts that a permute connects.
///
/// Each dimension is a stack of four-bit entries, the minor end lowest: unit number plus one. In a
/// hub the entries are numbers of primes, sorted where the dimension splits evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Stacks of units.
    pub dims: [u64; MAX_DIMS],
    /// Units that pend, as bits.
    pub pending: u16,
    /// Whether this is a meeting point.
    pub hub: bool,
}

/// Hub entries by dimension and order of primes.
pub type Orders = BTreeMap<(usize, Vec<u64>), Option<u64>>;

/// One reshard in units.
#[derive(Debug)]
pub struct Space<'a> {
    /// The mesh.
    pub mesh: &'a Mesh,
    /// The units.
    pub units: Vec<Unit>,
    /// The tensor's dimension behind each dimension of a state.
    pub dims: Vec<usize>,
    /// Extents of the state's dimensions.
    pub extents: Vec<u64>,
    /// Rank of the tensor.
    pub rank: usize,
    /// Product of the extents that no state dimension covers.
    pub fixed: u64,
    /// Bits per element.
    pub bits: u64,
    /// The target.
    pub goal: State,
    /// Pending units grouped by kind, innermost first.
    pub kinds: Vec<(Partial, u16)>,
    /// The different primes of the mesh, in the order of their numbers in hubs.
    pub primes: Vec<u64>,
    /// Hub entries found for orders of primes that split a dimension unevenly.
    pub orders: RefCell<Orders>,
    /// Whether layouts that differ can hold the same; what is missing is then counted device by
    /// device, and permutes lead straight from layout to layout.
    pub thin: bool,
    /// What devices hold, in a thin space.
    pub held: Held,
    /// Bits of the whole tensor.
    total_bits: u128,
    /// Parts of the goal per dimension.
    goal_parts: [u64; MAX_DIMS],
    /// Parts of the goal.
    goal_shards: u64,
}

impl State {
    const EMPTY: State = State { dims: [0; MAX_DIMS], pending: 0, hub: false };

    /// Units of dimension `dim`, minor first.
    pub fn stack(&self, dim: usize) -> impl Iterator<Item = usize> {
        let mut rest = self.dims[dim];
        std::iter::from_fn(move || {
            let top = (rest & 15) as usize;
            rest >>= 4;
            top.checked_sub(1)
        })
    }

    /// Appends a unit at the minor end.
    pub fn push(&mut self, dim: usize, unit: usize) {
        self.dims[dim] = self.dims[dim] << 4 | (unit as u64 + 1);
    }

    /// Moves the `count` minor units of `src` to `tgt`, in order.
    pub fn transfer(&mut self, src: usize, tgt: usize, count: u32) {
        let moved = self.dims[src] & ((1 << (4 * count)) - 1);
        self.dims[src] >>= 4 * count;
        self.dims[tgt] = self.dims[tgt] << (4 * count) | moved;
    }

    /// Units in use, as bits: those that split a dimension or pend.
    pub fn used(&self) -> u16 {
        let stacks = (0..MAX_DIMS).flat_map(|dim| self.stack(dim));
        stacks.fold(self.pending, |bits, unit| bits | 1 << unit)
    }
}

impl<'a> Space<'a> {
    /// The space of a reshard to `to`, or `None` if it does not fit the packed form.
    ///
    /// `from` only decides which dimensions matter and what pends.
    pub fn new(
        mesh: &'a Mesh,
        units: Vec<Unit>,
        extents: &[u64],
        bits: u64,
        from: &Layout,
        to: &Layout,
    ) -> Option<Self> {
        let dims = state_dims(extents, from, to)?;
        let all: u64 = mesh.devices();
        let mut distinct = primes(all);
        if units.len() > MAX_UNITS || distinct.len() > 16 {
            return None;
        }
        distinct.dedup();
        let rest = (0..extents.len()).filter(|d| !dims.contains(d)).map(|d| extents[d]);
        let elements = extents.iter().fold(1, |n: u128, &e| n.saturating_mul(u128::from(e)));
        let mut space = Space {
            mesh,
            extents: dims.iter().map(|&d| extents[d]).collect(),
            rank: extents.len(),
            fixed: rest.fold(1, u64::saturating_mul),
            bits,
            goal: State::EMPTY,
            kinds: Vec::new(),
            primes: distinct,
            orders: RefCell::default(),
            thin: is_thin(mesh, extents, [from, to]),
            held: Held::default(),
            total_bits: elements.saturating_mul(u128::from(bits)),
            goal_parts: [1; MAX_DIMS],
            goal_shards: 1,
            units,
            dims,
        };
        space.goal = space.state(to)?;
        let goal = space.goal;
        space.goal_parts = std::array::from_fn(|dim| space.parts(&goal, dim));
        space.goal_shards = space.goal_parts.iter().fold(1, |n, &p| n.saturating_mul(p));
        let kinds = from.unreduced.iter().map(|p| (p.clone(), space.pending_bits(&p.axes)));
        space.kinds = kinds.collect();
        Some(space)
    }

    /// The state of a layout, if units express it.
    pub fn state(&self, layout: &Layout) -> Option<State> {
        let mut state = State::EMPTY;
        let atoms: Vec<Atom> = self.units.iter().flat_map(|u| &u.atoms).copied().collect();
        for (at, &dim) in self.dims.iter().enumerate() {
            let list = list_atoms(self.mesh, &atoms, &layout.dims[dim]);
            let mut rest = list.as_slice();
            while let Some(first) = rest.first() {
                let unit = self.units.iter().position(|u| u.atoms[0] == *first)?;
                rest = rest.strip_prefix(self.units[unit].atoms.as_slice())?;
                state.push(at, unit);
            }
        }
        state.pending = self.pending_bits(&layout.unreduced_axes());
        let seen = self.layout(&state).shards(self.mesh) == layout.shards(self.mesh);
        let pends = self.mesh.size_of(&layout.unreduced_axes());
        (seen && pends == self.size_of_bits(state.pending)).then_some(state)
    }

    /// The layout of a state, in normal form.
    pub fn layout(&self, state: &State) -> Layout {
        let mut dims = vec![Vec::new(); self.rank];
        for (at, &dim) in self.dims.iter().enumerate() {
            let mut units: Vec<usize> = state.stack(at).collect();
            units.reverse();
            dims[dim] = units.iter().flat_map(|&u| &self.units[u].atoms).copied().collect();
        }
        let pending = self.kinds.iter().map(|(partial, bits)| Partial {
            kind: partial.kind,
            axes: self.atoms_of(bits & state.pending),
        });
        Layout { dims, unreduced: pending.collect() }.normalise(self.mesh)
    }

    /// The atoms of a set of units.
    pub fn atoms_of(&self, bits: u16) -> Vec<Atom> {
        let chosen = self.units.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
        chosen.flat_map(|(_, unit)| &unit.atoms).copied().collect()
    }

    /// Devices along a set of units.
    pub fn size_of_bits(&self, bits: u16) -> u64 {
        let chosen = self.units.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
        chosen.fold(1, |n, (_, unit)| n * unit.size)
    }

    /// Parts of dimension `dim`.
    pub fn parts(&self, state: &State, dim: usize) -> u64 {
        if state.hub {
            return state.stack(dim).fold(1, |n, p| n * self.primes[p]);
        }
        state.stack(dim).fold(1, |n, unit| n * self.units[unit].size)
    }

    /// The entry of a hub's dimension for `primes`, major first.
    pub fn pack_primes(&self, primes: &[u64]) -> Option<u64> {
        let number = |p: &u64| self.primes.iter().position(|q| q == p).map(|i| i as u64 + 1);
        primes.iter().try_fold(0, |entry, p| Some(entry << 4 | number(p)?))
    }

    /// Padded local elements.
    pub fn elements(&self, state: &State) -> u64 {
        let local = |dim| local_extent(self.extents[dim], self.parts(state, dim));
        (0..self.dims.len()).map(local).fold(self.fixed, u64::saturating_mul)
    }

    /// Padded local bytes of that many elements.
    pub fn bytes(&self, elements: u64) -> u64 {
        bytes(elements, self.bits)
    }

    /// Whether the minor unit of `dim` may sit there.
    pub fn legal(&self, state: &State, dim: usize) -> bool {
        let Some(unit) = state.stack(dim).next().map(|u| &self.units[u]) else { return true };
        let before = self.parts(state, dim) / unit.size;
        unit.even == 1 || self.extents[dim].is_multiple_of(before.saturating_mul(unit.even))
    }

    /// Fewest bytes that the worst device receives on any way from `state` to the goal.
    pub fn lower_bound(&self, state: &State) -> u64 {
        let done = state.pending & !self.goal.pending;
        if done != 0 {
            let kept = self.size_of_bits(state.pending & self.goal.pending);
            let group = self.size_of_bits(done);
            return ring_bound(
                self.total_bits,
                group,
                self.mesh.devices() / kept,
                self.goal_shards,
            );
        }
        if self.thin {
            return if state.hub { 0 } else { bytes(self.missing(state), self.bits) };
        }
        let mut joint: Option<u64> = Some(1);
        for dim in 0..self.dims.len() {
            let nested = if state.hub {
                self.could_nest(state, dim)
            } else {
                nests(state.dims[dim], self.goal.dims[dim])
            };
            let parts = self.parts(state, dim).max(self.goal_parts[dim]);
            joint = joint.filter(|_| nested).map(|n| n.saturating_mul(parts));
        }
        receive_bound(self.total_bits, self.goal_shards, joint)
    }

    /// [`lower_bound`](Self::lower_bound) of a state that does not nest with the goal.
    pub fn far_bound(&self) -> u64 {
        receive_bound(self.total_bits, self.goal_shards, None)
    }

    /// Whether some layout of a hub could nest with the goal in `dim`.
    fn could_nest(&self, hub: &State, dim: usize) -> bool {
        let (a, b) = (self.parts(hub, dim), self.goal_parts[dim]);
        a.is_multiple_of(b) || b.is_multiple_of(a)
    }

    fn pending_bits(&self, axes: &[Atom]) -> u16 {
        let atoms: Vec<Atom> = self.units.iter().flat_map(|u| &u.atoms).copied().collect();
        let pending = list_atoms(self.mesh, &atoms, axes);
        let inside = |unit: &Unit| unit.atoms.iter().all(|a| pending.contains(a));
        let each = self.units.iter().enumerate();
        each.fold(0, |bits, (i, unit)| bits | u16::from(inside(unit)) << i)
    }
}

/// Whether one stack is the major part of the other.
pub fn nests(a: u64, b: u64) -> bool {
    let depth = |s: u64| (u64::BITS - s.leading_zeros()).div_ceil(4);
    let (da, db) = (depth(a), depth(b));
    if da <= db { b >> (4 * (db - da)) == a } else { a >> (4 * (da - db)) == b }
}

/// The dimensions that states describe: all that a layout splits, then others from the largest
/// extent down, in order.
fn state_dims(extents: &[u64], from: &Layout, to: &Layout) -> Option<Vec<usize>> {
    let split = |&d: &usize| !from.dims[d].is_empty() || !to.dims[d].is_empty();
    let mut dims: Vec<usize> = (0..extents.len()).filter(split).collect();
    if dims.len() > MAX_DIMS {
        return None;
    }
    let mut others: Vec<usize> =
        (0..extents.len()).filter(|d| !split(d) && extents[*d] > 1).collect();
    others.sort_by_key(|&d| std::cmp::Reverse(extents[d]));
    dims.extend(others.into_iter().take(MAX_DIMS - dims.len()));
    dims.sort_unstable();
    Some(dims)
}
