//! Latency of local operators as pure functions of sizes, a device and a profile.
//!
//! Every price obeys three laws, which property tests hold: it is never negative, never better
//! than the device's peak FLOP/s and peak bandwidth allow, and never falls when a size grows.
//! An operator with an empty dimension costs nothing.

mod attention;
mod experts;
mod gemm;
mod stream;

pub use attention::{Decode, Prefill, Span};
pub use experts::Experts;
pub use gemm::{Gemm, Operands};

use crate::machine::Device;
use crate::profile::{Profile, REFERENCE_ACHIEVED, REFERENCE_LAUNCH_NS};
use crate::source::Source;
use crate::time::Ns;

/// Prices operators of one device under one profile.
#[derive(Clone, Copy, Debug)]
pub struct Pricer<'a> {
    /// The device that runs them.
    pub device: &'a Device,
    /// Whose kernels run.
    pub profile: &'a Profile,
}

/// What an operator costs and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpCost {
    /// Time of one call.
    pub time: Ns,
    /// Floating-point operations that the result needs, without padding.
    pub flops: f64,
    /// Bytes of device memory that must move at least once.
    pub bytes: f64,
    /// The largest term of the time.
    pub bound: Bound,
    /// What the time rests on.
    pub source: Source,
}

/// What limits an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// Device memory bandwidth.
    Memory,
    /// Launch and fixed latencies.
    Latency,
}

/// The terms of a formula, ns.
#[derive(Clone, Copy, Debug)]
struct Terms {
    floor: f64,
    compute: f64,
    memory: f64,
    /// The combination of all terms.
    total: f64,
}

impl<'a> Pricer<'a> {
    /// Prices on `device` as `profile` would run.
    pub fn new(device: &'a Device, profile: &'a Profile) -> Self {
        Pricer { device, profile }
    }

    /// A floor fitted on the reference device, on this device.
    fn floor(&self, floor_ns: f64) -> f64 {
        floor_ns * self.device.launch_ns / REFERENCE_LAUNCH_NS
    }

    /// Nanoseconds to move `bytes` at a fraction of bandwidth fitted on the reference device.
    fn memory(&self, bytes: f64, fraction: f64) -> f64 {
        let memory = &self.device.memory;
        let fraction = (fraction * memory.achieved / REFERENCE_ACHIEVED).min(1.0);
        bytes / (fraction * memory.bytes_per_s) * 1e9
    }

    /// A cost from its terms, lifted to what the device's peaks allow. `peak` is in FLOP/s.
    fn cost(&self, terms: Terms, flops: f64, bytes: f64, peak: f64) -> OpCost {
        let least = (flops / peak).max(bytes / self.device.memory.bytes_per_s) * 1e9;
        let bound = if terms.floor >= terms.compute && terms.floor >= terms.memory {
            Bound::Latency
        } else if terms.compute >= terms.memory {
            Bound::Compute
        } else {
            Bound::Memory
        };
        let time = Ns::from_ns(terms.total).max(Ns::from_ns(least.ceil()));
        OpCost { time, flops, bytes, bound, source: Source::Modelled }
    }
}

impl OpCost {
    /// An operator that does nothing.
    pub const NOTHING: OpCost = OpCost {
        time: Ns::ZERO,
        flops: 0.0,
        bytes: 0.0,
        bound: Bound::Latency,
        source: Source::Modelled,
    };
}

/// `(a² + b²)^½`: a maximum with a soft corner. Square roots are exactly rounded everywhere, so
/// prices do not depend on the platform's mathematics library.
fn soft_max(a: f64, b: f64) -> f64 {
    (a * a + b * b).sqrt()
}

/// `(a⁴ + b⁴)^¼`: a maximum with a sharper corner.
fn sharp_max(a: f64, b: f64) -> f64 {
    soft_max(a * a, b * b).sqrt()
}
