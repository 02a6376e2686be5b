//! Runs of the measured expert rows in which the benchmark's autotuner found no kernel.
//!
//! About one run in ten, a shape, split and load timed over all numbers of tokens, is three to five
//! times slower than its neighbours from the first row to the last. Which ones says nothing about
//! sizes: the same shape and split is among them under one load and not under another. So they are
//! listed, for tables of that benchmark alone; plans are priced with tuned kernels.

use std::collections::BTreeSet;
use std::sync::OnceLock;

const TEXT: &str = include_str!("../../data/h100_untuned_experts.csv");

/// A run of TensorRT-LLM 1.3 on an H100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertRun<'a> {
    /// `bfloat16` or `fp8`.
    pub dtype: &'a str,
    /// `moe_torch_flow_…`.
    pub kernel: &'a str,
    /// `balanced` or `power_law_…`.
    pub distribution: &'a str,
    /// Widths of a token and of an expert, experts a token chooses, experts in all, devices that
    /// split an expert, devices that split the experts.
    pub sizes: [u64; 6],
}

impl ExpertRun<'_> {
    /// Whether the run is among them.
    pub fn was_untuned(&self) -> bool {
        static LINES: OnceLock<BTreeSet<&str>> = OnceLock::new();
        let lines = LINES.get_or_init(|| TEXT.lines().filter(|l| !l.starts_with('#')).collect());
        let [hidden, inter, top_k, experts, tp, ep] = self.sizes;
        let ExpertRun { dtype, kernel, distribution, .. } = self;
        let line =
            format!("{dtype},{hidden},{inter},{top_k},{experts},{tp},{ep},{distribution},{kernel}");
        lines.contains(line.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_run_is_found_by_all_of_its_columns() {
        let run = ExpertRun {
            dtype: "bfloat16",
            kernel: "moe_torch_flow_cutlass",
            distribution: "power_law_1.01",
            sizes: [5120, 8192, 1, 16, 1, 1],
        };
        assert!(run.was_untuned());
        assert!(!ExpertRun { distribution: "balanced", ..run }.was_untuned());
        assert!(!ExpertRun { dtype: "fp8_block", ..run }.was_untuned());
    }
}
