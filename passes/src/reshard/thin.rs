//! Dimensions with fewer elements than parts, where different layouts can hold the same.
//!
//! Once every part of a dimension has at most one element, a further axis leaves it to the devices at
//! its coordinate 0, whichever the axis and in whichever order: one row over `x=2,y=2` is on device 0
//! under `[{x, y}]` and under `[{y, x}]`. A permute between the two sends nothing, and what is still
//! missing has to be counted from what devices hold.

use super::Request;
use super::space::{MAX_DIMS, Space, State};
use shardc_ir::layout::{Layout, block};
use shardc_ir::mesh::Mesh;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Devices up to which a search looks at what each of them holds.
const DEVICES: u64 = 64;

/// A half-open range of indices per device.
type Ranges = Rc<[(u64, u64)]>;

/// What devices hold, by dimension and units, as far as it was asked for.
#[derive(Debug, Default)]
pub struct Held {
    known: RefCell<BTreeMap<(usize, u64), Ranges>>,
}

/// Whether an end of the reshard splits a dimension again where its parts have no more than one
/// element, on a mesh small enough to look at every device.
pub fn is_thin(mesh: &Mesh, extents: &[u64], ends: [&Layout; 2]) -> bool {
    let repeats = |layout: &Layout| {
        extents.iter().enumerate().any(|(dim, &extent)| {
            let last = layout.digits(mesh, dim).last().map_or(1, |digit| digit.size);
            let parts = layout.sharded_factor(mesh, dim);
            parts > 1 && parts / last >= extent
        })
    };
    mesh.devices() <= DEVICES && ends.into_iter().any(repeats)
}

/// Whether every device holds the same elements under both layouts, which pend alike.
pub fn holds_the_same(request: &Request<'_>, before: &Layout, after: &Layout) -> bool {
    let Request { mesh, dims, .. } = *request;
    if before.dims == after.dims {
        return true;
    }
    let parts = |dim| before.sharded_factor(mesh, dim).max(after.sharded_factor(mesh, dim));
    if (0..dims.len()).all(|dim| dims[dim] >= parts(dim)) {
        return false;
    }
    (0..mesh.devices()).all(|device| {
        let held = |layout: &Layout| {
            let ranges = layout.index_ranges(mesh, dims, device);
            Some(ranges).filter(|ranges| ranges.iter().all(|r| !r.is_empty()))
        };
        held(before) == held(after)
    })
}

impl Space<'_> {
    /// As [`holds_the_same`], for two layouts in units.
    pub fn held_alike(&self, a: &State, b: &State) -> bool {
        let (a, b) = (self.held(a), self.held(b));
        let nonempty = |of: &[Ranges], device: usize| of.iter().all(|r| r[device].0 < r[device].1);
        (0..self.mesh.devices() as usize).all(|device| match nonempty(&a, device) {
            true => a.iter().zip(&b).all(|(x, y)| x[device] == y[device]),
            false => !nonempty(&b, device),
        })
    }

    /// The most elements of its part of the goal that a device does not hold.
    pub fn missing(&self, state: &State) -> u64 {
        let (now, goal) = (self.held(state), self.held(&self.goal));
        let of = |device: usize| {
            let (mut wanted, mut common) = (self.fixed, self.fixed);
            for (a, b) in now.iter().zip(&goal) {
                let (a, b) = (a[device], b[device]);
                wanted = wanted.saturating_mul(b.1 - b.0);
                common = common.saturating_mul(a.1.min(b.1).saturating_sub(a.0.max(b.0)));
            }
            wanted - common
        };
        (0..self.mesh.devices() as usize).map(of).max().unwrap_or(0)
    }

    fn held(&self, state: &State) -> Vec<Ranges> {
        (0..self.dims.len().min(MAX_DIMS)).map(|dim| self.held_in(dim, state)).collect()
    }

    /// The range of dimension `dim` that every device holds.
    fn held_in(&self, dim: usize, state: &State) -> Ranges {
        let key = (dim, state.dims[dim]);
        if let Some(known) = self.held.known.borrow().get(&key) {
            return Rc::clone(known);
        }
        let mut units: Vec<usize> = state.stack(dim).collect();
        units.reverse();
        let atoms = units.iter().flat_map(|&unit| &self.units[unit].atoms);
        let digits: Vec<_> = atoms.flat_map(|&atom| self.mesh.digits(atom)).collect();
        let range = |device| {
            let part = block(self.extents[dim], digits.iter().map(|d| (d.size, d.of(device))));
            (part.start, part.end)
        };
        let ranges: Ranges = (0..self.mesh.devices()).map(range).collect();
        self.held.known.borrow_mut().insert(key, Rc::clone(&ranges));
        ranges
    }
}
