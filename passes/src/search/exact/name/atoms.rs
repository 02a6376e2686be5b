//! Axes with names, and how free ones are taken.

use crate::search::exact::axes::{Axes, Lattice, State};
use shardc_ir::mesh::{AxisId, AxisRef, Mesh};
use std::collections::BTreeMap;

/// An axis: its number in the mesh, major first.
pub(in crate::search::exact) type Atom = u16;

/// Layouts of stored parameters that another phase has fixed, by function and parameter name.
pub(in crate::search::exact) type StoredNames = BTreeMap<(String, String), Vec<Vec<Atom>>>;

/// The mesh with one axis for each prime of a stage.
#[derive(Clone, Debug)]
pub(in crate::search::exact) struct Atoms {
    /// Kind of each axis; those of replicas that work apart have one that no lattice knows.
    pub(super) kinds: Vec<usize>,
    /// Axes that split requests over replicas that work apart, the major ones.
    pub(super) outer: Vec<Atom>,
    pub mesh: Mesh,
}

impl Atoms {
    /// The axes of a lattice, behind those of replicas that work apart.
    pub fn new(axes: &Axes, outer: &[u64]) -> Self {
        let mut kinds = vec![axes.kinds.len(); outer.len()];
        for (kind, data) in axes.kinds.iter().enumerate() {
            kinds.extend(std::iter::repeat_n(kind, usize::from(data.count)));
        }
        let mut numbers = [0, 0];
        let name = |&kind: &usize| {
            let across = axes.kinds[kind].across;
            let number = &mut numbers[usize::from(across)];
            *number += 1;
            let stem = if across { "node" } else { "gpu" };
            (format!("{stem}{}", *number - 1), axes.kinds[kind].size)
        };
        let replicas = outer.iter().enumerate().map(|(i, size)| (format!("rep{i}"), *size));
        let named = replicas.chain(kinds[outer.len()..].iter().map(name));
        let named: Vec<(String, u64)> = named.collect();
        let mesh = Mesh::new("m", named.iter().map(|(n, size)| (n.as_str(), *size)));
        Atoms { kinds, outer: (0..outer.len() as Atom).collect(), mesh }
    }

    pub(super) fn all(&self) -> Vec<Atom> {
        (self.outer.len() as Atom..self.kinds.len() as Atom).collect()
    }

    pub(super) fn kind(&self, atom: Atom) -> usize {
        self.kinds[usize::from(atom)]
    }
}

/// Axis references of atoms.
pub(super) fn refs(atoms: &[Atom]) -> Vec<AxisRef> {
    atoms.iter().map(|&a| AxisRef::whole(AxisId(a))).collect()
}

/// Axes by use of a group, or by role of a bundle.
pub(super) type Lists = Vec<Vec<Atom>>;

/// The axes of the stream in a state: those of replicas that work apart split requests; requests take them from the major end, then tokens; those in
/// `first` before all others, in that order. Axes across nodes are major unless `inside_major`.
pub(in crate::search::exact) fn stream_axes(
    lattice: &Lattice,
    state: State,
    atoms: &Atoms,
    first: &[Atom],
    inside_major: bool,
) -> Lists {
    let mut free: Vec<Atom> = first.to_vec();
    free.retain(|a| !atoms.outer.contains(a));
    free.extend(atoms.all().into_iter().filter(|a| !first.contains(a)));
    let of = |on: usize| {
        let mut taken = take(&mut free, &lattice.of_use(state, on), atoms, true);
        let place = |a: &Atom| {
            let known = first.iter().position(|f| f == a).unwrap_or(first.len());
            let kind = atoms.kind(*a);
            (known, if inside_major { usize::MAX - kind } else { kind }, *a)
        };
        taken.sort_by_key(place);
        if on == 0 { [atoms.outer.as_slice(), &taken].concat() } else { taken }
    };
    (0..lattice.uses()).map(of).collect()
}

/// Takes so many axes of each kind, from the front or from the back.
pub(super) fn take(free: &mut Vec<Atom>, counts: &[u8], atoms: &Atoms, front: bool) -> Vec<Atom> {
    let mut left = counts.to_vec();
    let mut taken = Vec::new();
    let order: Vec<Atom> = if front { free.clone() } else { free.iter().rev().copied().collect() };
    for atom in order {
        if let Some(n) = left.get_mut(atoms.kind(atom)).filter(|n| **n > 0) {
            *n -= 1;
            taken.push(atom);
        }
    }
    free.retain(|a| !taken.contains(a));
    taken
}
