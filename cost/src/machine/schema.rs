//! The keys of a cluster file: one row per key, with its type, range and default.

use std::fmt;

/// What a key accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A string of at most 200 characters.
    Text,
    /// One of a few strings.
    Choice(&'static [&'static str]),
    /// A whole number in an inclusive range; `8e9` and `8_000_000_000` are both read.
    Integer(u64, u64),
    /// A positive number up to the given one.
    Positive(f64),
    /// A rate a second, from the slowest to the fastest that is believed.
    Rate,
    /// A number from 0.001 to 1.
    Fraction,
    /// Pairs `[devices, bytes]` with growing device counts.
    Pairs,
}

/// Where a missing value comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// The key must be given, in the file or by its `base`.
    Required,
    /// The feature is absent.
    Absent,
    /// A fixed number.
    Number(f64),
    /// A fixed string.
    Text(&'static str),
    /// Another key, times a factor.
    Times(&'static str, f64),
    /// One number for an NVLink node, another for a PCIe node.
    ByLink(f64, f64),
    /// The list of communication buffers that NCCL was observed to hold.
    NcclBuffers,
}

/// One key of the schema.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Dotted path in the file.
    pub path: &'static str,
    /// What it accepts.
    pub kind: Kind,
    /// What stands in when it is missing.
    pub default: Default,
    /// Meaning and unit, for the reference.
    pub doc: &'static str,
}

/// Largest accepted rate, FLOP/s or bytes/s: far above any device, far below overflow.
pub const MAX_RATE: f64 = 1e18;
/// Smallest accepted rate, FLOP/s or bytes/s: far below any device, and fast enough for steps that
/// end within years.
pub const MIN_RATE: f64 = 1e6;
/// Smallest accepted fraction of a peak.
pub const MIN_FRACTION: f64 = 1e-3;
/// Largest accepted latency in nanoseconds: ten seconds.
const MAX_NS: f64 = 1e10;
/// Largest accepted number of bytes: 1 PiB.
const MAX_BYTES: u64 = 1 << 50;

const fn key(path: &'static str, kind: Kind, default: Default, doc: &'static str) -> Key {
    Key { path, kind, default, doc }
}

/// Every key, in file order.
pub const KEYS: &[Key] = &[
    key("base", Kind::Text, Default::Absent, "preset that supplies every key not given here"),
    key("name", Kind::Text, Default::Text("custom"), "name of the cluster in reports"),
    key("device.name", Kind::Text, Default::Text("custom device"), "name of the device in reports"),
    key(
        "device.sm",
        Kind::Integer(1, 1000),
        Default::Number(90.0),
        "compute capability, 90 for sm_90",
    ),
    key(
        "device.multiprocessors",
        Kind::Integer(1, 100_000),
        Default::Number(132.0),
        "streaming multiprocessors; a matrix product is cut into waves of this many tiles",
    ),
    key(
        "device.launch_ns",
        Kind::Positive(MAX_NS),
        Default::Number(3000.0),
        "shortest time of a kernel, ns",
    ),
    key(
        "device.flops.f32",
        Kind::Rate,
        Default::Times("device.flops.bf16", 1.0 / 16.0),
        "dense FLOP/s outside tensor cores",
    ),
    key(
        "device.flops.tf32",
        Kind::Rate,
        Default::Times("device.flops.bf16", 0.5),
        "dense FLOP/s on tf32 operands",
    ),
    key("device.flops.bf16", Kind::Rate, Default::Required, "dense FLOP/s on bf16 operands"),
    key(
        "device.flops.f16",
        Kind::Rate,
        Default::Times("device.flops.bf16", 1.0),
        "dense FLOP/s on f16 operands",
    ),
    key(
        "device.flops.fp8",
        Kind::Rate,
        Default::Absent,
        "dense FLOP/s on fp8 operands; absent: computed at the bf16 rate",
    ),
    key(
        "device.flops.int8",
        Kind::Rate,
        Default::Absent,
        "dense OP/s on int8 operands; absent: computed at the bf16 rate",
    ),
    key(
        "device.flops.fp4",
        Kind::Rate,
        Default::Absent,
        "dense FLOP/s on fp4 operands; absent: computed at the bf16 rate",
    ),
    key(
        "device.memory.bytes_per_s",
        Kind::Rate,
        Default::Required,
        "peak bandwidth of device memory, bytes/s",
    ),
    key(
        "device.memory.achieved",
        Kind::Fraction,
        Default::Number(0.8),
        "fraction of the peak that a streaming kernel reaches",
    ),
    key(
        "device.memory.capacity_bytes",
        Kind::Integer(1 << 20, MAX_BYTES),
        Default::Required,
        "capacity of device memory, bytes",
    ),
    key(
        "device.memory.reserve_bytes",
        Kind::Integer(0, MAX_BYTES),
        Default::Number(3_758_096_384.0),
        "bytes lost to the driver, contexts and fragmentation",
    ),
    key(
        "device.memory.nccl_bytes",
        Kind::Pairs,
        Default::NcclBuffers,
        "communication buffers: bytes by smallest number of communicating devices",
    ),
    key("node.devices", Kind::Integer(1, 1024), Default::Number(1.0), "devices in a node"),
    key(
        "node.link",
        Kind::Choice(&["nvlink", "pcie"]),
        Default::Text("pcie"),
        "what joins the devices of a node",
    ),
    key(
        "node.link_bytes_per_s",
        Kind::Rate,
        Default::Times("node.pcie_bytes_per_s", 1.0),
        "bytes/s of one device and direction inside the node",
    ),
    key(
        "node.link_latency_ns",
        Kind::Positive(MAX_NS),
        Default::ByLink(5000.0, 10000.0),
        "send/recv of a small message inside the node, ns",
    ),
    key(
        "node.link_achieved",
        Kind::Fraction,
        Default::ByLink(0.95, 0.5),
        "fraction of the link that a large collective reaches",
    ),
    key(
        "node.pcie_bytes_per_s",
        Kind::Rate,
        Default::Number(32e9),
        "bytes/s of one device and direction to host memory",
    ),
    key(
        "node.host_bytes_per_device",
        Kind::Integer(0, MAX_BYTES),
        Default::Number(85_899_345_920.0),
        "host memory that one device may use, bytes",
    ),
    key("cluster.nodes", Kind::Integer(1, 4096), Default::Number(1.0), "number of nodes"),
    key(
        "cluster.max_nodes",
        Kind::Integer(1, 4096),
        Default::Number(4096.0),
        "largest number of nodes that this network joins",
    ),
    key(
        "cluster.nic_bytes_per_s",
        Kind::Rate,
        Default::Number(25e9),
        "bytes/s of one device and direction between nodes",
    ),
    key(
        "cluster.nic_latency_ns",
        Kind::Positive(MAX_NS),
        Default::Number(17000.0),
        "send/recv of a small message between nodes, ns",
    ),
    key(
        "cluster.nic_achieved",
        Kind::Fraction,
        Default::Number(0.8),
        "fraction of the network that a large collective reaches",
    ),
];

/// Devices at and above which NCCL holds so many bytes (see `device.memory.nccl_bytes`).
pub const NCCL_BUFFERS: [(u64, u64); 3] = [(1, 0), (2, 358_612_992), (4, 411_041_792)];

/// The row of a path.
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|k| k.path == path)
}

/// Whether some key lies below this table path.
pub fn is_table(path: &str) -> bool {
    KEYS.iter().any(|k| k.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Text => f.write_str("text"),
            Kind::Choice(options) => f.write_str(&options.join(" or ")),
            Kind::Integer(low, high) => write!(f, "integer {low}..{high}"),
            Kind::Positive(high) => write!(f, "number up to {high:e}"),
            Kind::Rate => write!(f, "number {MIN_RATE:e}..{MAX_RATE:e}"),
            Kind::Fraction => write!(f, "fraction {MIN_FRACTION}..1"),
            Kind::Pairs => f.write_str("list of [devices, bytes]"),
        }
    }
}

impl fmt::Display for Default {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Default::Required => f.write_str("required"),
            Default::Absent => f.write_str("absent"),
            Default::Number(n) => write!(f, "{n}"),
            Default::Text(text) => write!(f, "{text:?}"),
            Default::Times(path, factor) if *factor == 1.0 => write!(f, "as `{path}`"),
            Default::Times(path, factor) => write!(f, "`{path}` × {factor}"),
            Default::ByLink(nvlink, pcie) => write!(f, "{nvlink} (nvlink), {pcie} (pcie)"),
            Default::NcclBuffers => write!(f, "{NCCL_BUFFERS:?}"),
        }
    }
}
