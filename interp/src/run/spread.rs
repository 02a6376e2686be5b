//! A value spread over devices: what each holds, and moving boxes between them.

use crate::held::Held;
use crate::place::Place;
use crate::tensor::{Tensor, for_each_index, strides, volume};
use shardc_ir::layout::{Layout, ReduceKind};
use shardc_ir::mesh::Mesh;
use std::ops::Range;

/// What every device holds, by device number.
pub(super) type Spread = Vec<Held>;

/// What every device holds of a whole tensor.
pub(super) fn scatter(whole: &Tensor, places: &[Place]) -> Spread {
    places.iter().map(|place| whole.part(&place.ranges).into()).collect()
}

/// The whole tensor of a value, pending reductions completed.
///
/// # Errors
/// The parts do not make up the whole, or are contributions to another reduction than the layout
/// says.
pub(super) fn gather(
    mesh: &Mesh,
    layout: &Layout,
    places: &[Place],
    spread: &[Held],
) -> Result<Tensor, String> {
    let pending = layout.unreduced_axes();
    let complete = match layout.unreduced.first() {
        None => spread.to_vec(),
        Some(partial) => reduce(mesh, &mesh.groups(&pending), partial.kind, spread)?,
    };
    let complete: Spread = complete.into_iter().map(Held::finish).collect();
    let sources: Vec<(&Place, &Held)> = places.iter().zip(&complete).collect();
    collect(&Place::all(&places[0].whole), &sources)?.plain().cloned()
}

/// Every device takes its part `to` of what the members of its group hold.
///
/// # Errors
/// Some part is held by no member.
pub(super) fn exchange(
    groups: &[Vec<u64>],
    from: &[Place],
    to: &[Place],
    spread: &[Held],
) -> Result<Spread, String> {
    let mut out: Vec<Option<Held>> = vec![None; spread.len()];
    for group in groups {
        let members = group.iter().map(|&d| d as usize);
        let sources: Vec<(&Place, &Held)> =
            members.clone().map(|d| (&from[d], &spread[d])).collect();
        for device in members {
            let part = collect(&to[device], &sources);
            out[device] = Some(part.map_err(|cause| format!("device {device}: {cause}"))?);
        }
    }
    complete(out)
}

/// Every member of a group gets the reduction of what all hold, in group order.
///
/// # Errors
/// Members hold parts that do not reduce with one another.
pub(super) fn reduce(
    mesh: &Mesh,
    groups: &[Vec<u64>],
    kind: ReduceKind,
    spread: &[Held],
) -> Result<Spread, String> {
    debug_assert_eq!(mesh.devices(), spread.len() as u64);
    let mut out: Vec<Option<Held>> = vec![None; spread.len()];
    for group in groups {
        let mut members = group.iter().map(|&d| &spread[d as usize]);
        let Some(first) = members.next() else { continue };
        let sum = members.try_fold(first.clone(), |sum, next| sum.merge(next, kind))?;
        group.iter().for_each(|&d| out[d as usize] = Some(sum.clone()));
    }
    complete(out)
}

fn complete(out: Vec<Option<Held>>) -> Result<Spread, String> {
    let device = out.iter().position(Option::is_none);
    let lost = || format!("device {} is in no group", device.unwrap_or_default());
    out.into_iter().collect::<Option<Spread>>().ok_or_else(lost)
}

/// The part `place`, put together from boxes that hold its elements; equal boxes are copies.
fn collect(place: &Place, sources: &[(&Place, &Held)]) -> Result<Held, String> {
    if let Some((_, held)) = sources.iter().find(|(source, _)| source.ranges == place.ranges) {
        return Ok((*held).clone());
    }
    let mut distinct: Vec<&(&Place, &Held)> = Vec::new();
    for source in sources {
        if !distinct.iter().any(|(known, _)| known.ranges == source.0.ranges) {
            distinct.push(source);
        }
    }
    let boxes: Vec<Vec<Range<usize>>> = distinct.iter().map(|s| place.overlap(s.0)).collect();
    let size = |ranges: &Vec<Range<usize>>| ranges.iter().map(Range::len).product::<usize>();
    let (have, need) = (boxes.iter().map(size).sum::<usize>(), volume(&place.shape()));
    if have != need {
        return Err(format!("of {:?}, {have} of {need} elements are at hand", place.ranges));
    }
    let helds: Vec<&Held> = distinct.iter().map(|s| s.1).collect();
    Held::together(&helds, |tensors| {
        let mut data = vec![f64::NAN; need];
        let pieces = tensors.iter().zip(&boxes).zip(&distinct);
        for ((tensor, ranges), source) in pieces.filter(|((_, ranges), _)| size(ranges) > 0) {
            let part = tensor.part(&source.0.relative(ranges));
            put(&mut data, place, ranges, &part);
        }
        Tensor::new(place.shape(), data)
    })
}

/// Writes the box `ranges` of a part.
fn put(data: &mut [f64], place: &Place, ranges: &[Range<usize>], part: &Tensor) {
    let strides = strides(&place.shape());
    let start: Vec<usize> = place.relative(ranges).iter().map(|r| r.start).collect();
    let mut elements = part.data().iter();
    for_each_index(part.shape(), |at| {
        let to: usize = at.iter().zip(&start).zip(&strides).map(|((i, s), n)| (i + s) * n).sum();
        if let Some(&x) = elements.next() {
            data[to] = x;
        }
    });
}

/// A device whose copy differs from that of an earlier one; copies lie along the axes that neither
/// split the value nor pend.
pub(super) fn differing_copies(mesh: &Mesh, layout: &Layout, spread: &[Held]) -> Option<[u64; 2]> {
    let groups = mesh.groups(&layout.replicated_axes(mesh));
    let differ = |a: u64, b: u64| {
        let (a, b) = (&spread[a as usize], &spread[b as usize]);
        let mut pairs = a.components().iter().zip(b.components());
        pairs.any(|(a, b)| a.distance(b) > COPY_TOLERANCE)
    };
    let mut pairs = groups.iter().flat_map(|g| g.iter().skip(1).map(move |&d| [g[0], d]));
    pairs.find(|&[a, b]| differ(a, b))
}

/// Copies come from equal sums, but not always in equal order.
const COPY_TOLERANCE: f64 = 1e-9;
