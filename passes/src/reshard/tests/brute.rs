//! The planner against all sequences of steps on small meshes.
//!
//! Written on lists of prime axes and nothing of the planner: every pair of layouts is asked which
//! single step leads from one to the other, and the shortest way through that graph is found by
//! relaxation until nothing changes.

use super::*;
use shardc_ir::layout::{Partial, ReduceKind, local_extent, primes};
use shardc_ir::mesh::AxisRef;
use std::ops::Range;

/// A layout as lists of primes per dimension, and the primes that pend, as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    dims: Vec<Vec<usize>>,
    pending: u32,
}

pub struct Graph {
    mesh: Mesh,
    extents: Vec<u64>,
    /// Bytes per element.
    width: u64,
    atoms: Vec<AxisRef>,
    nodes: Vec<Node>,
    sizes: Vec<u64>,
    /// Per node: what every device holds, `None` where that is nothing.
    held: Vec<Vec<Option<Vec<Range<u64>>>>>,
    /// Per node: (next node, bytes of the cheapest single step).
    edges: Vec<Vec<(usize, u64)>>,
}

impl Graph {
    pub fn new(mesh: &str, extents: &[u64]) -> Graph {
        Graph::over(&Mesh::parse(mesh).unwrap(), extents, 1)
    }

    pub fn over(mesh: &Mesh, extents: &[u64], width: u64) -> Graph {
        let mesh = mesh.clone();
        let mut atoms = Vec::new();
        for axis in mesh.whole_axes() {
            let mut pre = 1;
            for prime in primes(axis.size(&mesh)) {
                atoms.push(AxisRef::part(axis.axis, pre, prime));
                pre *= prime;
            }
        }
        let mut graph = Graph {
            extents: extents.to_vec(),
            width,
            nodes: Vec::new(),
            sizes: Vec::new(),
            held: Vec::new(),
            edges: Vec::new(),
            atoms,
            mesh,
        };
        let empty = Node { dims: vec![Vec::new(); extents.len()], pending: 0 };
        graph.enumerate(0, &empty);
        graph.sizes = graph.nodes.iter().map(|n| graph.size(n)).collect();
        graph.held = graph.nodes.iter().map(|n| graph.held(n)).collect();
        graph.edges = (0..graph.nodes.len()).map(|i| graph.out(i)).collect();
        graph
    }

    /// Every way to place the atoms `next..`: free, pending, or anywhere in a dimension's list.
    fn enumerate(&mut self, next: usize, node: &Node) {
        if next == self.atoms.len() {
            self.nodes.push(node.clone());
            return;
        }
        self.enumerate(next + 1, node);
        self.enumerate(next + 1, &Node { pending: node.pending | 1 << next, ..node.clone() });
        for dim in 0..node.dims.len() {
            for at in 0..=node.dims[dim].len() {
                let mut placed = node.clone();
                placed.dims[dim].insert(at, next);
                self.enumerate(next + 1, &placed);
            }
        }
    }

    fn prime(&self, atom: usize) -> u64 {
        self.atoms[atom].size(&self.mesh)
    }

    fn count(&self, list: &[usize]) -> u64 {
        list.iter().map(|&a| self.prime(a)).product()
    }

    fn size(&self, node: &Node) -> u64 {
        let local = |(list, &n): (&Vec<usize>, &u64)| local_extent(n, self.count(list));
        node.dims.iter().zip(&self.extents).map(local).product()
    }

    fn held(&self, node: &Node) -> Vec<Option<Vec<Range<u64>>>> {
        let layout = self.layout(node);
        let ranges = |device| layout.index_ranges(&self.mesh, &self.extents, device);
        let all = (0..self.mesh.devices()).map(ranges);
        all.map(|r| r.iter().all(|r| !r.is_empty()).then_some(r)).collect()
    }

    fn out(&self, at: usize) -> Vec<(usize, u64)> {
        (0..self.nodes.len()).filter_map(|to| Some((to, self.step(at, to)?))).collect()
    }

    /// Bytes of the cheapest single step between two layouts.
    fn step(&self, at: usize, to: usize) -> Option<u64> {
        let (a, b) = (&self.nodes[at], &self.nodes[to]);
        let (before, after) = (self.sizes[at] * self.width, self.sizes[to] * self.width);
        if a == b {
            return None;
        }
        let pairs: Vec<_> = a.dims.iter().zip(&b.dims).collect();
        let shrunk: Vec<usize> =
            pairs.iter().flat_map(|(x, y)| x[y.len().min(x.len())..].to_vec()).collect();
        let grown: Vec<usize> =
            pairs.iter().flat_map(|(x, y)| y[x.len().min(y.len())..].to_vec()).collect();
        let nested = pairs.iter().all(|(x, y)| x.starts_with(y) || y.starts_with(x));
        let done = a.pending & !b.pending;
        let group =
            self.count(&(0..self.atoms.len()).filter(|i| done >> i & 1 == 1).collect::<Vec<_>>());
        if done != 0 {
            if b.pending & !a.pending != 0 || !nested || !shrunk.is_empty() {
                return None;
            }
            let all_grown = grown.iter().fold(0, |bits, i| bits | 1 << i);
            return match all_grown {
                0 => Some((2 * before * (group - 1)).div_ceil(group)),
                bits if bits == done => Some(after * (group - 1)),
                _ => None,
            };
        }
        if a.pending != b.pending {
            return None;
        }
        let mut options = Vec::new();
        if nested && grown.is_empty() {
            options.push(before * (self.count(&shrunk) - 1));
        }
        if nested && shrunk.is_empty() {
            options.push(0);
        }
        if nested && self.pairs_up(&pairs) {
            let group = self.count(&shrunk);
            options.push((before.max(after) * (group - 1)).div_ceil(group));
        }
        if pairs.iter().zip(&self.extents).all(|((x, y), &n)| self.same_parts(x, y, n)) {
            options.push(if self.held[at] == self.held[to] { 0 } else { before });
        }
        options.into_iter().min()
    }

    /// Whether what some dimensions lose is what others gain, list by list.
    fn pairs_up(&self, pairs: &[(&Vec<usize>, &Vec<usize>)]) -> bool {
        let lost: Vec<_> =
            pairs.iter().filter(|(x, y)| x.len() > y.len()).map(|(x, y)| &x[y.len()..]).collect();
        let gained: Vec<_> =
            pairs.iter().filter(|(x, y)| y.len() > x.len()).map(|(x, y)| &y[x.len()..]).collect();
        !lost.is_empty() && lost.len() == gained.len() && lost.iter().all(|l| gained.contains(l))
    }

    fn same_parts(&self, x: &[usize], y: &[usize], extent: u64) -> bool {
        let parts = |list: &[usize]| {
            list.iter().fold(vec![extent], |parts, &atom| {
                let p = self.prime(atom);
                let split = |n: u64| (0..p).map(move |i| n / p + u64::from(i < n % p));
                parts.into_iter().flat_map(split).collect::<Vec<u64>>()
            })
        };
        self.count(x) == self.count(y) && parts(x) == parts(y)
    }

    fn layout(&self, node: &Node) -> Layout {
        let axes = |list: &Vec<usize>| list.iter().map(|&a| self.atoms[a]).collect();
        let pending: Vec<_> = (0..self.atoms.len())
            .filter(|i| node.pending >> i & 1 == 1)
            .map(|i| self.atoms[i])
            .collect();
        let partial = Partial { kind: ReduceKind::Sum, axes: pending };
        let dims = node.dims.iter().map(axes).collect();
        Layout { dims, unreduced: vec![partial] }.normalise(&self.mesh)
    }

    /// Least bytes from `start` to every node through nodes of at most `cap` elements.
    fn cheapest(&self, start: usize, cap: u64) -> Vec<Option<u64>> {
        let mut best = vec![None; self.nodes.len()];
        best[start] = Some(0);
        let mut open = vec![start];
        while let Some(at) = open.pop() {
            for &(to, bytes) in &self.edges[at] {
                let cost = best[at].unwrap_or(0) + bytes;
                if self.sizes[to] <= cap && best[to].is_none_or(|b| cost < b) {
                    best[to] = Some(cost);
                    open.push(to);
                }
            }
        }
        best
    }

    /// Least peak, and least bytes under it, from `start` to every node.
    fn optimum(&self, start: usize) -> Vec<Option<(u64, u64)>> {
        let mut caps: Vec<u64> =
            self.sizes.iter().copied().filter(|&s| s >= self.sizes[start]).collect();
        caps.sort_unstable();
        caps.dedup();
        let mut best = vec![None; self.nodes.len()];
        for cap in caps {
            for (entry, bytes) in best.iter_mut().zip(self.cheapest(start, cap)) {
                *entry = entry.or(bytes.map(|b| (cap, b)));
            }
        }
        best
    }

    /// Least peak and bytes, or `None` for layouts that cut axes across the order of primes.
    pub fn least(&self, from: &Layout, to: &Layout) -> Option<(u64, u64)> {
        let find = |layout: &Layout| {
            let layout = layout.normalise(&self.mesh);
            let sums = |l: Layout| l.unreduced_axes();
            let same = |n: &Node| {
                let node = self.layout(n);
                node.dims == layout.dims && sums(node) == sums(layout.clone())
            };
            self.nodes.iter().position(same)
        };
        self.optimum(find(from)?)[find(to)?]
    }

    /// Plans from every `stride`-th layout to every `stride`-th, offset so that pairs differ.
    pub fn compare(&self, stride: usize) {
        for start in (0..self.nodes.len()).step_by(stride) {
            let optimum = self.optimum(start);
            for goal in ((start * 7) % stride..self.nodes.len()).step_by(stride) {
                let (from, to) = (self.layout(&self.nodes[start]), self.layout(&self.nodes[goal]));
                let bits = 8 * self.width;
                let case =
                    Case { bits, from, to, dims: self.extents.clone(), mesh: self.mesh.clone() };
                let planned = plan(&case.request(), Objective::PeakThenBytes);
                let Some((peak, bytes)) = optimum[goal] else {
                    assert!(planned.is_err());
                    continue;
                };
                let planned = planned.unwrap();
                check_plan(&case, &planned).unwrap();
                assert!(planned.proven, "{}", shown(&case, &planned));
                assert_eq!(
                    (planned.peak_elements, planned.wire_bytes),
                    (peak, bytes),
                    "{} {:?} {} -> {}\n{}",
                    self.mesh,
                    self.extents,
                    case.from.show(&self.mesh),
                    case.to.show(&self.mesh),
                    shown(&case, &planned)
                );
            }
        }
    }
}

#[test]
fn optimal_on_one_axis() {
    Graph::new("x=4", &[8, 8]).compare(1);
    Graph::new("x=4", &[7, 5]).compare(1);
    Graph::new("x=6", &[7, 5]).compare(1);
}

#[test]
fn optimal_on_two_axes() {
    Graph::new("x=4,y=2", &[16, 16]).compare(2);
    Graph::new("x=2,y=3", &[12, 6, 36]).compare(2);
    Graph::new("x=3,y=3", &[10]).compare(1);
}

#[test]
fn optimal_where_splits_are_uneven() {
    Graph::new("x=4,y=2", &[17, 3]).compare(3);
    Graph::new("x=2,y=3", &[7, 8]).compare(2);
    Graph::new("x=6,y=2", &[13, 7]).compare(5);
}

#[test]
fn optimal_in_three_dimensions() {
    Graph::new("x=2,y=4", &[16, 8, 32]).compare(9);
    Graph::new("x=4,y=3", &[9, 8, 5]).compare(9);
}

#[test]
fn optimal_on_four_primes() {
    Graph::new("x=4,y=4", &[16, 64]).compare(17);
    Graph::new("x=8,y=2", &[16, 16]).compare(19);
    Graph::new("a=2,b=2,c=2,d=2", &[16, 32, 16]).compare(101);
    Graph::new("x=4,y=6", &[24, 10]).compare(23);
}

#[test]
fn optimal_where_parts_are_empty() {
    Graph::new("x=2,y=2", &[1, 1]).compare(1);
    Graph::new("x=2,y=3", &[1, 7]).compare(1);
    Graph::new("x=4,y=2", &[1, 8]).compare(5);
    Graph::new("x=4,y=2", &[2, 6]).compare(5);
    Graph::over(&Mesh::parse("x=8").unwrap(), &[2, 5, 3], 4).compare(31);
}
