//! Classes in the making: a forest over dimensions, with notes on what each allows.

use crate::classes::Class;
use crate::pieces::Piece;
use shardc_ir::graph::{FuncId, Module, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A dimension of a value: program, function, value, dimension.
pub type Site = (usize, FuncId, Value, usize);

/// The first dimension of each value, the class of each dimension, the classes, and the pieces of
/// those that are sums.
pub type Finished = (
    BTreeMap<(usize, FuncId, Value), usize>,
    Vec<usize>,
    Vec<Class>,
    BTreeMap<usize, BTreeSet<Piece>>,
);

/// All dimensions of all values; those with one root are one class.
#[derive(Debug)]
pub struct Forest {
    first: BTreeMap<(usize, FuncId, Value), usize>,
    parent: Vec<usize>,
    notes: BTreeMap<usize, Class>,
    /// Of concatenated and sliced dimensions, the ranges that other dimensions hold.
    ranges: Vec<(usize, (u64, u64), usize)>,
}

impl Forest {
    /// Every dimension by itself.
    pub fn new(programs: &[&Module]) -> Self {
        let mut first = BTreeMap::new();
        let mut count = 0;
        for (m, module) in programs.iter().enumerate() {
            for (id, func) in module.funcs.iter() {
                for (value, data) in func.values.iter() {
                    first.insert((m, id, value), count);
                    count += data.ty.rank();
                }
            }
        }
        let parent = (0..count).collect();
        Forest { first, parent, notes: BTreeMap::new(), ranges: Vec::new() }
    }

    fn node(&self, (m, func, value, dim): Site) -> usize {
        self.first.get(&(m, func, value)).map_or(0, |first| first + dim)
    }

    fn root(&mut self, mut node: usize) -> usize {
        while self.parent[node] != node {
            self.parent[node] = self.parent[self.parent[node]];
            node = self.parent[node];
        }
        node
    }

    /// Makes two dimensions one class.
    pub fn tie(&mut self, a: Site, b: Site) {
        let (a, b) = (self.node(a), self.node(b));
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
    }

    /// What is known of a dimension.
    pub fn note(&mut self, site: Site) -> &mut Class {
        let node = self.node(site);
        self.notes.entry(node).or_default()
    }

    /// Dimension `part` holds elements `lo..hi` of dimension `whole`.
    pub fn range(&mut self, whole: Site, bounds: (u64, u64), part: Site) {
        let (whole, part) = (self.node(whole), self.node(part));
        self.ranges.push((whole, bounds, part));
    }

    /// Ties dimensions that hold the same elements of one class.
    fn tie_ranges(&mut self) {
        loop {
            let mut holders: BTreeMap<(usize, (u64, u64)), usize> = BTreeMap::new();
            let mut tied = false;
            for (whole, bounds, part) in self.ranges.clone() {
                let (whole, part) = (self.root(whole), self.root(part));
                let other = *holders.entry((whole, bounds)).or_insert(part);
                let other = self.root(other);
                tied |= other != part;
                self.parent[other.max(part)] = other.min(part);
            }
            if !tied {
                return;
            }
        }
    }

    /// The classes, numbered in order of their first dimension.
    pub fn classes(mut self) -> Finished {
        self.tie_ranges();
        let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
        let of: Vec<usize> = (0..self.parent.len())
            .map(|node| {
                let (root, next) = (self.root(node), numbers.len());
                *numbers.entry(root).or_insert(next)
            })
            .collect();
        let mut list = vec![Class::default(); numbers.len()];
        self.notes.iter().for_each(|(&node, note)| list[of[node]].join(note));
        let mut pieces: BTreeMap<usize, BTreeSet<Piece>> = BTreeMap::new();
        for (whole, (lo, hi), part) in self.ranges {
            pieces.entry(of[whole]).or_default().insert(Piece { lo, hi, class: of[part] });
        }
        (self.first, of, list, pieces)
    }
}
