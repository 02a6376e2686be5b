//! The fewest bytes that the worst device must receive, whatever the steps.
//!
//! Splits are taken as even here, which never exceeds what padded steps carry.

use super::Request;
use shardc_ir::layout::axes;
use shardc_ir::mesh::AxisRef;

/// Bytes of `elements` elements of `bits` bits, rounded up, saturating.
pub fn bytes(elements: u64, bits: u64) -> u64 {
    let total = u128::from(elements) * u128::from(bits);
    u64::try_from(total.div_ceil(8)).unwrap_or(u64::MAX)
}

/// Bytes the worst device receives to own its part of the target: its part less what it owns.
///
/// `total_bits` is the size of the tensor, `shards` the target's parts, and `joint` the parts of
/// the common refinement where both split every dimension in a nested way. Where some dimension
/// is not nested, a device exists that owns nothing of its target. Splits are taken as even, which
/// never exceeds what padded steps carry.
pub fn receive_bound(total_bits: u128, shards: u64, joint: Option<u64>) -> u64 {
    let shards = u128::from(shards.max(1));
    let bits = match joint {
        None => (total_bits, shards),
        Some(joint) => {
            let joint = u128::from(joint.max(1));
            (total_bits.saturating_mul(joint / shards - 1), joint)
        }
    };
    u64::try_from(bits.0.div_ceil(bits.1 * 8)).unwrap_or(u64::MAX)
}

/// Bytes the worst device receives to complete a value pending over `group` of `devices` devices.
///
/// Each element takes `group - 1` messages to complete once and one more for every further copy,
/// of which the target keeps `devices / shards`; the mean over devices bounds the worst. And
/// each device must receive all of its part, as its own contribution is not complete.
pub fn ring_bound(total_bits: u128, group: u64, devices: u64, shards: u64) -> u64 {
    let copies = devices / shards.max(1);
    let messages = u128::from((group + copies).saturating_sub(2));
    let mean = total_bits.saturating_mul(messages).div_ceil(u128::from(devices.max(1)) * 8);
    let own = total_bits.div_ceil(u128::from(shards.max(1)) * 8);
    u64::try_from(mean.max(own)).unwrap_or(u64::MAX)
}

/// The bound for a whole reshard; `alike` says that both layouts cut every axis alike.
pub fn lower_bound(request: &Request<'_>, alike: bool) -> u64 {
    let Request { mesh, dims, bits, from, to } = *request;
    let total = dims.iter().fold(u128::from(bits), |n, &d| n.saturating_mul(u128::from(d)));
    let done = axes::subtract(mesh, &from.unreduced_axes(), &to.unreduced_axes());
    let shards = to.shards(mesh);
    if !done.is_empty() {
        let devices = mesh.devices() / mesh.size_of(&to.unreduced_axes());
        return ring_bound(total, mesh.size_of(&done), devices, shards);
    }
    if !alike {
        return overlap_bound(request, total);
    }
    let mut nested = from.dims.iter().zip(&to.dims).map(|(a, b)| {
        let nests = axes::is_prefix(mesh, a, b) || axes::is_prefix(mesh, b, a);
        nests.then(|| mesh.size_of(a).max(mesh.size_of(b)))
    });
    let joint = nested.try_fold(1, |joint: u64, parts| Some(joint.saturating_mul(parts?)));
    receive_bound(total, shards, joint)
}

/// Devices that [`overlap_bound`] looks at.
const DEVICES: u64 = 4096;

/// Bytes the worst of the first [`DEVICES`] devices receives: its part of the target less what that
/// has in common with its part of the source.
pub fn overlap_bound(request: &Request<'_>, total_bits: u128) -> u64 {
    let Request { mesh, from, to, .. } = *request;
    let (before, after) = (u128::from(from.shards(mesh)), u128::from(to.shards(mesh)));
    let position = |axes: &[AxisRef], device: u64| {
        let digit = |n: u64, &axis: &AxisRef| n * axis.size(mesh) + mesh.coordinate(device, axis);
        axes.iter().fold(0, digit)
    };
    let common = |device: u64| -> u128 {
        let lengths = from.dims.iter().zip(&to.dims).map(|(a, b)| {
            let (f, t) = (mesh.size_of(a), mesh.size_of(b));
            let (i, j) = (position(a, device), position(b, device));
            u128::from(((i + 1) * t).min((j + 1) * f).saturating_sub((i * t).max(j * f)))
        });
        lengths.product()
    };
    let least = (0..mesh.devices().min(DEVICES)).map(common).min().unwrap_or(before);
    let bits = total_bits.saturating_mul(before - least.min(before));
    u64::try_from(bits.div_ceil(before * after * 8)).unwrap_or(u64::MAX)
}
