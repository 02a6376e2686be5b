//! Collectives across nodes: each level in turn, every device on its own network port.
//!
//! With p members in each of n nodes and a buffer of S bytes: an all_gather gathers S/p across
//! nodes and then S inside; a reduce_scatter is its mirror; an all_reduce is a reduce_scatter
//! inside, both passes of S/p across, an all_gather inside. A pass takes
//! (n − 1)/n · bytes / bandwidth plus a latency that grows with log₂ n.

use super::table::{Measured, read};
use super::{Fabric, Group, Timing};
use crate::source::Source;

/// Extra latency of a pass for each doubling of nodes beyond two, as a share of the send/recv
/// latency: 8 us of 17 us between H100 nodes (a guess).
const PASS_DOUBLING: f64 = 8.0 / 17.0;
/// The same for an all_to_all: 5 us of 17 us (a guess).
const EXCHANGE_DOUBLING: f64 = 5.0 / 17.0;
/// Network of the measured pair of nodes: bytes/s, achieved fraction, latency in ns.
const NETWORK: (f64, f64, f64) = (50e9, 0.8, 17_000.0);

impl Fabric<'_> {
    pub(super) fn gather_timing(&self, group: Group, bytes: f64) -> Timing {
        let inside = self.node_timing(Measured::AllGather, group.per_node, bytes);
        self.with_passes(group, bytes, 1.0, inside)
    }

    pub(super) fn scatter_timing(&self, group: Group, bytes: f64) -> Timing {
        let inside = self.node_timing(Measured::ReduceScatter, group.per_node, bytes);
        self.with_passes(group, bytes, 1.0, inside)
    }

    pub(super) fn reduce_timing(&self, group: Group, bytes: f64) -> Timing {
        if group.nodes <= 1 {
            return self.node_reduce_timing(group.size, bytes);
        }
        let scatter = self.node_timing(Measured::ReduceScatter, group.per_node, bytes);
        let gather = self.node_timing(Measured::AllGather, group.per_node, bytes);
        let inside = Timing { ns: scatter.ns + gather.ns, ..gather };
        self.with_passes(group, bytes, 2.0, inside)
    }

    pub(super) fn exchange_timing(&self, group: Group, bytes: f64) -> Timing {
        let near = bytes * group.per_node as f64 / group.size as f64;
        let inside = self.node_timing(Measured::AllToAll, group.per_node, near);
        if group.nodes <= 1 {
            return inside;
        }
        let latency = self.network_latency(group.nodes, EXCHANGE_DOUBLING);
        let ns = inside.ns + latency + self.network_bytes(bytes - near);
        Timing { ns, algorithm: level_name(group), source: Source::Modelled }
    }

    /// One device to another in a different node.
    pub(super) fn network_send_timing(&self, bytes: f64) -> Timing {
        let network = &self.cluster.network;
        let latency = network.latency_ns / NETWORK.2;
        let byte = NETWORK.0 * NETWORK.1 / (network.bytes_per_s * network.achieved);
        let reading = read(Measured::SendRecvNetwork, 2, bytes);
        let ns = reading.map_or(0.0, |r| r.alpha * latency + r.beta * byte);
        let same = latency == 1.0 && byte == 1.0;
        let source = reading.filter(|_| same).map_or(Source::Modelled, |r| r.source);
        Timing { ns, algorithm: "send-recv", source }
    }

    /// `inside` plus so many passes across nodes over each device's part of `bytes`.
    fn with_passes(&self, group: Group, bytes: f64, passes: f64, inside: Timing) -> Timing {
        if group.nodes <= 1 {
            return inside;
        }
        let nodes = group.nodes as f64;
        let part = bytes / group.per_node as f64 * (nodes - 1.0) / nodes;
        let pass = self.network_latency(group.nodes, PASS_DOUBLING) + self.network_bytes(part);
        let ns = inside.ns + passes * pass;
        Timing { ns, algorithm: level_name(group), source: Source::Modelled }
    }

    fn network_latency(&self, nodes: u64, doubling: f64) -> f64 {
        let doublings = (nodes as f64).log2() - 1.0;
        self.cluster.network.latency_ns * (1.0 + doubling * doublings.max(0.0))
    }

    /// Time of bytes through one device's port, ns.
    pub(super) fn network_bytes(&self, bytes: f64) -> f64 {
        let network = &self.cluster.network;
        bytes / (network.bytes_per_s * network.achieved) * 1e9
    }

    /// Latency of this network over that of the measured one.
    pub(super) fn network_latency_ratio(&self) -> f64 {
        self.cluster.network.latency_ns / NETWORK.2
    }
}

fn level_name(group: Group) -> &'static str {
    if group.per_node > 1 { "hierarchical" } else { "network" }
}
