//! The fewest bytes that the worst device must receive, whatever the steps.
//!
//! While searching, splits are taken as even, which never exceeds what padded steps carry where
//! parts have elements at all; the bound of a whole reshard counts what devices hold too.

use super::Request;
use shardc_ir::layout::{Digit, Layout, axes, block};
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
///
/// It is the less of two: what the worst device lacks, counted in elements, and the same with splits
/// taken as even. Padded steps count a fraction of an element that a device may hold one more of, so
/// that the first alone can exceed them.
pub fn lower_bound(request: &Request<'_>, alike: bool) -> u64 {
    let Request { mesh, dims, bits, from, to } = *request;
    let total = dims.iter().fold(u128::from(bits), |n, &d| n.saturating_mul(u128::from(d)));
    let done = axes::subtract(mesh, &from.unreduced_axes(), &to.unreduced_axes());
    if !done.is_empty() {
        let devices = mesh.devices() / mesh.size_of(&to.unreduced_axes());
        return ring_bound(total, mesh.size_of(&done), devices, to.shards(mesh));
    }
    let parts = |dim: usize| [from, to].map(|layout| layout.sharded_factor(mesh, dim));
    let ideal = if alike { nested_bound(request, total) } else { even_bound(request, total) };
    let splits_evenly = |(dim, n): (usize, &u64)| parts(dim).iter().all(|&p| n.is_multiple_of(p));
    if dims.iter().enumerate().all(splits_evenly) {
        return ideal;
    }
    ideal.min(bytes(missing(request, dims), bits))
}

/// The bound with splits taken as even, read off the axis lists.
fn nested_bound(request: &Request<'_>, total_bits: u128) -> u64 {
    let Request { mesh, from, to, .. } = *request;
    let mut nested = from.dims.iter().zip(&to.dims).map(|(a, b)| {
        let nests = axes::is_prefix(mesh, a, b) || axes::is_prefix(mesh, b, a);
        nests.then(|| mesh.size_of(a).max(mesh.size_of(b)))
    });
    let joint = nested.try_fold(1, |joint: u64, parts| Some(joint.saturating_mul(parts?)));
    receive_bound(total_bits, to.shards(mesh), joint)
}

/// As [`nested_bound`], counted device by device on extents that every split divides.
pub fn even_bound(request: &Request<'_>, total_bits: u128) -> u64 {
    let Request { mesh, from, to, .. } = *request;
    let parts = |(a, b): (&Vec<AxisRef>, &Vec<AxisRef>)| mesh.size_of(a) * mesh.size_of(b);
    let extents: Vec<u64> = from.dims.iter().zip(&to.dims).map(parts).collect();
    let all = extents.iter().fold(8, |n: u128, &e| n.saturating_mul(u128::from(e)));
    let bits = total_bits.saturating_mul(u128::from(missing(request, &extents)));
    u64::try_from(bits.div_ceil(all)).unwrap_or(u64::MAX)
}

/// Devices that [`missing`] looks at.
const DEVICES: usize = 4096;

/// The most elements of its part of the target that a device does not hold before, in a tensor of
/// `extents`. Of more than [`DEVICES`] devices that differ, as many are looked at, spread over the
/// mesh.
fn missing(request: &Request<'_>, extents: &[u64]) -> u64 {
    let Request { mesh, from, to, .. } = *request;
    let used = [from.axes_used(), to.axes_used()].concat();
    let differ = mesh.whole_axes().filter(|axis| used.iter().any(|u| u.axis == axis.axis));
    let devices = mesh.offsets(&differ.collect::<Vec<_>>());
    let digits = |layout: &Layout| -> Vec<Vec<Digit>> {
        (0..extents.len()).map(|dim| layout.digits(mesh, dim)).collect()
    };
    let (before, after) = (digits(from), digits(to));
    let of = |&device: &u64| {
        let part = |digits: &[Digit], extent| {
            block(extent, digits.iter().map(|digit| (digit.size, digit.of(device))))
        };
        let (mut wanted, mut common) = (1u64, 1u64);
        for (dim, &extent) in extents.iter().enumerate() {
            let (a, b) = (part(&before[dim], extent), part(&after[dim], extent));
            wanted = wanted.saturating_mul(b.end - b.start);
            common = common.saturating_mul(a.end.min(b.end).saturating_sub(a.start.max(b.start)));
        }
        wanted - common
    };
    let stride = devices.len().div_ceil(DEVICES).max(1);
    devices.iter().step_by(stride).map(of).max().unwrap_or(0)
}
