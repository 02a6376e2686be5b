//! Placement and collectives: parts move between devices.

use super::spread::{Spread, exchange, reduce};
use crate::held::Held;
use crate::place::Place;
use crate::tensor::Tensor;
use shardc_ir::attr::AxisList;
use shardc_ir::layout::{Layout, axes};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;

/// A side of a collective: the layout, and what it means on every device.
pub(super) struct End<'a> {
    pub(super) layout: &'a Layout,
    pub(super) places: &'a [Place],
}

/// The value after an operator that only places or moves it; `None` for other operators.
///
/// # Errors
/// A device needs what no member of its group holds.
pub(super) fn apply(
    op: &Op,
    mesh: &Mesh,
    from: &End<'_>,
    to: &End<'_>,
    spread: &[Held],
) -> Option<Result<Spread, String>> {
    // A whole run has one device, whatever axes the program names.
    let over = |axes: &[AxisRef]| mesh.groups(&known(mesh, axes));
    let move_in =
        |groups: Vec<Vec<u64>>, spread: &[Held]| exchange(&groups, from.places, to.places, spread);
    Some(match op {
        Op::Constraint(_) => move_in(over(&[]), spread),
        Op::AllSlice(_) => move_in(over(&[]), spread),
        Op::AllGather(a) => move_in(over(&flat(&a.axes)), spread),
        Op::AllToAll(a) => {
            let axes: Vec<AxisRef> = a.moves.iter().flat_map(|m| m.axes.clone()).collect();
            move_in(over(&axes), spread)
        }
        Op::AllReduce(a) => reduce(mesh, &over(&a.axes.0), a.kind, spread),
        Op::ReduceScatter(a) => reduce(mesh, &over(&flat(&a.axes)), a.kind, spread)
            .and_then(|complete| move_in(over(&[]), &complete)),
        Op::CollectivePermute(_) => permute(mesh, from, to, spread),
        Op::Reshard(_) => reshard(mesh, from, to, spread),
        Op::ToPartial(a) => Ok(to_partial(mesh, &a.axes.0, spread)),
        _ => return None,
    })
}

/// The axes that the mesh has.
fn known(mesh: &Mesh, axes: &[AxisRef]) -> Vec<AxisRef> {
    axes.iter().copied().filter(|a| usize::from(a.axis.0) < mesh.axes.len()).collect()
}

fn flat(lists: &[AxisList]) -> Vec<AxisRef> {
    lists.iter().flat_map(|list| list.0.iter().copied()).collect()
}

/// The first device along the axes keeps the value, the others hold zeros.
fn to_partial(mesh: &Mesh, axes: &[AxisRef], spread: &[Held]) -> Spread {
    let zero = |t: &Tensor| Tensor::filled(t.shape(), 0.0);
    let keeps = |device: u64| axes.iter().all(|&axis| mesh.coordinate(device, axis) == 0);
    let held = |(device, held): (u64, &Held)| {
        if keeps(device) { held.clone() } else { held.each(zero) }
    };
    (0..).zip(spread).map(held).collect()
}

/// Every device receives its new part from one device that holds exactly that, and every device
/// sends once; contributions to a pending reduction stay apart.
fn permute(mesh: &Mesh, from: &End<'_>, to: &End<'_>, spread: &[Held]) -> Result<Spread, String> {
    let pending = from.layout.unreduced_axes();
    let contribution = |device: usize| -> Vec<u64> {
        pending.iter().map(|&axis| mesh.coordinate(device as u64, axis)).collect()
    };
    let mut sent = vec![false; spread.len()];
    let mut receive = |device: usize| {
        let fits = |&source: &usize| {
            !sent[source]
                && from.places[source] == to.places[device]
                && contribution(source) == contribution(device)
        };
        let source = (0..spread.len()).find(fits).ok_or_else(|| {
            format!("no device sends {:?} to device {device}", to.places[device].ranges)
        })?;
        sent[source] = true;
        Ok(spread[source].clone())
    };
    (0..spread.len()).map(&mut receive).collect()
}

/// Completes the reductions that no longer pend, in order, then moves parts among all devices with
/// the same contributions.
fn reshard(mesh: &Mesh, from: &End<'_>, to: &End<'_>, spread: &[Held]) -> Result<Spread, String> {
    let mut complete = spread.to_vec();
    for partial in &from.layout.unreduced {
        let done = axes::subtract(mesh, &partial.axes, &to.layout.pending(partial.kind));
        complete = reduce(mesh, &mesh.groups(&known(mesh, &done)), partial.kind, &complete)?;
    }
    let together = axes::free(mesh, &to.layout.unreduced_axes());
    exchange(&mesh.groups(&together), from.places, to.places, &complete)
}
