//! Ways found without a search: one for even splits that never exceeds the larger end, and one for
//! anything.
//!
//! The first serves as a bound for the search and as the answer where the search is too large:
//! slice, reduce, permute so that what must change dimension lies at the minor ends, exchange
//! dimension by dimension, gather what the target does not use. The second gathers every dimension
//! down to what it has in common with the target, and slices.

use super::Request;
use super::op::OpKind;
use super::units::{Atom, Cuts, list_atoms};
use shardc_ir::layout::{Layout, axes, refines};
use shardc_ir::mesh::{AxisRef, Mesh};

/// Collectives with the layouts after them.
pub type Way = Vec<(OpKind, Layout)>;

/// Completes, gathers what differs, and slices. Applies to every legal reshard.
pub fn gather_and_slice(request: &Request<'_>) -> Way {
    let (mesh, to) = (request.mesh, request.to);
    let mut way = Trail::new(request);
    way.complete(to);
    let pairs = way.at.dims.iter().zip(&to.dims).zip(request.dims);
    let common = pairs.map(|((a, b), &extent)| common_part(mesh, extent, a, b));
    let gathered = Layout { dims: common.collect(), ..way.at.clone() };
    way.go(OpKind::AllGather, gathered);
    way.go(OpKind::AllSlice, to.clone());
    way.steps
}

/// The major part in which two lists split a dimension alike, without a part of an axis that one of
/// them does not reach by gathering.
fn common_part(mesh: &Mesh, extent: u64, a: &[AxisRef], b: &[AxisRef]) -> Vec<AxisRef> {
    let mut common = axes::common_prefix(mesh, a, b);
    if !refines(mesh, extent, a, &common) || !refines(mesh, extent, b, &common) {
        common.pop();
    }
    common
}

/// Slices, reduces, permutes, exchanges and gathers without ever holding more than the larger of
/// both ends, or `None` where the axes of the two layouts are not cut alike.
///
/// The steps are exact only where splits are even; the caller checks.
pub fn exchange_by_dimension(request: &Request<'_>, cuts: &Cuts) -> Option<Way> {
    let (mesh, to) = (request.mesh, request.to);
    if !cuts.torn.is_empty() {
        return None;
    }
    let lists = |layout: &Layout| -> Vec<Vec<Atom>> {
        layout.dims.iter().map(|d| list_atoms(mesh, &cuts.atoms, d)).collect()
    };
    let mut way = Trail::new(request);
    let free = way.at.replicated_axes(mesh);
    let sliced = to.dims.iter().map(|d| axes::intersect(mesh, d, &free)).collect::<Vec<_>>();
    way.append(OpKind::AllSlice, &sliced);
    way.scatter(to);
    way.complete(to);
    let goal = lists(to);
    let mut padded = goal.clone();
    let inside = |atom: &Atom| goal.iter().any(|d| d.contains(atom));
    for (dim, list) in lists(&way.at).into_iter().enumerate() {
        padded[dim].extend(list.into_iter().filter(|a| !inside(a)));
    }
    if lists(&way.at) != padded {
        let now = lists(&way.at);
        exchange(&mut way, &now, &padded);
    }
    way.go(OpKind::AllGather, to.clone());
    Some(way.steps)
}

/// Goes from `now` to `wanted`, which hold the same atoms, by a permute, one exchange per pair of
/// dimensions, and another permute where orders still differ.
fn exchange(way: &mut Trail<'_>, now: &[Vec<Atom>], wanted: &[Vec<Atom>]) {
    let mesh = way.mesh;
    let sizes = |list: &Vec<Atom>| list.iter().map(|a| a.size(mesh)).collect();
    let mut surplus: Vec<Vec<u64>> = now.iter().map(sizes).collect();
    let fit = |(want, room): (&Vec<Atom>, &mut Vec<u64>)| take(mesh, want, room);
    let (mut staged, mut arriving): (Vec<_>, Vec<_>) =
        wanted.iter().zip(&mut surplus).map(fit).unzip();
    let mut moves: Vec<(usize, usize, Vec<Atom>)> = Vec::new();
    for (src, room) in surplus.iter_mut().enumerate() {
        for (tgt, arrive) in arriving.iter_mut().enumerate() {
            let (moved, left) = take(mesh, arrive, room);
            *arrive = left;
            if !moved.is_empty() {
                staged[src].extend(&moved);
                moves.push((src, tgt, moved));
            }
        }
    }
    way.place(OpKind::CollectivePermute, &staged);
    for (src, tgt, moved) in moves.into_iter().rev() {
        staged[src].retain(|a| !moved.contains(a));
        let kept = staged[src].len();
        staged[src].extend(&moved);
        way.place(OpKind::CollectivePermute, &staged);
        staged[src].truncate(kept);
        staged[tgt].extend(moved);
        way.place(OpKind::AllToAll, &staged);
    }
    way.place(OpKind::CollectivePermute, wanted);
}

/// The atoms for whose sizes there is room, which they use up, and the others.
fn take(mesh: &Mesh, atoms: &[Atom], room: &mut Vec<u64>) -> (Vec<Atom>, Vec<Atom>) {
    atoms.iter().partition(|atom| {
        let found = room.iter().position(|&size| size == atom.size(mesh));
        found.map(|i| room.swap_remove(i)).is_some()
    })
}

/// The layouts passed so far.
struct Trail<'a> {
    mesh: &'a Mesh,
    at: Layout,
    steps: Way,
}

impl<'a> Trail<'a> {
    fn new(request: &Request<'a>) -> Self {
        Trail { mesh: request.mesh, at: request.from.normalise(request.mesh), steps: Vec::new() }
    }

    /// Goes to `next` unless already there.
    fn go(&mut self, kind: OpKind, next: Layout) {
        let next = next.normalise(self.mesh);
        if next != self.at {
            self.at.clone_from(&next);
            self.steps.push((kind, next));
        }
    }

    fn place(&mut self, kind: OpKind, dims: &[Vec<Atom>]) {
        let next = Layout { dims: dims.to_vec(), unreduced: self.at.unreduced.clone() };
        self.go(kind, next);
    }

    fn append(&mut self, kind: OpKind, added: &[Vec<AxisRef>]) {
        let extend =
            |l: Layout, (dim, axes): (usize, &Vec<AxisRef>)| l.append(self.mesh, dim, axes);
        let next = added.iter().enumerate().fold(self.at.clone(), extend);
        self.go(kind, next);
    }

    /// Completes, kind by kind, pending axes that `to` splits by, each into its dimension; all
    /// other axes of the kind are completed before the next kind.
    fn scatter(&mut self, to: &Layout) {
        for partial in self.at.unreduced.clone() {
            let done = axes::subtract(self.mesh, &partial.axes, &to.unreduced_axes());
            let into = to.dims.iter().map(|d| axes::intersect(self.mesh, d, &done));
            let into: Vec<Vec<AxisRef>> = into.collect();
            let scattered = self.at.clone().without_pending(self.mesh, &into.concat());
            let next = into.iter().enumerate();
            let next = next.fold(scattered, |l, (dim, axes)| l.append(self.mesh, dim, axes));
            self.go(OpKind::ReduceScatter, next);
            let rest = self.at.clone().without_pending(self.mesh, &done);
            self.go(OpKind::AllReduce, rest);
        }
    }

    /// Completes everything that does not pend in `to`.
    fn complete(&mut self, to: &Layout) {
        for partial in self.at.unreduced.clone() {
            let done = axes::subtract(self.mesh, &partial.axes, &to.unreduced_axes());
            let next = self.at.clone().without_pending(self.mesh, &done);
            self.go(OpKind::AllReduce, next);
        }
    }
}
