//! A group of communicating devices, reduced to what cost depends on.

/// How many devices communicate, and how many of them share a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// Devices.
    pub size: u64,
    /// Members in one node: each of them drives its own network port.
    pub per_node: u64,
    /// Nodes with members.
    pub nodes: u64,
}

impl Group {
    /// `size` devices of one node.
    pub fn in_node(size: u64) -> Group {
        Group { size: size.max(1), per_node: size.max(1), nodes: 1 }
    }

    /// `per_node` devices on each of `nodes` nodes.
    pub fn across(per_node: u64, nodes: u64) -> Group {
        let (per_node, nodes) = (per_node.max(1), nodes.max(1));
        Group { size: per_node.saturating_mul(nodes), per_node, nodes }
    }

    /// The devices `base + i·stride` for i in 0..size of row-major numbered devices, where a node
    /// holds `node_devices` consecutive ones. Groups that straddle nodes unevenly are priced as
    /// their worst one.
    pub fn strided(size: u64, stride: u64, node_devices: u64) -> Group {
        let (size, stride, node) = (size.max(1), stride.max(1), node_devices.max(1));
        let span = size.saturating_mul(stride);
        if size == 1 || node.is_multiple_of(span) {
            return Group::in_node(size);
        }
        if span.is_multiple_of(node) && (node.is_multiple_of(stride) || stride.is_multiple_of(node))
        {
            let per_node = (node / stride).max(1);
            return Group { size, per_node, nodes: size / per_node };
        }
        let nodes = span.div_ceil(node).max(2).min(size);
        Group { size, per_node: size / nodes, nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_find_the_nodes() {
        let group = |size, stride| {
            let g = Group::strided(size, stride, 8);
            (g.per_node, g.nodes)
        };
        assert_eq!(group(8, 1), (8, 1));
        assert_eq!(group(4, 2), (4, 1));
        assert_eq!(group(16, 1), (8, 2));
        assert_eq!(group(8, 4), (2, 4));
        assert_eq!(group(4, 8), (1, 4));
        assert_eq!(group(4, 16), (1, 4));
        assert_eq!(group(1, 64), (1, 1));
        assert_eq!(group(6, 1), (3, 2), "straddles");
        assert_eq!(group(u64::MAX, u64::MAX).1, u64::MAX / 8 + 1);
    }
}
