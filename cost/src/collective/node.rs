//! Collectives among devices of one node.

use super::table::{Measured, Reading, read};
use super::{CollectiveCost, Fabric, Timing, ring_share};
use crate::machine::LinkKind;
use crate::source::Source;

/// Link of the measured node, bytes/s of one device and direction.
const LINK_BYTES_PER_S: f64 = 450e9;
/// Achieved fraction of that link.
const LINK_ACHIEVED: f64 = 0.95;
/// Latency of that link, ns.
const LINK_LATENCY_NS: f64 = 5000.0;

/// Largest group of the custom all-reduce (vLLM 0.24).
const CUSTOM_DEVICES: u64 = 8;
/// Largest buffer of the custom all-reduce, bytes (vLLM 0.24).
const CUSTOM_BYTES: f64 = 8_388_608.0;

/// Kernels that sum a buffer over the devices of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllReduceKernel {
    /// NCCL's choice.
    Nccl,
    /// One- and two-shot kernels over peer memory, in a CUDA graph.
    Custom,
    /// The same, called from the host: a launch, and a copy into a buffer that peers can read.
    CustomEager,
}

/// Host time of an eager custom all-reduce, ns, at 2, 4 and 8 devices (vLLM 0.24).
const EAGER_NS: [f64; 3] = [20_500.0, 22_200.0, 23_300.0];

impl Fabric<'_> {
    /// Every device of a node ends with the sum of `bytes`, by a given kernel. Plans take the
    /// faster one ([`all_reduce`](Fabric::all_reduce)); this is for comparing with measurements.
    pub fn all_reduce_by(&self, kernel: AllReduceKernel, size: u64, bytes: u64) -> CollectiveCost {
        let wire = ring_share(size, bytes.saturating_mul(2));
        if size <= 1 || bytes == 0 {
            return CollectiveCost::NOTHING;
        }
        let op = match kernel {
            AllReduceKernel::Nccl => Measured::AllReduce,
            AllReduceKernel::Custom | AllReduceKernel::CustomEager => Measured::AllReduceCustom,
        };
        let mut timing = self.node_timing(op, size, bytes as f64);
        match kernel {
            AllReduceKernel::Nccl => {}
            AllReduceKernel::Custom => timing.algorithm = shots(size, bytes as f64),
            AllReduceKernel::CustomEager => {
                let memory = &self.cluster.device.memory;
                let copy = 2.0 * bytes as f64 / (memory.achieved * memory.bytes_per_s) * 1e9;
                let host = EAGER_NS[(size.ilog2().min(3) as usize).saturating_sub(1)];
                timing.ns = (timing.ns + copy).max(host);
                timing.algorithm = shots(size, bytes as f64);
                timing.source = Source::Modelled;
            }
        }
        timing.cost(wire)
    }

    /// A measured collective of `devices` devices, on this node's links, ns.
    pub(super) fn node_timing(&self, op: Measured, devices: u64, bytes: f64) -> Timing {
        let Some(reading) = read(op, devices, bytes).filter(|_| devices > 1 && bytes > 0.0) else {
            return Timing { ns: 0.0, algorithm: "none", source: Source::Measured };
        };
        let (ns, source) = self.on_link(reading);
        Timing { ns, algorithm: "nccl", source }
    }

    /// NCCL, or the custom kernels where the profile has them and they are faster.
    pub(super) fn node_reduce_timing(&self, devices: u64, bytes: f64) -> Timing {
        let nccl = self.node_timing(Measured::AllReduce, devices, bytes);
        let peers = self.cluster.node.link == LinkKind::NvLink || devices == 2;
        let usable = self.profile.custom_all_reduce
            && self.profile.cuda_graphs
            && peers
            && devices <= CUSTOM_DEVICES
            && bytes <= CUSTOM_BYTES;
        if !usable {
            return nccl;
        }
        let custom = self.node_timing(Measured::AllReduceCustom, devices, bytes);
        nccl.or(Timing { algorithm: shots(devices, bytes), ..custom })
    }

    /// One device to another.
    pub(super) fn node_send_timing(&self, bytes: f64) -> Timing {
        let timing = self.node_timing(Measured::SendRecv, 2, bytes);
        Timing { algorithm: "send-recv", ..timing }
    }

    /// Latency of this node's links over that of the measured node.
    pub(super) fn link_latency_ratio(&self) -> f64 {
        self.cluster.node.link_latency_ns / LINK_LATENCY_NS
    }

    /// Time of a byte on this node's links over that on the measured node.
    pub(super) fn link_byte_ratio(&self) -> f64 {
        let node = &self.cluster.node;
        LINK_BYTES_PER_S * LINK_ACHIEVED / (node.link_bytes_per_s * node.link_achieved)
    }

    fn on_link(&self, reading: Reading) -> (f64, Source) {
        let (latency, byte) = (self.link_latency_ratio(), self.link_byte_ratio());
        let same = latency == 1.0 && byte == 1.0;
        let source = if same { reading.source } else { Source::Modelled };
        (reading.alpha * latency + reading.beta * byte, source)
    }
}

/// Every device reads all buffers (one-shot), or reduces its part and gathers (two-shot): the
/// switch points of vLLM 0.24 on NVLink.
fn shots(devices: u64, bytes: f64) -> &'static str {
    let limit = match devices {
        0..=2 => f64::INFINITY,
        3..=4 => 524_288.0,
        _ => 262_144.0,
    };
    if bytes < limit { "one-shot" } else { "two-shot" }
}
