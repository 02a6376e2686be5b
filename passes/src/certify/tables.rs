//! Placements and substitutions, each written once.

use shardc_ir::certificate::{Given, Placement};
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;
use std::collections::HashMap;
use std::hash::Hash;

/// Entries numbered in the order in which they are first named.
#[derive(Debug)]
struct Table<T> {
    numbers: HashMap<T, u64>,
    entries: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { numbers: HashMap::new(), entries: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn number(&mut self, entry: T) -> u64 {
        let next = self.entries.len() as u64;
        let number = *self.numbers.entry(entry.clone()).or_insert(next);
        if number == next {
            self.entries.push(entry);
        }
        number
    }
}

/// The tables of a proof.
#[derive(Debug, Default)]
pub(super) struct Tables {
    layouts: HashMap<Layout, u64>,
    placements: Table<Placement>,
    substitutions: Table<Vec<Given>>,
}

impl Tables {
    /// The number of a placement.
    pub(super) fn placement(&mut self, layout: &Layout, mesh: &Mesh) -> u64 {
        if let Some(&number) = self.layouts.get(layout) {
            return number;
        }
        let number = self.placements.number(Placement::of(&layout.normalise(mesh), mesh));
        self.layouts.insert(layout.clone(), number);
        number
    }

    /// The number of a substitution, which gives some factor axes.
    pub(super) fn substitution(&mut self, mut given: Vec<Given>) -> u64 {
        given.sort();
        self.substitutions.number(given)
    }

    /// The entries in order.
    pub(super) fn into_lists(self) -> (Vec<Placement>, Vec<Vec<Given>>) {
        (self.placements.entries, self.substitutions.entries)
    }
}
