//! The devices of a pipeline stage as interchangeable axes, and what a lattice of their uses is.
//!
//! A stage is a product of axes, prime ones inside the node and at most two across nodes. Axes of
//! one level and size are alike, so a layout is known, up to the names of axes, by *how many* of each
//! kind are put to each use. A [`Lattice`] numbers those counts.

use shardc_cost::collective::Group;
use shardc_ir::layout::primes;
use std::collections::BTreeMap;

/// Axes that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AxisKind {
    /// Devices along one axis: a prime inside a node.
    pub size: u64,
    /// How many there are.
    pub count: u8,
    /// Whether neighbours along it stand in different nodes.
    pub across: bool,
}

impl AxisKind {
    /// Most axes of the kind that can split `extent`, evenly if `even`.
    pub fn most(&self, extent: u64, even: bool) -> u8 {
        let fits = |n: &u8| {
            let parts = self.size.saturating_pow(u32::from(*n));
            if even { extent.is_multiple_of(parts) } else { parts <= extent.max(1) }
        };
        (0..=self.count).rev().find(fits).unwrap_or(0)
    }
}

/// Most axes across nodes.
const ACROSS: usize = 2;

/// The axes over so many nodes: one for each prime, or two of which one splits the requests as far
/// as nodes do.
fn bundled(nodes: u64, replicas: u64) -> Vec<u64> {
    let primes = primes(nodes);
    if primes.len() <= ACROSS {
        return primes;
    }
    let split = replicas.min(nodes);
    let split = (1..=split).rev().find(|n| nodes.is_multiple_of(*n) && replicas.is_multiple_of(*n));
    let first = match split.unwrap_or(1) {
        // All or none of the nodes split requests: as near to halves as can be.
        n if n == 1 || n == nodes => {
            let half = (1..=nodes).find(|n| nodes.is_multiple_of(*n) && n * n >= nodes);
            half.unwrap_or(nodes)
        }
        n => n,
    };
    vec![first, nodes / first]
}

/// The axes of one stage, those across nodes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axes {
    pub kinds: Vec<AxisKind>,
    /// Devices of the stage.
    pub devices: u64,
}

impl Axes {
    /// The axes of `devices` devices in nodes of `node`, whose requests are split `replicas` ways;
    /// `None` where a stage would straddle nodes unevenly.
    pub fn of_stage(devices: u64, node: u64, replicas: u64) -> Option<Self> {
        let (large, small) = (devices.max(node), devices.min(node));
        if small == 0 || !large.is_multiple_of(small) {
            return None;
        }
        let mut kinds: Vec<AxisKind> = Vec::new();
        let nodes = bundled(devices / small, replicas);
        let inside = primes(small).into_iter().map(|size| (size, false));
        for (size, across) in nodes.into_iter().map(|size| (size, true)).chain(inside) {
            match kinds.iter_mut().find(|k| k.size == size && k.across == across) {
                Some(kind) => kind.count += 1,
                None => kinds.push(AxisKind { size, count: 1, across }),
            }
        }
        Some(Axes { kinds, devices })
    }

    /// The devices along so many axes of each kind.
    pub fn group(&self, counts: impl IntoIterator<Item = u8>) -> Group {
        let (mut inside, mut nodes) = (1, 1);
        for (kind, count) in self.kinds.iter().zip(counts) {
            let size = kind.size.saturating_pow(u32::from(count));
            if kind.across { nodes *= size } else { inside *= size }
        }
        if nodes <= 1 { Group::in_node(inside) } else { Group::across(inside, nodes) }
    }
}

/// How many axes of each kind split each dimension of a value.
pub(super) type Key = u128;

/// A number of a state in its lattice.
pub(super) type State = usize;

/// All ways to put the axes of a stage to a fixed list of uses, at most so many of a kind to each;
/// axes left over are idle, that is they replicate.
#[derive(Clone, Debug)]
pub(super) struct Lattice {
    kinds: Vec<AxisKind>,
    uses: usize,
    /// Per kind, the counts by use of each way.
    ways: Vec<Ways>,
    strides: Vec<usize>,
    len: usize,
    /// Devices along each use, state by state.
    parts: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Ways {
    counts: Vec<Vec<u8>>,
    number: BTreeMap<Vec<u8>, usize>,
}

impl Ways {
    fn new(count: u8, caps: &[u8]) -> Self {
        let mut ways = Ways::default();
        ways.extend(count, caps, &mut Vec::new());
        ways.number = ways.counts.iter().cloned().enumerate().map(|(i, c)| (c, i)).collect();
        ways
    }

    fn extend(&mut self, left: u8, caps: &[u8], so_far: &mut Vec<u8>) {
        let Some((cap, rest)) = caps.split_first() else {
            self.counts.push(so_far.clone());
            return;
        };
        for n in 0..=left.min(*cap) {
            so_far.push(n);
            self.extend(left - n, rest, so_far);
            so_far.pop();
        }
    }
}

impl Lattice {
    /// The lattice of `uses` uses; `cap` bounds the axes of a kind, by number, for a use.
    pub fn new(axes: &Axes, uses: usize, cap: impl Fn(usize, usize) -> u8) -> Self {
        let mut lattice = Lattice {
            kinds: axes.kinds.clone(),
            uses,
            ways: Vec::new(),
            strides: Vec::new(),
            len: 1,
            parts: Vec::new(),
        };
        for (k, kind) in axes.kinds.iter().enumerate() {
            let caps: Vec<u8> = (0..uses).map(|u| cap(k, u)).collect();
            let ways = Ways::new(kind.count, &caps);
            lattice.strides.push(lattice.len);
            lattice.len *= ways.counts.len();
            lattice.ways.push(ways);
        }
        let states = (0..lattice.len).flat_map(|s| (0..uses).map(move |on| (s, on)));
        lattice.parts = states.map(|(s, on)| lattice.count_parts(s, on)).collect();
        lattice
    }

    fn count_parts(&self, state: State, on: usize) -> u64 {
        let size = |(k, kind): (usize, &AxisKind)| {
            kind.size.saturating_pow(u32::from(self.of_kind(state, k)[on]))
        };
        self.kinds.iter().enumerate().map(size).product()
    }

    /// Kinds of axes.
    pub fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// Number of states.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Uses of a state.
    pub fn uses(&self) -> usize {
        self.uses
    }

    fn way(&self, state: State, kind: usize) -> usize {
        state / self.strides[kind] % self.ways[kind].counts.len()
    }

    /// Axes of some uses in a state, packed: four bits for each use and kind.
    pub fn key(&self, state: State, uses: &[Option<usize>]) -> Key {
        let mut key: Key = 0;
        for on in uses {
            for kind in 0..self.kinds.len() {
                key = key << 4 | on.map_or(0, |u| Key::from(self.of_kind(state, kind)[u]));
            }
        }
        key
    }

    /// Axes of each use, of one kind.
    pub fn of_kind(&self, state: State, kind: usize) -> &[u8] {
        &self.ways[kind].counts[self.way(state, kind)]
    }

    /// Axes of one use, of each kind.
    pub fn of_use(&self, state: State, on: usize) -> Vec<u8> {
        (0..self.kinds.len()).map(|k| self.of_kind(state, k)[on]).collect()
    }

    /// Axes of one use, of all kinds together.
    pub fn count(&self, state: State, on: usize) -> u8 {
        (0..self.kinds.len()).map(|k| self.of_kind(state, k)[on]).sum()
    }

    /// Devices along one use.
    pub fn parts(&self, state: State, on: usize) -> u64 {
        self.parts[state * self.uses + on]
    }

    /// Devices along each use.
    pub fn all_parts(&self, state: State) -> &[u64] {
        &self.parts[state * self.uses..(state + 1) * self.uses]
    }

    /// The state with the given axes of each use, by kind; `None` beyond the caps.
    pub fn find(&self, counts: impl Fn(usize) -> Vec<u8>) -> Option<State> {
        let mut state = 0;
        for (k, ways) in self.ways.iter().enumerate() {
            state += ways.number.get(&counts(k))? * self.strides[k];
        }
        Some(state)
    }

    /// Per kind, the ways to take 0, 1, … axes from one use to another: the way reached, or none.
    /// A use of `None` is being idle.
    pub fn shifts(&self, from: Option<usize>, to: Option<usize>) -> Shifts {
        let shift = |kind: &AxisKind, ways: &Ways| -> Vec<Vec<Option<usize>>> {
            let reach = |counts: &Vec<u8>, n: u8| {
                let used: u8 = counts.iter().sum();
                let have = from.map_or(kind.count - used, |u| counts[u]);
                let mut next = counts.clone();
                next.iter_mut().enumerate().for_each(|(u, c)| {
                    *c -= if Some(u) == from { n.min(*c) } else { 0 };
                    *c += if Some(u) == to { n } else { 0 };
                });
                if n > have { None } else { ways.number.get(&next).copied() }
            };
            ways.counts.iter().map(|c| (0..=kind.count).map(|n| reach(c, n)).collect()).collect()
        };
        Shifts { by_kind: self.kinds.iter().zip(&self.ways).map(|(k, w)| shift(k, w)).collect() }
    }

    /// Calls `visit` with every state that moving some axes leads to, and how many of each kind.
    pub fn reached(&self, state: State, shifts: &Shifts, visit: &mut dyn FnMut(State, &[u8])) {
        let mut counts = vec![0; self.kinds.len()];
        self.combine(state, shifts, 0, &mut counts, visit);
    }

    fn combine(
        &self,
        state: State,
        shifts: &Shifts,
        kind: usize,
        counts: &mut Vec<u8>,
        visit: &mut dyn FnMut(State, &[u8]),
    ) {
        if kind == self.kinds.len() {
            if counts.iter().any(|&n| n > 0) {
                visit(state, counts);
            }
            return;
        }
        let way = self.way(state, kind);
        for (n, next) in shifts.by_kind[kind][way].iter().enumerate() {
            let Some(next) = next else { continue };
            counts[kind] = n as u8;
            let moved = state - way * self.strides[kind] + next * self.strides[kind];
            self.combine(moved, shifts, kind + 1, counts, visit);
        }
        counts[kind] = 0;
    }
}

/// Where moving axes from one use to another leads, kind by kind.
#[derive(Clone, Debug)]
pub(super) struct Shifts {
    by_kind: Vec<Vec<Vec<Option<usize>>>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_products_of_primes() {
        let kinds = |devices, node| {
            let axes = Axes::of_stage(devices, node, 1)?;
            Some(axes.kinds.iter().map(|k| (k.size, k.count, k.across)).collect::<Vec<_>>())
        };
        assert_eq!(kinds(4, 8), Some(vec![(2, 2, false)]));
        assert_eq!(kinds(48, 8), Some(vec![(3, 1, true), (2, 1, true), (2, 3, false)]));
        assert_eq!(kinds(1, 8), Some(vec![]));
        assert_eq!(kinds(12, 8), None);
        assert_eq!(kinds(256, 8), Some(vec![(8, 1, true), (4, 1, true), (2, 3, false)]));
    }

    #[test]
    fn states_are_numbered_and_found() {
        let axes = Axes::of_stage(32, 8, 1).unwrap();
        let lattice = Lattice::new(&axes, 2, |k, _| axes.kinds[k].count);
        assert_eq!(lattice.len(), 6 * 10);
        for state in 0..lattice.len() {
            let found = lattice.find(|k| lattice.of_kind(state, k).to_vec());
            assert_eq!(found, Some(state));
        }
    }

    #[test]
    fn moves_take_any_number_of_axes() {
        let axes = Axes::of_stage(16, 8, 1).unwrap();
        let lattice = Lattice::new(&axes, 2, |k, _| axes.kinds[k].count);
        let start = lattice.find(|k| if k == 0 { vec![1, 0] } else { vec![2, 1] }).unwrap();
        let mut seen = Vec::new();
        lattice.reached(start, &lattice.shifts(Some(0), None), &mut |to, n| {
            seen.push((lattice.parts(to, 0), n.to_vec()));
        });
        seen.sort();
        let expected: Vec<(u64, Vec<u8>)> = vec![
            (1, vec![1, 2]),
            (2, vec![0, 2]),
            (2, vec![1, 1]),
            (4, vec![0, 1]),
            (4, vec![1, 0]),
        ];
        assert_eq!(seen, expected);
    }
}
