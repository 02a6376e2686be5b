//! A cluster in words: one line, or every constant with its source.

use std::fmt::Write;

use super::{Cluster, Device, LinkKind, Origin, Provenance, schema};

/// A constant of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant<'a> {
    /// Its key in a cluster file.
    pub path: &'static str,
    /// Its value, as a cluster file writes it.
    pub value: String,
    /// Where it comes from.
    pub source: &'a Provenance,
}

impl Cluster {
    /// One line such as `4 × 8 H100 SXM 80GB, NVLink 450 GB/s, network 50 GB/s`.
    pub fn summary(&self) -> String {
        let (devices, device) = (self.node.devices, &self.device.name);
        let mut line = match (self.nodes, devices) {
            (1, n) => format!("{n} × {device}"),
            (nodes, n) => format!("{nodes} × {n} {device}"),
        };
        if devices > 1 {
            let kind = self.node.link.name();
            let _ = write!(line, ", {kind} {} GB/s", giga(self.node.link_bytes_per_s));
        }
        if self.nodes > 1 {
            let _ = write!(line, ", network {} GB/s", giga(self.network.bytes_per_s));
        }
        line
    }

    /// Several lines: the summary, then every constant with its source.
    pub fn describe(&self) -> String {
        let mut out = format!("{}: {}\n", self.name, self.summary());
        for Constant { path, value, source } in self.constants() {
            let (origin, text) = (source.origin.name(), &source.text);
            let _ = writeln!(out, "  {path:28}  {value:26}  {origin:9}  {text}");
        }
        out
    }

    /// Every constant, in the order of the reference.
    pub fn constants(&self) -> Vec<Constant<'_>> {
        let constant = |path: &'static str| {
            let source = self.sources.get(path)?;
            Some(Constant { path, value: self.value(path)?, source })
        };
        schema::KEYS.iter().filter_map(|key| constant(key.path)).collect()
    }

    /// The value of a key of a cluster file, as the file writes it; none where the device lacks it.
    fn value(&self, path: &str) -> Option<String> {
        let (node, network) = (&self.node, &self.network);
        let number = match path {
            "node.devices" => node.devices as f64,
            "node.link_bytes_per_s" => node.link_bytes_per_s,
            "node.link_latency_ns" => node.link_latency_ns,
            "node.link_achieved" => node.link_achieved,
            "node.pcie_bytes_per_s" => node.pcie_bytes_per_s,
            "node.host_bytes_per_device" => node.host_bytes_per_device as f64,
            "cluster.nodes" => self.nodes as f64,
            "cluster.max_nodes" => network.max_nodes as f64,
            "cluster.nic_bytes_per_s" => network.bytes_per_s,
            "cluster.nic_latency_ns" => network.latency_ns,
            "cluster.nic_achieved" => network.achieved,
            "name" => return Some(self.name.clone()),
            "node.link" => return Some(node.link.name().to_ascii_lowercase()),
            _ => return self.device.value(path),
        };
        Some(number.to_string())
    }
}

impl Device {
    fn value(&self, path: &str) -> Option<String> {
        let (flops, memory) = (&self.flops, &self.memory);
        let number = match path.strip_prefix("device.")? {
            "sm" => self.sm as f64,
            "multiprocessors" => self.multiprocessors as f64,
            "launch_ns" => self.launch_ns,
            "flops.f32" => flops.f32,
            "flops.tf32" => flops.tf32,
            "flops.bf16" => flops.bf16,
            "flops.f16" => flops.f16,
            "flops.fp8" => flops.fp8?,
            "flops.int8" => flops.int8?,
            "flops.fp4" => flops.fp4?,
            "memory.bytes_per_s" => memory.bytes_per_s,
            "memory.achieved" => memory.achieved,
            "memory.capacity_bytes" => memory.capacity_bytes as f64,
            "memory.reserve_bytes" => memory.reserve_bytes as f64,
            "memory.nccl_bytes" => {
                let pairs = memory.nccl_bytes.iter().map(|(n, bytes)| format!("[{n}, {bytes}]"));
                return Some(format!("[{}]", pairs.collect::<Vec<_>>().join(", ")));
            }
            "name" => return Some(self.name.clone()),
            _ => return None,
        };
        Some(number.to_string())
    }
}

/// Billions, four digits: `450`, `17.18`.
fn giga(rate: f64) -> f64 {
    let digits = 3 - (rate / 1e9).log10().floor().clamp(-3.0, 3.0) as i32;
    let unit = 10f64.powi(digits);
    (rate / 1e9 * unit).round() / unit
}

impl LinkKind {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            LinkKind::NvLink => "NVLink",
            LinkKind::Pcie => "PCIe",
        }
    }
}

impl Origin {
    /// The word that a cluster file uses for it.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Measured => "measured",
            Origin::Datasheet => "datasheet",
            Origin::Package => "package",
            Origin::Stated => "stated",
            Origin::Default => "default",
            Origin::Guess => "guess",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{preset, schema};

    #[test]
    fn summary_names_what_matters() {
        let line = preset("h100x8x4").unwrap().summary();
        assert_eq!(line, "4 × 8 H100 SXM 80GB, NVLink 450 GB/s, network 50 GB/s");
        assert_eq!(preset("l4x1").unwrap().summary(), "1 × L4 24GB");
    }

    #[test]
    fn description_shows_every_constant() {
        let cluster = preset("l4x4").unwrap();
        let text = cluster.describe();
        assert!(
            text.lines().any(|l| l.contains("node.link_achieved") && l.contains("guess")),
            "{text}"
        );
        let missing: Vec<_> = schema::KEYS
            .iter()
            .filter(|k| !cluster.constants().iter().any(|c| c.path == k.path))
            .map(|k| k.path)
            .collect();
        assert_eq!(missing, ["base", "device.flops.fp4"]);
    }
}
