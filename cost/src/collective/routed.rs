//! Dispatch of tokens to their experts and combine of the results: ragged all_to_all, priced on
//! expected rows.
//!
//! Two kernels compete, as in DeepEP: *low-latency* sends one copy for each chosen expert;
//! *normal* sends one copy to each device, and one to each node, that holds some chosen expert.
//! Fitted on one H100 node (SGLang 0.5.12 rows of aiconfigurator-core 0.12.0, Apache-2.0), mean
//! error 6 to 12 % each. Across nodes the constants are DeepEP's public figures.

use super::{CollectiveCost, Fabric, Group, Timing};
use crate::source::Source;

/// Tokens on their way to experts or back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Routed {
    /// Tokens of one device.
    pub tokens: u64,
    /// Width of a token.
    pub hidden: u64,
    /// Experts that each token chose.
    pub top_k: u64,
    /// Bits of an element on the wire, its share of the scales included.
    pub bits: f64,
}

/// Which kernel routes tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutedKernel {
    /// One copy for each chosen expert.
    LowLatency,
    /// One copy for each device that holds a chosen expert.
    Normal {
        /// Multiprocessors that copy; about 20 fill the links.
        multiprocessors: u64,
    },
}

/// Constants of one kernel on the measured machine.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    name: &'static str,
    /// Fixed time in a node, ns.
    base_ns: f64,
    /// Further fixed time when the group spans nodes, ns.
    network_ns: f64,
    /// Bytes/s inside the node.
    node_bytes_per_s: f64,
    /// Multiprocessors that fill the links, for kernels that send one copy to each device; 0 for
    /// those that send one for each chosen expert.
    full: u64,
}

const DISPATCH: [Kernel; 2] = [
    kernel("low-latency", 11_200.0, 20_000.0, 326e9, 0),
    kernel("normal", 26_100.0, 40_000.0, 354e9, 21),
];
const COMBINE: [Kernel; 2] = [
    kernel("low-latency", 11_200.0, 20_000.0, 285e9, 0),
    kernel("normal", 38_400.0, 40_000.0, 368e9, 18),
];
/// Extra rows of the busiest device for each doubling of the group (a guess).
const IMBALANCE: f64 = 0.05;

const fn kernel(name: &'static str, base: f64, network: f64, bw: f64, full: u64) -> Kernel {
    Kernel { name, base_ns: base, network_ns: network, node_bytes_per_s: bw, full }
}

impl RoutedKernel {
    fn constants(self, kernels: [Kernel; 2]) -> Kernel {
        let [low_latency, normal] = kernels;
        match self {
            RoutedKernel::LowLatency => low_latency,
            RoutedKernel::Normal { multiprocessors } => {
                let share = multiprocessors.clamp(1, normal.full) as f64 / normal.full as f64;
                Kernel { node_bytes_per_s: normal.node_bytes_per_s * share, ..normal }
            }
        }
    }
}

impl Routed {
    /// Expected bytes that one device sends to others.
    fn wire_bytes(&self, group: Group) -> u64 {
        let copies = distinct(group.size, self.top_k) * ring(group.size);
        (self.tokens as f64 * copies * self.token_bytes()).ceil() as u64
    }

    fn token_bytes(&self) -> f64 {
        self.hidden as f64 * self.bits / 8.0
    }
}

impl Fabric<'_> {
    /// Tokens to the devices of their experts.
    pub fn dispatch(&self, group: Group, tokens: Routed) -> CollectiveCost {
        self.routed(group, tokens, DISPATCH)
    }

    /// Expert results back to the devices of their tokens.
    pub fn combine(&self, group: Group, tokens: Routed) -> CollectiveCost {
        self.routed(group, tokens, COMBINE)
    }

    /// Tokens to the devices of their experts by a given kernel, for comparing with measurements.
    pub fn dispatch_by(
        &self,
        kernel: RoutedKernel,
        group: Group,
        tokens: Routed,
    ) -> CollectiveCost {
        self.routed(group, tokens, [kernel.constants(DISPATCH); 2])
    }

    /// Expert results back by a given kernel, likewise.
    pub fn combine_by(&self, kernel: RoutedKernel, group: Group, tokens: Routed) -> CollectiveCost {
        self.routed(group, tokens, [kernel.constants(COMBINE); 2])
    }

    fn routed(&self, group: Group, tokens: Routed, kernels: [Kernel; 2]) -> CollectiveCost {
        if group.size <= 1 || [tokens.tokens, tokens.hidden, tokens.top_k].contains(&0) {
            return CollectiveCost::NOTHING;
        }
        let [first, second] = kernels.map(|k| self.routed_timing(group, tokens, k));
        first.or(second).cost(tokens.wire_bytes(group))
    }

    fn routed_timing(&self, group: Group, tokens: Routed, kernel: Kernel) -> Timing {
        let chosen = tokens.top_k as f64;
        let (near, far) = if kernel.full > 0 {
            let nodes = distinct(group.nodes, tokens.top_k);
            (distinct(group.size, tokens.top_k), nodes * ring(group.nodes))
        } else {
            (chosen, chosen * ring(group.nodes))
        };
        let skew = 1.0 + IMBALANCE * (group.size as f64).log2();
        let bytes = tokens.tokens as f64 * tokens.token_bytes() * skew;
        let mut ns = kernel.base_ns * self.link_latency_ratio()
            + bytes * near / kernel.node_bytes_per_s * 1e9 * self.link_byte_ratio();
        if group.nodes > 1 {
            ns +=
                kernel.network_ns * self.network_latency_ratio() + self.network_bytes(bytes * far);
        }
        Timing { ns, algorithm: kernel.name, source: Source::Modelled }
    }
}

/// Expected number of distinct places among `places` that `choices` independent uniform choices
/// hit: places · (1 − (1 − 1/places)^choices).
fn distinct(places: u64, choices: u64) -> f64 {
    let places = places.max(1) as f64;
    places * (1.0 - (1.0 - 1.0 / places).powf(choices as f64))
}

/// Share of uniform choices that fall on another place.
fn ring(places: u64) -> f64 {
    let places = places.max(1) as f64;
    (places - 1.0) / places
}
