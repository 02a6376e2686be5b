//! Measured latencies as surfaces: times at the knots of a grid of sizes, straight lines between.
//!
//! A kernel's time is about a constant plus FLOPs over a rate plus bytes over a bandwidth, and each
//! of those is linear in every single size; so surfaces are interpolated linearly in the sizes
//! themselves. `cost/fit` makes them from measurements of one H100 ([`Rates::H100`]). On another
//! device the time at each knot is scaled by the physical formula of that device over the formula
//! of the H100, so that what was bound by bandwidth follows bandwidth. Knots never fall along an
//! axis, hence prices never fall when a size grows.

mod data;
mod grid;
mod tuned;
mod untuned;

pub(crate) use grid::Grid;
pub(crate) use tuned::{Tuned, tuned};
pub use untuned::ExpertRun;

use crate::machine::{Device, FlopRates};
use crate::source::Source;

/// Relative error of a time on a device other than the measured one: the goal on H200 and A100.
pub const CARRIED_ERROR: f64 = 0.2;
/// Relative error of a time at sizes outside the grid: held-back sizes miss by 6 to 30 %.
pub const BEYOND_ERROR: f64 = 0.3;

/// What the speed of a device's kernels depends on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rates {
    /// Streaming multiprocessors.
    pub multiprocessors: f64,
    /// Shortest time of a kernel, ns.
    pub launch_ns: f64,
    /// Dense FLOP/s by type.
    pub flops: FlopRates,
    /// Peak bytes/s of device memory.
    pub bytes_per_s: f64,
    /// Fraction of it that streaming kernels reach.
    pub achieved: f64,
    /// Whether products and the copies that feed them run beside each other: asynchronous from
    /// compute capability 9.0 on.
    pub overlaps: bool,
}

/// Compute capability of the first devices whose products wait for nobody (Hopper).
const ASYNCHRONOUS: u64 = 90;

impl Rates {
    /// The device that the rows were measured on: an H100 SXM.
    pub const H100: Rates = Rates {
        multiprocessors: 132.0,
        launch_ns: 3000.0,
        flops: FlopRates {
            f32: 66.9e12,
            tf32: 494.5e12,
            bf16: 989e12,
            f16: 989e12,
            fp8: Some(1.978e15),
            int8: Some(1.978e15),
            fp4: None,
        },
        bytes_per_s: 3.35e12,
        achieved: 0.8,
        overlaps: true,
    };

    /// Those of a device.
    pub fn of(device: &Device) -> Rates {
        Rates {
            multiprocessors: device.multiprocessors as f64,
            launch_ns: device.launch_ns,
            flops: device.flops.clone(),
            bytes_per_s: device.memory.bytes_per_s,
            achieved: device.memory.achieved,
            overlaps: device.sm >= ASYNCHRONOUS,
        }
    }

    /// A latency of the measured device, on this one.
    pub fn latency(&self, ns: f64) -> f64 {
        ns * self.launch_ns / Rates::H100.launch_ns
    }

    /// Time of `bytes` at a fraction of bandwidth seen on the measured device, ns.
    pub fn stream(&self, bytes: f64, fraction: f64) -> f64 {
        let fraction = (fraction * self.achieved / Rates::H100.achieved).min(1.0);
        bytes / (fraction * self.bytes_per_s) * 1e9
    }
}

/// A surface on one device.
#[derive(Clone, Debug)]
pub(crate) struct Fitted<const N: usize> {
    grid: Grid<N>,
    /// Mean error of held-back rows: near the floor, and above.
    errors: (f64, f64),
    /// Whether rows of this very device and type stand behind the times.
    own: bool,
}

/// A time read from a surface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Time, ns.
    pub ns: f64,
    /// What it rests on.
    pub source: Source,
    /// Relative half-width of what to expect.
    pub error: f64,
}

impl<const N: usize> Fitted<N> {
    /// The surface `name`, whose knots are scaled by `here` over `measured`: formulas of this
    /// device, and of the H100 for the type of the rows. `own` says that they are the same.
    pub fn carry(
        name: &str,
        own: bool,
        measured: impl Fn([f64; N]) -> f64,
        here: impl Fn([f64; N]) -> f64,
    ) -> Fitted<N> {
        let table = data::table::<N>(name);
        let scale = |at: [f64; N], ns: f64| if own { ns } else { ns * here(at) / measured(at) };
        Fitted { grid: table.grid.map(scale).growing(), errors: table.errors, own }
    }

    /// The time at these sizes. Outside the grid, `beyond` of the sizes over `beyond` of the
    /// nearest ones of the grid is added; it must be a sum of products of sizes with positive
    /// factors, which keeps the total growing.
    pub fn read(&self, at: [f64; N], beyond: impl Fn([f64; N]) -> f64) -> Reading {
        let nearest = self.grid.clamp(at);
        let inside = self.grid.at(nearest);
        let floor = self.grid.least();
        let known = if inside < 2.0 * floor { self.errors.0 } else { self.errors.1 };
        if nearest == at {
            let source = if self.own { Source::Interpolated } else { Source::Modelled };
            let error = if self.own { known } else { known.max(CARRIED_ERROR) };
            return Reading { ns: inside, source, error };
        }
        // Sizes under the grid count as its least ones: a product of a small size and one beyond
        // the grid would else fall as others grow.
        let above = std::array::from_fn(|i| at[i].max(nearest[i]));
        let extra = (beyond(above) - beyond(nearest)).max(0.0);
        let error = if extra > 0.05 * inside { known.max(BEYOND_ERROR) } else { known };
        let error = if self.own { error } else { error.max(CARRIED_ERROR) };
        Reading { ns: inside + extra, source: Source::Modelled, error }
    }
}
