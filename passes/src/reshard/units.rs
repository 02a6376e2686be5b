//! The axes of a reshard, cut into units that the search moves as a whole.
//!
//! Every axis is first cut where either layout cuts it, and then into primes. Neighbouring primes
//! that keep together in both layouts fuse into one unit; a finer grain undoes some of that.

use shardc_ir::layout::{Layout, axes, follows_primes, gcd, primes};
use shardc_ir::mesh::{AxisRef, Mesh};

/// One prime factor of an axis.
pub type Atom = AxisRef;

/// How finely axes are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grain {
    /// Whatever keeps together in both layouts is one unit; axes in neither are left out.
    Whole,
    /// Axes in neither layout take part, and units are cut where another unit's size divides them.
    Divisors,
    /// Every prime is a unit.
    Primes,
}

impl Grain {
    /// What a plan at this grain is.
    pub fn describe(self) -> &'static str {
        match self {
            Grain::Whole => "move axes as they stand together in both layouts",
            Grain::Divisors => "split axes where sizes differ",
            Grain::Primes => "split axes into primes",
        }
    }
}

/// Atoms that move together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The primes, major first.
    pub atoms: Vec<Atom>,
    /// Number of devices along the unit.
    pub size: u64,
    /// The part of `size`, from the major end, that may only split a dimension evenly.
    pub even: u64,
    /// Whether neither layout uses the unit.
    pub spare: bool,
}

/// Where a layout puts an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Dim(usize, usize),
    Pending(usize),
    Free,
}

impl Place {
    /// Whether `next` continues the list that holds `self`.
    fn continues(self, next: Place) -> bool {
        match (self, next) {
            (Place::Dim(d, i), Place::Dim(e, j)) => d == e && i + 1 == j,
            (a, b) => a == b,
        }
    }
}

/// How the axes of a mesh are cut for a reshard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cuts {
    /// The prime atoms of every axis, major first.
    pub atoms: Vec<Atom>,
    /// Axes that the two layouts do not cut alike: their atoms express the target only.
    pub torn: Vec<AxisRef>,
}

impl Cuts {
    /// Cuts every axis where either layout does, then into primes.
    ///
    /// An axis is torn if the two layouts' cuts do not factor it together, or if a cut across the
    /// order of its primes meets a dimension that the other layout splits unevenly.
    pub fn new(mesh: &Mesh, extents: &[u64], from: &Layout, to: &Layout) -> Cuts {
        let (before, after) = (from.axes_used(), to.axes_used());
        let both = [before.as_slice(), after.as_slice()].concat();
        let mut cuts = Cuts { atoms: Vec::new(), torn: Vec::new() };
        for axis in mesh.whole_axes() {
            let shared = cut_axis(mesh, axis, &both).filter(|atoms| {
                [from, to].iter().all(|layout| places_evenly(mesh, atoms, layout, extents))
            });
            if shared.is_none() {
                cuts.torn.push(axis);
            }
            let atoms = shared.or_else(|| cut_axis(mesh, axis, &after));
            cuts.atoms.extend(atoms.unwrap_or_default());
        }
        cuts
    }
}

/// The atoms of one axis under the cuts of `parts`, or `None` if those do not factor it.
fn cut_axis(mesh: &Mesh, axis: AxisRef, parts: &[AxisRef]) -> Option<Vec<Atom>> {
    let mut cuts = vec![1, axis.size(mesh)];
    for part in parts.iter().filter(|a| a.axis == axis.axis) {
        cuts.extend([part.pre(), axes::end(mesh, *part)]);
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut atoms = Vec::new();
    for pair in cuts.windows(2) {
        if !pair[1].is_multiple_of(pair[0]) {
            return None;
        }
        let mut pre = pair[0];
        for prime in primes(pair[1] / pair[0]) {
            atoms.push(AxisRef::part(axis.axis, pre, prime));
            pre *= prime;
        }
    }
    Some(atoms)
}

/// Groups `atoms` into units.
pub fn units(mesh: &Mesh, atoms: &[Atom], from: &Layout, to: &Layout, grain: Grain) -> Vec<Unit> {
    let mut placed: Vec<(Place, Place, Atom)> =
        atoms.iter().map(|&a| (place(mesh, from, a), place(mesh, to, a), a)).collect();
    placed.sort();
    let mut groups: Vec<Vec<Atom>> = Vec::new();
    let mut last: Option<(Place, Place)> = None;
    for &(before, after, atom) in &placed {
        let spare = before == Place::Free && after == Place::Free;
        if spare && grain == Grain::Whole {
            continue;
        }
        let joins = last.is_some_and(|(b, a)| b.continues(before) && a.continues(after));
        match groups.last_mut() {
            Some(group) if joins && grain != Grain::Primes => group.push(atom),
            _ => groups.push(vec![atom]),
        }
        last = Some((before, after));
    }
    if grain == Grain::Divisors {
        groups = cut_at_divisors(mesh, &groups);
    }
    let used: Vec<AxisRef> = from.axes_used().into_iter().chain(to.axes_used()).collect();
    groups.into_iter().map(|group| unit(mesh, &used, group)).collect()
}

/// Whether the atoms of one axis sit in `layout` where their splits are well defined: those that
/// do not follow the order of primes divide their dimension.
pub fn places_evenly(mesh: &Mesh, atoms: &[Atom], layout: &Layout, extents: &[u64]) -> bool {
    layout.dims.iter().zip(extents).all(|(list, &extent)| {
        let mut shards: u64 = 1;
        list.iter().all(|&part| {
            let (before, inside) = (shards, list_atoms(mesh, atoms, &[part]));
            shards = shards.saturating_mul(part.size(mesh));
            inside.iter().all(|atom| {
                let split = before * (axes::end(mesh, *atom) / part.pre());
                follows_primes(mesh, *atom) || extent.is_multiple_of(split)
            })
        })
    })
}

/// The atoms of an axis list, in order.
pub fn list_atoms(mesh: &Mesh, atoms: &[Atom], list: &[AxisRef]) -> Vec<Atom> {
    let inside = |part: AxisRef| {
        let mut inside: Vec<Atom> =
            atoms.iter().copied().filter(|&a| axes::contains(mesh, part, a)).collect();
        inside.sort_by_key(|a| a.pre());
        inside
    };
    list.iter().flat_map(|&part| inside(part)).collect()
}

fn unit(mesh: &Mesh, used: &[AxisRef], atoms: Vec<Atom>) -> Unit {
    let (mut size, mut even) = (1, 1);
    for &atom in &atoms {
        size *= atom.size(mesh);
        if !follows_primes(mesh, atom) {
            even = size;
        }
    }
    let spare = atoms.iter().all(|&a| !used.iter().any(|&u| axes::overlap(mesh, u, a)));
    Unit { atoms, size, even, spare }
}

fn place(mesh: &Mesh, layout: &Layout, atom: Atom) -> Place {
    for (dim, list) in layout.dims.iter().enumerate() {
        let mut before = 0;
        for &part in list {
            if axes::contains(mesh, part, atom) {
                let inner = primes(atom.pre() / part.pre()).len();
                return Place::Dim(dim, before + inner);
            }
            before += primes(part.size(mesh)).len();
        }
    }
    let pends = |axes: &[AxisRef]| axes.iter().any(|&part| axes::contains(mesh, part, atom));
    match layout.unreduced.iter().position(|p| pends(&p.axes)) {
        Some(kind) => Place::Pending(kind),
        None => Place::Free,
    }
}

/// Cuts each group where a proper divisor shared with another group's size ends, counted from
/// either end.
fn cut_at_divisors(mesh: &Mesh, groups: &[Vec<Atom>]) -> Vec<Vec<Atom>> {
    let size = |group: &[Atom]| mesh.size_of(group);
    let sizes: Vec<u64> = groups.iter().map(|g| size(g)).collect();
    let mut out = Vec::new();
    for group in groups {
        let whole = size(group);
        let mut start = 0;
        for i in 1..group.len() {
            let head = size(&group[..i]);
            let cuts = |&other: &u64| {
                let shared = gcd(whole, other);
                shared < whole && shared > 1 && (shared == head || shared == whole / head)
            };
            if sizes.iter().any(cuts) {
                out.push(group[start..i].to_vec());
                start = i;
            }
        }
        out.push(group[start..].to_vec());
    }
    out
}
