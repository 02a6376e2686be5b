//! What a program runs on: a device, a node of devices, a cluster of nodes.
//!
//! A description is a TOML text ([`parse`], schema in [`schema`]) or a [`preset`]. Each constant
//! keeps its [`Provenance`], so that a plan can say what its numbers rest on.

mod build;
mod describe;
mod preset;
mod read;
pub mod schema;
mod take;

use std::collections::BTreeMap;

pub use build::parse;
pub use describe::Constant;
pub use preset::{preset, presets};

/// A cluster of equal nodes of equal devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Name in reports, such as `h100x8x4`.
    pub name: String,
    /// The device.
    pub device: Device,
    /// The node that holds devices.
    pub node: Node,
    /// Number of nodes, at least 1.
    pub nodes: u64,
    /// The network between nodes.
    pub network: Network,
    /// Where each constant comes from, by the dotted path of its key.
    pub sources: BTreeMap<&'static str, Provenance>,
}

/// One device.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Name in reports.
    pub name: String,
    /// Compute capability, 90 for `sm_90`.
    pub sm: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u64,
    /// Shortest time of a kernel, ns.
    pub launch_ns: f64,
    /// Dense FLOP/s by operand type.
    pub flops: FlopRates,
    /// Device memory.
    pub memory: DeviceMemory,
}

/// Dense FLOP/s of a device by operand type; `None` where the device has no such unit.
#[derive(Clone, Debug, PartialEq)]
pub struct FlopRates {
    /// Plain 32-bit arithmetic.
    pub f32: f64,
    /// tf32 tensor cores.
    pub tf32: f64,
    /// bf16 tensor cores.
    pub bf16: f64,
    /// f16 tensor cores.
    pub f16: f64,
    /// fp8 tensor cores.
    pub fp8: Option<f64>,
    /// int8 tensor cores, OP/s.
    pub int8: Option<f64>,
    /// fp4 tensor cores.
    pub fp4: Option<f64>,
}

/// Operand types that a device multiplies at different rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Math {
    /// Plain 32-bit arithmetic.
    F32,
    /// tf32 tensor cores.
    Tf32,
    /// bf16 tensor cores.
    Bf16,
    /// f16 tensor cores.
    F16,
    /// fp8 tensor cores.
    Fp8,
    /// int8 tensor cores.
    Int8,
    /// fp4 tensor cores.
    Fp4,
}

impl FlopRates {
    /// The unit that multiplies operands of `math`. A device without a unit for fp4, fp8 or int8
    /// widens them to bf16.
    pub fn unit(&self, math: Math) -> Math {
        match math {
            Math::Fp4 if self.fp4.is_none() => Math::Bf16,
            Math::Fp8 if self.fp8.is_none() => Math::Bf16,
            Math::Int8 if self.int8.is_none() => Math::Bf16,
            _ => math,
        }
    }

    /// Peak FLOP/s on operands of `math`, widened where there is no unit.
    pub fn of(&self, math: Math) -> f64 {
        match self.unit(math) {
            Math::F32 => self.f32,
            Math::Tf32 => self.tf32,
            Math::Bf16 => self.bf16,
            Math::F16 => self.f16,
            Math::Fp8 => self.fp8.unwrap_or(self.bf16),
            Math::Int8 => self.int8.unwrap_or(self.bf16),
            Math::Fp4 => self.fp4.unwrap_or(self.bf16),
        }
    }
}

/// Device memory.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceMemory {
    /// Peak bandwidth, bytes/s.
    pub bytes_per_s: f64,
    /// Fraction of the peak that a streaming kernel reaches.
    pub achieved: f64,
    /// Capacity, bytes.
    pub capacity_bytes: u64,
    /// Bytes lost to the driver, contexts and fragmentation.
    pub reserve_bytes: u64,
    /// Communication buffers: bytes by smallest number of communicating devices, growing.
    pub nccl_bytes: Vec<(u64, u64)>,
}

impl DeviceMemory {
    /// Bytes of communication buffers on each of `devices` communicating devices.
    pub fn nccl_bytes_for(&self, devices: u64) -> u64 {
        self.nccl_bytes.iter().rev().find(|(least, _)| devices >= *least).map_or(0, |(_, b)| *b)
    }
}

/// What joins the devices of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// NVLink through a switch: every pair at full rate.
    NvLink,
    /// PCIe.
    Pcie,
}

/// A node of equal devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Devices in the node, at least 1.
    pub devices: u64,
    /// Kind of link.
    pub link: LinkKind,
    /// Bytes/s of one device and direction.
    pub link_bytes_per_s: f64,
    /// Send/recv of a small message, ns.
    pub link_latency_ns: f64,
    /// Fraction of the link that a large collective reaches.
    pub link_achieved: f64,
    /// Bytes/s of one device and direction to host memory.
    pub pcie_bytes_per_s: f64,
    /// Host memory that one device may use, bytes.
    pub host_bytes_per_device: u64,
}

/// The network between nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Largest number of nodes that it joins.
    pub max_nodes: u64,
    /// Bytes/s of one device and direction.
    pub bytes_per_s: f64,
    /// Send/recv of a small message, ns.
    pub latency_ns: f64,
    /// Fraction of the bandwidth that a large collective reaches.
    pub achieved: f64,
}

/// How far a constant can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Measured on this machine.
    Measured,
    /// Published by the maker.
    Datasheet,
    /// Taken from a published package of machine constants.
    Package,
    /// Written in the user's file or name without a source.
    Stated,
    /// The default of a key that the file does not set.
    Default,
    /// A guess.
    Guess,
}

/// Where a constant comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// Kind of source.
    pub origin: Origin,
    /// The source in words.
    pub text: String,
}

impl Provenance {
    /// Reads `kind: text`; an unknown kind counts as stated.
    pub fn parse(source: &str) -> Provenance {
        let (kind, rest) = source.split_once(':').unwrap_or(("", source));
        let origin = match kind.trim() {
            "measured" => Origin::Measured,
            "datasheet" => Origin::Datasheet,
            "package" => Origin::Package,
            "guess" => Origin::Guess,
            _ => return Provenance { origin: Origin::Stated, text: source.trim().to_string() },
        };
        Provenance { origin, text: rest.trim().to_string() }
    }

    fn stated() -> Provenance {
        Provenance { origin: Origin::Stated, text: "stated by the user".to_string() }
    }

    fn assumed() -> Provenance {
        Provenance { origin: Origin::Default, text: "default of the schema".to_string() }
    }
}
