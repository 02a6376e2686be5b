//! What collectives do to layouts, and which collective leads from one layout to another.

use crate::optimize_collectives::effect;
use shardc_ir::attr::AxisList;
use shardc_ir::dim::Dim;
use shardc_ir::layout::{Layout, Partial, ReduceKind, axes, refines};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;
use shardc_ir::ops::collective::{AllGather, AllReduce, AllSlice, AllToAll, Move, ReduceScatter};
use shardc_ir::ops::placement::ToPartial;

/// Whether an operator leaves the value as it is and only changes how devices hold it.
pub(super) fn is_exchange(op: &Op) -> bool {
    op.is_exchange() || matches!(op, Op::ToPartial(_) | Op::Constraint(_))
}

/// The layout that an exchange leaves of a value with these extents; `None` where it does not fit.
pub(super) fn after(op: &Op, from: &Layout, dims: &[Dim], mesh: &Mesh) -> Option<Layout> {
    if let Op::ToPartial(partial) = op {
        return made_partial(from, &partial.axes.0, mesh);
    }
    if !completes(op, from, mesh) {
        return None;
    }
    let to = effect::after(op, from, mesh)?;
    (to != *from && nest(from, &to, dims, mesh)).then_some(to)
}

fn made_partial(from: &Layout, added: &[AxisRef], mesh: &Mesh) -> Option<Layout> {
    let used = from.axes_used();
    let free = added.iter().all(|a| used.iter().all(|b| !axes::overlap(mesh, *a, *b)));
    let plain = from.unreduced.iter().all(|p| p.kind == ReduceKind::Sum);
    (free && plain && !added.is_empty()).then(|| {
        let pending = [&from.unreduced_axes()[..], added].concat();
        let sum = Partial { kind: ReduceKind::Sum, axes: pending };
        Layout { dims: from.dims.clone(), unreduced: vec![sum] }.normalise(mesh)
    })
}

/// Whether what a reduction completes pends, outermost kinds last.
fn completes(op: &Op, from: &Layout, mesh: &Mesh) -> bool {
    let (kind, done) = match op {
        Op::AllReduce(op) => (op.kind, op.axes.0.clone()),
        Op::ReduceScatter(op) => (op.kind, effect::flat(&op.axes)),
        _ => return true,
    };
    let first = from.unreduced.first();
    !done.is_empty()
        && first.is_some_and(|p| p.kind == kind && axes::is_subset(mesh, &done, &p.axes))
}

/// Whether the parts of both layouts lie inside one another in every dimension.
fn nest(from: &Layout, to: &Layout, dims: &[Dim], mesh: &Mesh) -> bool {
    from.dims.iter().zip(&to.dims).zip(dims).all(|((a, b), extent)| {
        let common = axes::common_prefix(mesh, a, b);
        let goes_on = |list| refines(mesh, extent.known_factor(), list, &common);
        goes_on(a) && goes_on(b)
    })
}

/// The collective of that name that leads from one layout to another, if one does.
pub(super) fn between(name: &str, from: &Layout, to: &Layout, mesh: &Mesh) -> Option<Op> {
    match name {
        "all_slice" => Some(Op::AllSlice(AllSlice { axes: added(from, to, mesh)? })),
        "all_gather" => Some(Op::AllGather(AllGather { axes: added(to, from, mesh)? })),
        "all_reduce" => {
            let (kind, axes) = completed(from, to, mesh)?;
            let same = from.dims == to.dims;
            same.then_some(Op::AllReduce(AllReduce { kind, axes: AxisList(axes) }))
        }
        "reduce_scatter" => {
            let (kind, axes) = completed(from, to, mesh)?;
            let lists = lists(from, to, mesh)?;
            let scattered = axes::normalise_set(mesh, &effect::flat(&lists));
            let all = scattered == axes::normalise_set(mesh, &axes);
            all.then_some(Op::ReduceScatter(ReduceScatter { kind, axes: lists }))
        }
        "all_to_all" => exchanged(from, to, mesh),
        "to_partial" => {
            let axes = axes::outside(mesh, &to.unreduced_axes(), &from.unreduced_axes());
            let fits = from.dims == to.dims && made_partial(from, &axes, mesh)? == *to;
            fits.then_some(Op::ToPartial(ToPartial { axes: AxisList(axes) }))
        }
        _ => None,
    }
}

/// What `to` appends to every dimension of `from`; `None` if nothing, or if more differs.
fn added(from: &Layout, to: &Layout, mesh: &Mesh) -> Option<Vec<AxisList>> {
    (from.unreduced == to.unreduced && from != to).then(|| lists(from, to, mesh)).flatten()
}

fn lists(from: &Layout, to: &Layout, mesh: &Mesh) -> Option<Vec<AxisList>> {
    let dims = from.dims.iter().zip(&to.dims);
    dims.map(|(a, b)| axes::strip_prefix(mesh, b, a).map(AxisList)).collect()
}

/// Kind and axes of what pends in `from` and not in `to`.
fn completed(from: &Layout, to: &Layout, mesh: &Mesh) -> Option<(ReduceKind, Vec<AxisRef>)> {
    let first = from.unreduced.first()?;
    let done = axes::outside(mesh, &first.axes, &to.pending(first.kind));
    let mut done = axes::normalise(mesh, &done);
    done.sort_unstable_by_key(|a| (a.axis, a.pre()));
    let left = from.clone().without_pending(mesh, &done).normalise(mesh);
    (!done.is_empty() && left.unreduced == to.unreduced).then_some((first.kind, done))
}

/// One move of axes from the minor end of one dimension to that of another.
fn exchanged(from: &Layout, to: &Layout, mesh: &Mesh) -> Option<Op> {
    let changed: Vec<usize> =
        (0..from.dims.len()).filter(|&d| from.dims[d] != to.dims[d]).collect();
    let [a, b] = changed[..] else { return None };
    let moved = |src: usize, tgt: usize| {
        let left = axes::strip_prefix(mesh, &from.dims[src], &to.dims[src])?;
        let got = axes::strip_prefix(mesh, &to.dims[tgt], &from.dims[tgt])?;
        let moves = vec![Move { axes: left.clone(), src, tgt }];
        (left == got && !left.is_empty()).then_some(Op::AllToAll(AllToAll { moves }))
    };
    (from.unreduced == to.unreduced).then(|| moved(a, b).or_else(|| moved(b, a))).flatten()
}
