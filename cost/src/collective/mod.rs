//! Latency of collectives: measured on an H100 node, carried to other links, hierarchical across
//! nodes. The algorithm is chosen here and named in the result.
//!
//! `bytes` is always the full buffer of one device: what an all_gather produces, what a
//! reduce_scatter consumes, what an all_reduce or all_to_all holds. Groups of one device, and
//! empty buffers, cost nothing.

mod group;
mod network;
mod node;
mod routed;
mod table;

pub use group::Group;
pub use node::AllReduceKernel;
pub use routed::{Routed, RoutedKernel};

use crate::machine::Cluster;
use crate::profile::Profile;
use crate::source::Source;
use crate::time::Ns;

/// Prices collectives of one cluster under one profile.
#[derive(Clone, Copy, Debug)]
pub struct Fabric<'a> {
    /// The cluster whose links carry them.
    pub cluster: &'a Cluster,
    /// Whose collectives run.
    pub profile: &'a Profile,
}

/// What a collective costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CollectiveCost {
    /// Time of one call.
    pub time: Ns,
    /// The algorithm that is fastest here: `none`, `nccl` (its own choice in a node), `one-shot`,
    /// `two-shot`, `network` (one member a node), `hierarchical`, `send-recv`, `low-latency` or
    /// `normal` (dispatch and combine).
    pub algorithm: &'static str,
    /// Bytes that each device sends, as a ring would.
    pub wire_bytes: u64,
    /// What the time rests on.
    pub source: Source,
    /// Relative half-width of what to expect.
    pub error: f64,
}

/// Relative errors by source: repeats of NCCL points; leaving each point out of the table; the goal
/// on other links (9 of 10 send/recv and DeepEP figures between nodes are nearer).
const ERRORS: [f64; 3] = [0.03, 0.07, 0.2];

/// A time in parts, ns, before it is rounded.
#[derive(Clone, Copy, Debug)]
struct Timing {
    ns: f64,
    algorithm: &'static str,
    source: Source,
}

impl CollectiveCost {
    /// No communication.
    pub const NOTHING: CollectiveCost = CollectiveCost {
        time: Ns::ZERO,
        algorithm: "none",
        wire_bytes: 0,
        source: Source::Measured,
        error: 0.0,
    };
}

impl<'a> Fabric<'a> {
    /// Prices on `cluster` as `profile` would run.
    pub fn new(cluster: &'a Cluster, profile: &'a Profile) -> Self {
        Fabric { cluster, profile }
    }

    /// Every device ends with all shards; `bytes` is the result.
    pub fn all_gather(&self, group: Group, bytes: u64) -> CollectiveCost {
        self.price(group, bytes, shard_ring(group.size, bytes), Self::gather_timing)
    }

    /// Every device ends with its shard of the sum; `bytes` is the operand.
    pub fn reduce_scatter(&self, group: Group, bytes: u64) -> CollectiveCost {
        self.price(group, bytes, shard_ring(group.size, bytes), Self::scatter_timing)
    }

    /// Every device ends with the sum of `bytes`.
    pub fn all_reduce(&self, group: Group, bytes: u64) -> CollectiveCost {
        let wire = ring_share(group.size, bytes.saturating_mul(2));
        self.price(group, bytes, wire, Self::reduce_timing)
    }

    /// Every device sends an equal part of `bytes` to every other.
    pub fn all_to_all(&self, group: Group, bytes: u64) -> CollectiveCost {
        self.price(group, bytes, ring_share(group.size, bytes), Self::exchange_timing)
    }

    /// One device sends `bytes` to another, in its node or across nodes: a pipeline boundary, or
    /// a collective_permute.
    pub fn send_recv(&self, across_nodes: bool, bytes: u64) -> CollectiveCost {
        if bytes == 0 {
            return CollectiveCost::NOTHING;
        }
        let timing = if across_nodes {
            self.network_send_timing(bytes as f64)
        } else {
            self.node_send_timing(bytes as f64)
        };
        timing.cost(bytes)
    }

    fn price(
        &self,
        group: Group,
        bytes: u64,
        wire_bytes: u64,
        timing: fn(&Self, Group, f64) -> Timing,
    ) -> CollectiveCost {
        if group.size <= 1 || bytes == 0 {
            return CollectiveCost::NOTHING;
        }
        timing(self, group, bytes as f64).cost(wire_bytes)
    }
}

impl Timing {
    fn cost(self, wire_bytes: u64) -> CollectiveCost {
        let (algorithm, source) = (self.algorithm, self.source);
        let error = ERRORS[source as usize];
        CollectiveCost { time: Ns::from_ns(self.ns), algorithm, wire_bytes, source, error }
    }

    /// The faster one; the first if equal.
    fn or(self, other: Timing) -> Timing {
        if other.ns < self.ns { other } else { self }
    }
}

/// ⌈bytes·(g − 1)/g⌉.
fn ring_share(size: u64, bytes: u64) -> u64 {
    let size = u128::from(size.max(1));
    let wire = (u128::from(bytes) * (size - 1)).div_ceil(size);
    u64::try_from(wire).unwrap_or(u64::MAX)
}

/// (g − 1) shards of ⌈bytes/g⌉ each.
fn shard_ring(size: u64, bytes: u64) -> u64 {
    let size = size.max(1);
    bytes.div_ceil(size).saturating_mul(size - 1)
}
