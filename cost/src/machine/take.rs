//! Taking the first devices of a cluster: part of one node, or whole nodes.

use shardc_ir::diag::{Diagnostic, Result};

use super::Cluster;
use crate::codes;

impl Cluster {
    /// Devices in all.
    pub fn devices(&self) -> u64 {
        self.nodes.saturating_mul(self.node.devices)
    }

    /// The first `n` devices: n up to a node, or whole nodes.
    ///
    /// # Errors
    /// Any other `n`; the help names the nearest counts that can be taken.
    pub fn take(&self, n: u64) -> Result<Cluster> {
        let per_node = self.node.devices;
        let mut taken = self.clone();
        if (1..=per_node).contains(&n) {
            taken.nodes = 1;
            taken.node.devices = n;
        } else if n > 0 && n <= self.devices() && n.is_multiple_of(per_node) {
            taken.nodes = n / per_node;
        } else {
            return Err(Box::new(self.refuse(n)));
        }
        Ok(taken)
    }

    /// Every count that [`take`](Cluster::take) accepts, growing.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        let per_node = self.node.devices;
        (1..=per_node).chain((2..=self.nodes).map(move |n| n * per_node))
    }

    fn refuse(&self, n: u64) -> Diagnostic {
        let (total, per_node) = (self.devices(), self.node.devices);
        let message = format!(
            "cannot take {n} devices of `{}` ({} × {per_node} = {total})",
            self.name, self.nodes
        );
        let below = n.min(total) / per_node * per_node;
        let help = match n {
            0 => "take at least 1".to_string(),
            n if n > total => format!("take at most {total}"),
            _ => format!("take {below} or {}", below + per_node),
        };
        Diagnostic::error(codes::DEVICE_COUNT, message)
            .note("a part of one node, or whole nodes, can be taken")
            .help(help)
    }
}

#[cfg(test)]
mod tests {
    use super::super::preset;

    #[test]
    fn takes_part_of_a_node_or_whole_nodes() {
        let cluster = preset("h100x8x4").unwrap();
        for (n, nodes, per_node) in [(1, 1, 1), (5, 1, 5), (8, 1, 8), (16, 2, 8), (32, 4, 8)] {
            let taken = cluster.take(n).unwrap();
            assert_eq!((taken.nodes, taken.node.devices), (nodes, per_node));
        }
        let counts: Vec<_> = cluster.counts().collect();
        assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32]);
        assert!(counts.iter().all(|n| cluster.take(*n).is_ok()));
    }

    #[test]
    fn refuses_other_counts_with_the_nearest() {
        let cluster = preset("h100x8x4").unwrap();
        let help = |n| cluster.take(n).unwrap_err().help.unwrap();
        assert_eq!(help(12), "take 8 or 16");
        assert_eq!(help(33), "take at most 32");
        assert_eq!(help(u64::MAX), "take at most 32");
        assert_eq!(help(0), "take at least 1");
    }
}
