//! Latency of local operators as pure functions of sizes, a device and a profile.
//!
//! Every price obeys three laws, which property tests hold: it is never negative, never better
//! than the device's peak FLOP/s and peak bandwidth allow, and never falls when a size grows.
//! An operator with an empty dimension costs nothing.

mod attention;
mod experts;
mod gemm;
mod mla;
mod span;
mod stream;

pub use attention::{Decode, Prefill};
pub use experts::Experts;
pub use gemm::{Gemm, Operands};
pub use mla::{MlaBlock, MlaKind};
pub use span::Span;

pub use crate::fitted::ExpertRun;

use std::sync::Arc;

use crate::fitted::{Rates, Reading, Tuned, tuned};
use crate::machine::Device;
use crate::profile::Profile;
use crate::source::Source;
use crate::time::Ns;

/// Prices operators of one device under one profile.
#[derive(Clone, Debug)]
pub struct Pricer<'a> {
    device: &'a Device,
    profile: &'a Profile,
    /// Surfaces of the device, shared by all pricers of equal devices and profiles.
    tuned: Arc<Tuned>,
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
    /// Relative half-width of what to expect: the mean error of held-back rows where there are
    /// some, the goal for other devices, a guess for formulas alone.
    pub error: f64,
}

/// Relative error of a formula that no row was compared with (a guess).
const ASSUMED_ERROR: f64 = 0.3;

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
        Pricer { device, profile, tuned: tuned(device, profile) }
    }

    /// Whether the device is the one that the surfaces were measured on.
    pub fn is_measured_device(&self) -> bool {
        self.tuned.rates == Rates::H100
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
        OpCost { time, flops, bytes, bound, source: Source::Modelled, error: ASSUMED_ERROR }
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
        error: 0.0,
    };

    /// The same cost, resting on what a surface says.
    fn from(self, reading: Reading) -> OpCost {
        OpCost { source: reading.source, error: reading.error, ..self }
    }
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
