//! Where a search begins when the two layouts cut an axis in ways that do not factor it together,
//! as `x:(1)2` and `x:(1)3` of an axis of 6.
//!
//! The space speaks the target's cuts only. The source enters it by a permute, which replaces all
//! its axes by others, by slicing along the rest of the torn axes until they are whole, or by
//! gathering the torn axes away.

use super::Request;
use super::fallback::Way;
use super::moves::hub_entry;
use super::op::OpKind;
use super::space::{MAX_DIMS, Space, State};
use super::units::{Cuts, places_evenly};
use shardc_ir::layout::{Layout, axes};

/// The states in `space` that stand for the source, each with the steps that lead there; a hub
/// also stands for the first half of a permute.
pub fn starts(request: &Request<'_>, cuts: &Cuts, space: &Space<'_>) -> Vec<(State, Way)> {
    let from = request.from;
    if cuts.torn.is_empty() {
        return space.state(from).map(|state| (state, Way::new())).into_iter().collect();
    }
    let mesh = request.mesh;
    let done = axes::subtract(mesh, &from.unreduced_axes(), &request.to.unreduced_axes());
    let torn = axes::intersect(mesh, &done, &cuts.torn);
    let completed = from.clone().without_pending(mesh, &torn).normalise(mesh);
    let mut way = Way::new();
    if completed != *from {
        way.push((OpKind::AllReduce, completed.clone()));
    }
    let hub = hub(request, space, &completed).map(|state| (state, way.clone()));
    let enter = |kind, layout: Layout| {
        let mut way = way.clone();
        if layout != completed {
            way.push((kind, layout.clone()));
        }
        let cut = places_evenly(mesh, &cuts.atoms, &layout, request.dims);
        space.state(&layout).filter(|_| cut).map(|state| (state, way))
    };
    let sliced = enter(OpKind::AllSlice, made_whole(request, cuts, &completed));
    let gathered = enter(OpKind::AllGather, without_torn(request, cuts, &completed));
    hub.into_iter().chain(sliced).chain(gathered).collect()
}

/// The layout with the free rest of each torn axis appended to the dimension whose minor end it
/// continues, where that splits evenly.
fn made_whole(request: &Request<'_>, cuts: &Cuts, layout: &Layout) -> Layout {
    let mesh = request.mesh;
    let mut out = layout.clone();
    for (dim, &extent) in request.dims.iter().enumerate() {
        let Some(&last) = layout.dims[dim].last() else { continue };
        let free = axes::intersect(mesh, &out.replicated_axes(mesh), &cuts.torn);
        let rest = free.iter().find(|a| a.axis == last.axis && a.pre() == axes::end(mesh, last));
        let Some(&rest) = rest else { continue };
        let longer = out.clone().append(mesh, dim, &[rest]);
        if extent.is_multiple_of(longer.sharded_factor(mesh, dim)) {
            out = longer;
        }
    }
    out
}

fn hub(request: &Request<'_>, space: &Space<'_>, layout: &Layout) -> Option<State> {
    let mut hub = State { dims: [0; MAX_DIMS], pending: 0, hub: true };
    for (at, &dim) in space.dims.iter().enumerate() {
        let primes: Vec<u64> =
            layout.digits(request.mesh, dim).iter().map(|digit| digit.size).collect();
        hub.dims[at] = hub_entry(space, at, &primes)?;
    }
    let pending =
        Layout { dims: vec![Vec::new(); space.rank], unreduced: layout.unreduced.clone() };
    hub.pending = space.state(&pending)?.pending;
    Some(hub)
}

/// The layout with every dimension gathered down to what comes before its first torn axis.
fn without_torn(request: &Request<'_>, cuts: &Cuts, layout: &Layout) -> Layout {
    let mut out = layout.clone();
    for list in &mut out.dims {
        let torn = |axis| cuts.torn.iter().any(|&t| axes::overlap(request.mesh, t, axis));
        let first = list.iter().position(|&axis| torn(axis));
        list.truncate(first.unwrap_or(list.len()));
    }
    out
}
