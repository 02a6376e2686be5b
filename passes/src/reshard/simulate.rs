//! Runs the steps of a reshard on index sets: which part of the tensor every device holds, and
//! which contributions to a partial value it has summed.
//!
//! Only device numbers and the arguments of steps are used, not the algebra that planned them.

use super::{Op, Step};
use shardc_ir::layout::{Digit, Layout, block};
use shardc_ir::mesh::{AxisRef, Mesh};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What one device holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Index range per dimension.
    pub ranges: Vec<Bounds>,
    /// Contributions summed so far, by number; a complete value has all of them.
    pub contributions: BTreeSet<u64>,
}

/// A half-open range of indices that can be ordered.
pub type Bounds = (u64, u64);

/// Where a simulation ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// What every device holds.
    pub devices: Vec<Held>,
    /// Bytes each device sends in a ring over all steps, from the sizes that were held.
    pub wire_bytes: u64,
    /// Largest padded local size that was held, in elements.
    pub peak_elements: u64,
}

/// Runs `steps` from `from` on a tensor of extents `dims` and `bits` per element.
///
/// Errors say which step reads what its devices do not hold, sums a contribution twice, or permutes
/// to a device that no device can send to.
pub fn simulate(
    mesh: &Mesh,
    dims: &[u64],
    bits: u64,
    from: &Layout,
    steps: &[Step],
) -> Result<Simulated, String> {
    let mut run = Run { mesh, bits, devices: initial(mesh, dims, from) };
    let mut peak_elements = run.padded();
    let mut wire_bytes: u64 = 0;
    for (number, step) in steps.iter().enumerate() {
        let (before, held) = (run.bytes(), run.held());
        run.step(dims, step)
            .map_err(|why| format!("step {number}, {}: {why}", step.op.kind().name()))?;
        let group = mesh.size_of(&step.op.group_axes());
        let stays = step.op == Op::CollectivePermute && run.held() == held;
        let sent = step.op.kind().wire_bytes(before, run.bytes(), group);
        wire_bytes += if stays { 0 } else { sent };
        peak_elements = peak_elements.max(run.padded());
    }
    Ok(Simulated { devices: run.devices, wire_bytes, peak_elements })
}

/// What every device must hold for the value to be in layout `to`, after having started in `from`.
pub fn expected(mesh: &Mesh, dims: &[u64], from: &Layout, to: &Layout) -> Vec<Held> {
    let start = initial(mesh, dims, from);
    let kept = to.unreduced_axes();
    let class = |device: u64| -> Vec<u64> {
        kept.iter().map(|&axis| mesh.coordinate(device, axis)).collect()
    };
    let mut summed: BTreeMap<Vec<u64>, BTreeSet<u64>> = BTreeMap::new();
    for device in 0..mesh.devices() {
        summed.entry(class(device)).or_default().extend(&start[device as usize].contributions);
    }
    let held = |device: u64| Held {
        ranges: ranges(to.index_ranges(mesh, dims, device)),
        contributions: summed[&class(device)].clone(),
    };
    (0..mesh.devices()).map(held).collect()
}

/// Each device holds its part and its own contribution, numbered by its pending coordinates.
fn initial(mesh: &Mesh, dims: &[u64], layout: &Layout) -> Vec<Held> {
    let pending = layout.unreduced_axes();
    let contribution = |device: u64| {
        pending.iter().fold(0, |n, &axis| n * axis.size(mesh) + mesh.coordinate(device, axis))
    };
    let held = |device: u64| Held {
        ranges: ranges(layout.index_ranges(mesh, dims, device)),
        contributions: BTreeSet::from([contribution(device)]),
    };
    (0..mesh.devices()).map(held).collect()
}

fn ranges(ranges: Vec<Range<u64>>) -> Vec<Bounds> {
    ranges.into_iter().map(|r| (r.start, r.end)).collect()
}

struct Run<'a> {
    mesh: &'a Mesh,
    bits: u64,
    devices: Vec<Held>,
}

impl Run<'_> {
    fn step(&mut self, dims: &[u64], step: &Step) -> Result<(), String> {
        match &step.op {
            Op::AllGather { axes } => self.gather(&axes.concat()),
            Op::AllSlice { axes } => {
                self.same_along(&axes.concat())?;
                self.slice(axes);
                Ok(())
            }
            Op::AllToAll { moves } => {
                self.gather(&step.op.group_axes())?;
                let mut added = vec![Vec::new(); dims.len()];
                for m in moves {
                    added[m.tgt].clone_from(&m.axes);
                }
                self.slice(&added);
                Ok(())
            }
            Op::CollectivePermute => self.permute(dims, &step.out),
            Op::ReduceScatter { axes, .. } => {
                self.reduce(&axes.concat())?;
                self.slice(axes);
                Ok(())
            }
            Op::AllReduce { axes, .. } => self.reduce(axes),
        }
    }

    /// Every device takes the union of its group's parts, which must tile a box.
    fn gather(&mut self, axes: &[AxisRef]) -> Result<(), String> {
        for group in self.mesh.groups(axes) {
            let members: Vec<&Held> = group.iter().map(|&d| &self.devices[d as usize]).collect();
            let union = tile(&members)?;
            for &device in &group {
                self.devices[device as usize].ranges.clone_from(&union);
            }
        }
        Ok(())
    }

    fn same_along(&self, axes: &[AxisRef]) -> Result<(), String> {
        for group in self.mesh.groups(axes) {
            let first = &self.devices[group[0] as usize];
            if let Some(other) = group.iter().find(|&&d| self.devices[d as usize] != *first) {
                return Err(format!("devices {} and {other} hold different parts", group[0]));
            }
        }
        Ok(())
    }

    /// Every device keeps the part of each range that its digits along the axes name.
    fn slice(&mut self, axes: &[Vec<AxisRef>]) {
        for (device, held) in (0..).zip(&mut self.devices) {
            for (range, list) in held.ranges.iter_mut().zip(axes) {
                let digits = list.iter().flat_map(|&axis| self.mesh.digits(axis));
                let part = block(range.1 - range.0, digits.map(|d: Digit| (d.size, d.of(device))));
                *range = (range.0 + part.start, range.0 + part.end);
            }
        }
    }

    /// Every device sums its group's contributions, each of which must be there once.
    fn reduce(&mut self, axes: &[AxisRef]) -> Result<(), String> {
        for group in self.mesh.groups(axes) {
            let first = self.devices[group[0] as usize].ranges.clone();
            let mut summed = BTreeSet::new();
            for &device in &group {
                let held = &self.devices[device as usize];
                if held.ranges != first {
                    return Err(format!("devices {} and {device} sum different parts", group[0]));
                }
                if let Some(twice) = held.contributions.iter().find(|&&c| !summed.insert(c)) {
                    return Err(format!("contribution {twice} is summed twice"));
                }
            }
            for &device in &group {
                self.devices[device as usize].contributions.clone_from(&summed);
            }
        }
        Ok(())
    }

    /// Every device takes the part that `out` names, each part sent once per device that held it.
    fn permute(&mut self, dims: &[u64], out: &Layout) -> Result<(), String> {
        let mut count: BTreeMap<Held, i64> = BTreeMap::new();
        for held in &self.devices {
            *count.entry(held.clone()).or_default() += 1;
        }
        for (device, held) in (0..).zip(&mut self.devices) {
            held.ranges = ranges(out.index_ranges(self.mesh, dims, device));
            *count.entry(held.clone()).or_default() -= 1;
        }
        match count.iter().find(|(_, n)| **n != 0) {
            Some((held, _)) => Err(format!("part {:?} does not move one to one", held.ranges)),
            None => Ok(()),
        }
    }

    /// Elements of the box that covers the largest extent held in each dimension.
    fn padded(&self) -> u64 {
        let rank = self.devices.first().map_or(0, |held| held.ranges.len());
        let extent =
            |dim: usize| self.devices.iter().map(|h| h.ranges[dim].1 - h.ranges[dim].0).max();
        (0..rank).map(|dim| extent(dim).unwrap_or(0)).product()
    }

    /// The part of every device that holds any.
    fn held(&self) -> Vec<Option<Vec<Bounds>>> {
        let part = |held: &Held| {
            let any = held.ranges.iter().all(|(start, end)| start < end);
            any.then(|| held.ranges.clone())
        };
        self.devices.iter().map(part).collect()
    }

    fn bytes(&self) -> u64 {
        (self.padded() * self.bits).div_ceil(8)
    }
}

/// The box that the members' parts tile without gap or overlap, with equal contributions.
fn tile(members: &[&Held]) -> Result<Vec<Bounds>, String> {
    let volume = |ranges: &[Bounds]| ranges.iter().map(|r| r.1 - r.0).product::<u64>();
    let full: Vec<&Vec<Bounds>> =
        members.iter().map(|m| &m.ranges).filter(|ranges| volume(ranges) > 0).collect();
    let Some(first) = full.first() else { return Ok(empty_hull(members)) };
    let mut hull = (*first).clone();
    for (dim, bounds) in hull.iter_mut().enumerate() {
        bounds.0 = full.iter().map(|r| r[dim].0).min().unwrap_or(bounds.0);
        bounds.1 = full.iter().map(|r| r[dim].1).max().unwrap_or(bounds.1);
    }
    let apart = |a: &[Bounds], b: &[Bounds]| a.iter().zip(b).any(|(x, y)| x.1 <= y.0 || y.1 <= x.0);
    let overlaps = (0..full.len()).any(|i| (0..i).any(|j| !apart(full[i], full[j])));
    let covered: u64 = full.iter().map(|ranges| volume(ranges)).sum();
    if overlaps || covered != volume(&hull) {
        return Err("the parts of a group do not tile a box".to_string());
    }
    if members.iter().any(|m| m.contributions != members[0].contributions) {
        return Err("the parts of a group have different contributions".to_string());
    }
    Ok(hull)
}

/// The hull of parts that are all empty: per dimension the longest range.
fn empty_hull(members: &[&Held]) -> Vec<Bounds> {
    let rank = members.first().map_or(0, |m| m.ranges.len());
    let hull = |dim: usize| {
        let starts = members.iter().map(|m| m.ranges[dim].0).min();
        let ends = members.iter().map(|m| m.ranges[dim].1).max();
        (starts.unwrap_or(0), ends.unwrap_or(0))
    };
    (0..rank).map(hull).collect()
}
