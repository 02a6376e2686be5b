//! A cluster in words: one line, or every constant with its source.

use std::fmt::Write;

use super::{Cluster, LinkKind, Math, Origin};

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

    /// Several lines: the summary, the device's rates, and every constant that is neither
    /// published nor measured, with its source.
    pub fn describe(&self) -> String {
        let device = &self.device;
        let mut out = format!("{}: {}\n", self.name, self.summary());
        let rate = |math| device.flops.of(math) / 1e12;
        let _ = writeln!(
            out,
            "  compute  bf16 {} TFLOP/s, fp8 {} TFLOP/s, {} multiprocessors, launch {} us",
            rate(Math::Bf16),
            rate(Math::Fp8),
            device.multiprocessors,
            device.launch_ns / 1e3
        );
        let memory = &device.memory;
        let _ = writeln!(
            out,
            "  memory   {} bytes at {} GB/s ({} achieved), reserve {} bytes, NCCL {} bytes",
            memory.capacity_bytes,
            memory.bytes_per_s / 1e9,
            memory.achieved,
            memory.reserve_bytes,
            memory.nccl_bytes_for(self.devices())
        );
        for (path, source) in &self.sources {
            if matches!(source.origin, Origin::Guess | Origin::Default | Origin::Package) {
                let _ = writeln!(out, "  {path}: {} ({})", source.origin.name(), source.text);
            }
        }
        out
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
    use super::super::preset;

    #[test]
    fn summary_names_what_matters() {
        let line = preset("h100x8x4").unwrap().summary();
        assert_eq!(line, "4 × 8 H100 SXM 80GB, NVLink 450 GB/s, network 50 GB/s");
        assert_eq!(preset("l4x1").unwrap().summary(), "1 × L4 24GB");
    }

    #[test]
    fn description_shows_what_is_only_believed() {
        let text = preset("l4x4").unwrap().describe();
        assert!(text.contains("node.link_achieved: guess"), "{text}");
    }
}
