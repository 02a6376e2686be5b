//! The algebra of axis lists: normal form, prefixes, suffixes and differences.
//!
//! A list is ordered major to minor. Two references to one axis are seen as ranges of its
//! factorisation: `"x":(p)s` covers the factors from `p` to `p·s`.

use crate::mesh::{AxisRef, Mesh};

/// Merges neighbours that continue each other and drops axes of size 1: `x:(1)2, x:(2)4` becomes
/// `x:(1)8`, and a part that covers its axis becomes the axis.
pub fn normalise(mesh: &Mesh, axes: &[AxisRef]) -> Vec<AxisRef> {
    let mut out: Vec<AxisRef> = Vec::with_capacity(axes.len());
    for &axis in axes {
        if axis.size(mesh) == 1 {
            continue;
        }
        match out.last_mut() {
            Some(last) if last.axis == axis.axis && end(mesh, *last) == axis.pre() => {
                *last = range(mesh, axis, last.pre(), end(mesh, axis));
            }
            _ => out.push(range(mesh, axis, axis.pre(), end(mesh, axis))),
        }
    }
    out
}

/// Sorts a list by axis and position, then merges: the normal form of a list used as a set.
pub fn normalise_set(mesh: &Mesh, axes: &[AxisRef]) -> Vec<AxisRef> {
    let mut sorted = axes.to_vec();
    sorted.sort_by_key(|a| (a.axis, a.pre()));
    normalise(mesh, &sorted)
}

/// Whether the two references share a factor of one axis.
pub fn overlap(mesh: &Mesh, a: AxisRef, b: AxisRef) -> bool {
    a.axis == b.axis && a.pre() < end(mesh, b) && b.pre() < end(mesh, a)
}

/// Whether two references to one axis can appear in one layout: they do not overlap, and the
/// minor one begins at a multiple of where the major one ends.
pub fn coexist(mesh: &Mesh, a: AxisRef, b: AxisRef) -> bool {
    let (major, minor) = if a.pre() <= b.pre() { (a, b) } else { (b, a) };
    a.axis != b.axis || minor.pre().is_multiple_of(end(mesh, major).max(1))
}

/// Whether every device coordinate along `inner` is part of the coordinate along `outer`.
pub fn contains(mesh: &Mesh, outer: AxisRef, inner: AxisRef) -> bool {
    outer.axis == inner.axis
        && outer.pre() <= inner.pre()
        && end(mesh, inner) <= end(mesh, outer)
        && inner.pre().is_multiple_of(outer.pre())
        && end(mesh, outer).is_multiple_of(end(mesh, inner))
}

/// What is left of `list` after its major part `prefix`, or `None` if it does not begin so.
///
/// A prefix may end inside an axis: `[x:(1)2]` is a prefix of `[x, y]` when `x` has 4 devices.
pub fn strip_prefix(mesh: &Mesh, list: &[AxisRef], prefix: &[AxisRef]) -> Option<Vec<AxisRef>> {
    let mut list = normalise(mesh, list);
    list.reverse();
    for part in normalise(mesh, prefix) {
        let head = list.pop()?;
        let (stop, cut) = (end(mesh, head), end(mesh, part));
        if head.axis != part.axis || head.pre() != part.pre() || !stop.is_multiple_of(cut) {
            return None;
        }
        if cut < stop {
            list.push(range(mesh, head, cut, stop));
        }
    }
    list.reverse();
    Some(list)
}

/// What is left of `list` before its minor part `suffix`, or `None` if it does not end so.
pub fn strip_suffix(mesh: &Mesh, list: &[AxisRef], suffix: &[AxisRef]) -> Option<Vec<AxisRef>> {
    let mut list = normalise(mesh, list);
    for part in normalise(mesh, suffix).into_iter().rev() {
        let tail = list.pop()?;
        let (start, cut) = (tail.pre(), part.pre());
        let same_end = tail.axis == part.axis && end(mesh, tail) == end(mesh, part);
        if !same_end || !cut.is_multiple_of(start) {
            return None;
        }
        if start < cut {
            list.push(range(mesh, tail, start, cut));
        }
    }
    Some(list)
}

/// Whether `prefix` is the major part of `list`, or all of it.
pub fn is_prefix(mesh: &Mesh, list: &[AxisRef], prefix: &[AxisRef]) -> bool {
    strip_prefix(mesh, list, prefix).is_some()
}

/// The longest common major part of two lists.
pub fn common_prefix(mesh: &Mesh, a: &[AxisRef], b: &[AxisRef]) -> Vec<AxisRef> {
    let (a, b) = (normalise(mesh, a), normalise(mesh, b));
    let mut out = Vec::new();
    for (&x, &y) in a.iter().zip(&b) {
        if x == y {
            out.push(x);
            continue;
        }
        let (short, long) = (end(mesh, x).min(end(mesh, y)), end(mesh, x).max(end(mesh, y)));
        if x.axis == y.axis && x.pre() == y.pre() && long.is_multiple_of(short) {
            out.push(range(mesh, x, x.pre(), short));
        }
        break;
    }
    out
}

/// The parts of `axes` that no reference in `removed` touches, in order.
///
/// A part that overlaps a removed one without sharing a factorisation with it is dropped whole,
/// as none of its coordinates are independent of the removed ones.
pub fn subtract(mesh: &Mesh, axes: &[AxisRef], removed: &[AxisRef]) -> Vec<AxisRef> {
    let mut left = axes.to_vec();
    for &cut in removed {
        left = left.iter().flat_map(|&axis| subtract_one(mesh, axis, cut)).flatten().collect();
    }
    normalise(mesh, &left)
}

/// The parts of `axes` that lie in some reference of `kept`, in order; nothing of a reference that
/// does not share a factorisation with it.
pub fn intersect(mesh: &Mesh, axes: &[AxisRef], kept: &[AxisRef]) -> Vec<AxisRef> {
    let mut kept = kept.to_vec();
    kept.sort_by_key(|a| (a.axis, a.pre()));
    let common = |axis: AxisRef| {
        kept.iter().filter_map(move |&other| {
            let (from, to) = (axis.pre().max(other.pre()), end(mesh, axis).min(end(mesh, other)));
            let part = (axis.axis == other.axis && from < to && to.is_multiple_of(from))
                .then(|| range(mesh, axis, from, to))?;
            (contains(mesh, axis, part) && contains(mesh, other, part)).then_some(part)
        })
    };
    let parts: Vec<AxisRef> = axes.iter().copied().flat_map(common).collect();
    normalise(mesh, &parts)
}

/// Whether the references of `part` are parts of those of `whole`, as sets.
pub fn is_subset(mesh: &Mesh, part: &[AxisRef], whole: &[AxisRef]) -> bool {
    let rest = subtract(mesh, whole, part);
    normalise_set(mesh, &[&rest[..], part].concat()) == normalise_set(mesh, whole)
}

/// What of `part` is not in `whole`, as sets; all of it where they do not share a factorisation.
pub fn outside(mesh: &Mesh, part: &[AxisRef], whole: &[AxisRef]) -> Vec<AxisRef> {
    if is_subset(mesh, part, whole) {
        return Vec::new();
    }
    let left = subtract(mesh, part, whole);
    if left.is_empty() { part.to_vec() } else { left }
}

/// The axes of the mesh that `used` leaves free, in mesh order.
pub fn free(mesh: &Mesh, used: &[AxisRef]) -> Vec<AxisRef> {
    let all: Vec<AxisRef> = mesh.whole_axes().collect();
    subtract(mesh, &all, used)
}

/// One past the most minor factor of a reference: skipped factors times its size.
pub fn end(mesh: &Mesh, axis: AxisRef) -> u64 {
    axis.pre().saturating_mul(axis.size(mesh))
}

/// The part of `axis`'s axis from `pre` to `end`, whole if it covers the axis.
fn range(mesh: &Mesh, axis: AxisRef, pre: u64, end: u64) -> AxisRef {
    if pre == 1 && end == mesh.axis_size(axis.axis) {
        AxisRef::whole(axis.axis)
    } else {
        AxisRef::part(axis.axis, pre, end / pre.max(1))
    }
}

fn subtract_one(mesh: &Mesh, axis: AxisRef, cut: AxisRef) -> [Option<AxisRef>; 2] {
    if !overlap(mesh, axis, cut) {
        return [Some(axis), None];
    }
    let (start, stop) = (axis.pre(), end(mesh, axis));
    let (from, to) = (cut.pre().max(start), end(mesh, cut).min(stop));
    let before =
        (start < from && from.is_multiple_of(start)).then(|| range(mesh, axis, start, from));
    let after = (to < stop && stop.is_multiple_of(to)).then(|| range(mesh, axis, to, stop));
    [before, after]
}
