//! Checked values to a [`Cluster`]: inheritance, defaults, and rules between keys.

use std::collections::BTreeMap;

use shardc_ir::diag::{Diagnostic, Result, Span};

use super::read::{Entry, Flat, Value, flat};
use super::schema::{self, Default, KEYS, NCCL_BUFFERS};
use super::{
    Cluster, Device, DeviceMemory, FlopRates, LinkKind, Network, Node, Provenance, preset,
};
use crate::codes;

/// Reads a cluster file (see `docs/cluster.md`).
///
/// # Errors
/// Text that is not TOML, unknown or mistyped keys, values out of range, missing keys, an unknown
/// `base`: each with the place in `text` and the nearest legal choice.
pub fn parse(text: &str) -> Result<Cluster> {
    let mut entries = flat(text)?;
    if let Some(base) = entries.remove("base") {
        let Value::Text(name) = &base.value else { return Err(internal("base")) };
        let inherited = preset::flat_of(name).map_err(|d| match base.span {
            Some(at) => Box::new(d.at(at, "this base")),
            None => d,
        })?;
        for (path, mut entry) in inherited {
            entry.span = None;
            entries.entry(path).or_insert(entry);
        }
    }
    build(entries)
}

/// Fills defaults and checks rules between keys.
pub(super) fn build(mut entries: Flat) -> Result<Cluster> {
    entries.remove("base");
    missing(&entries)?;
    let pcie_link = !matches!(entries.get("node.link").map(|e| &e.value),
        Some(Value::Text(kind)) if kind == "nvlink");
    // A default may copy another default, and each chain is at most two long.
    for _ in 0..2 {
        for key in KEYS {
            if let (false, Some(value)) =
                (entries.contains_key(key.path), default(key.default, pcie_link, &entries))
            {
                let entry = Entry { value, span: None, provenance: Provenance::assumed() };
                entries.insert(key.path, entry);
            }
        }
    }
    let cluster = assemble(&Values(&entries))?;
    consistent(&cluster, &entries)?;
    Ok(cluster)
}

fn missing(entries: &Flat) -> Result<()> {
    let absent: Vec<_> = KEYS
        .iter()
        .filter(|k| k.default == Default::Required && !entries.contains_key(k.path))
        .map(|k| format!("`{}`", k.path))
        .collect();
    if absent.is_empty() {
        return Ok(());
    }
    let message = format!("the cluster file lacks {}", absent.join(", "));
    let help = "set them, or start from a preset with `base = \"h100x8\"`";
    Err(Box::new(Diagnostic::error(codes::CLUSTER_MISSING_KEY, message).help(help)))
}

fn default(default: Default, pcie_link: bool, entries: &Flat) -> Option<Value> {
    Some(match default {
        Default::Required | Default::Absent => return None,
        Default::Number(n) => Value::Number(n),
        Default::Text(text) => Value::Text(text.to_string()),
        Default::Times(path, factor) => match entries.get(path)?.value {
            Value::Number(n) => Value::Number(n * factor),
            _ => return None,
        },
        Default::ByLink(nvlink, pcie) => Value::Number(if pcie_link { pcie } else { nvlink }),
        Default::NcclBuffers => Value::Pairs(NCCL_BUFFERS.to_vec()),
    })
}

/// Typed access to a complete map.
struct Values<'a>(&'a Flat);

impl Values<'_> {
    fn number(&self, path: &str) -> Result<f64> {
        self.optional(path).ok_or_else(|| internal(path))
    }

    fn optional(&self, path: &str) -> Option<f64> {
        match self.0.get(path)?.value {
            Value::Number(n) => Some(n),
            _ => None,
        }
    }

    fn whole(&self, path: &str) -> Result<u64> {
        self.number(path).map(|n| n as u64)
    }

    fn text(&self, path: &str) -> Result<String> {
        match self.0.get(path).map(|e| &e.value) {
            Some(Value::Text(text)) => Ok(text.clone()),
            _ => Err(internal(path)),
        }
    }

    fn pairs(&self, path: &str) -> Result<Vec<(u64, u64)>> {
        match self.0.get(path).map(|e| &e.value) {
            Some(Value::Pairs(pairs)) => Ok(pairs.clone()),
            _ => Err(internal(path)),
        }
    }
}

fn assemble(v: &Values) -> Result<Cluster> {
    let sources: BTreeMap<_, _> =
        v.0.iter().map(|(path, e)| (*path, e.provenance.clone())).collect();
    Ok(Cluster {
        name: v.text("name")?,
        device: device(v)?,
        node: node(v)?,
        nodes: v.whole("cluster.nodes")?,
        network: Network {
            max_nodes: v.whole("cluster.max_nodes")?,
            bytes_per_s: v.number("cluster.nic_bytes_per_s")?,
            latency_ns: v.number("cluster.nic_latency_ns")?,
            achieved: v.number("cluster.nic_achieved")?,
        },
        sources,
    })
}

fn device(v: &Values) -> Result<Device> {
    Ok(Device {
        name: v.text("device.name")?,
        sm: v.whole("device.sm")?,
        multiprocessors: v.whole("device.multiprocessors")?,
        launch_ns: v.number("device.launch_ns")?,
        flops: FlopRates {
            f32: v.number("device.flops.f32")?,
            tf32: v.number("device.flops.tf32")?,
            bf16: v.number("device.flops.bf16")?,
            f16: v.number("device.flops.f16")?,
            fp8: v.optional("device.flops.fp8"),
            int8: v.optional("device.flops.int8"),
            fp4: v.optional("device.flops.fp4"),
        },
        memory: DeviceMemory {
            bytes_per_s: v.number("device.memory.bytes_per_s")?,
            achieved: v.number("device.memory.achieved")?,
            capacity_bytes: v.whole("device.memory.capacity_bytes")?,
            reserve_bytes: v.whole("device.memory.reserve_bytes")?,
            nccl_bytes: v.pairs("device.memory.nccl_bytes")?,
        },
    })
}

fn node(v: &Values) -> Result<Node> {
    Ok(Node {
        devices: v.whole("node.devices")?,
        link: match v.text("node.link")?.as_str() {
            "nvlink" => LinkKind::NvLink,
            _ => LinkKind::Pcie,
        },
        link_bytes_per_s: v.number("node.link_bytes_per_s")?,
        link_latency_ns: v.number("node.link_latency_ns")?,
        link_achieved: v.number("node.link_achieved")?,
        pcie_bytes_per_s: v.number("node.pcie_bytes_per_s")?,
        host_bytes_per_device: v.whole("node.host_bytes_per_device")?,
    })
}

/// Rules that no single key can break.
fn consistent(cluster: &Cluster, entries: &Flat) -> Result<()> {
    let memory = &cluster.device.memory;
    if memory.reserve_bytes >= memory.capacity_bytes {
        let message = format!(
            "the reserve of {} bytes leaves nothing of {} bytes of device memory",
            memory.reserve_bytes, memory.capacity_bytes
        );
        return Err(between(
            message,
            entries,
            "device.memory.reserve_bytes",
            "device.memory.capacity_bytes",
        ));
    }
    if cluster.nodes > cluster.network.max_nodes {
        let message = format!(
            "{} nodes are more than the {} that the network joins",
            cluster.nodes, cluster.network.max_nodes
        );
        return Err(between(message, entries, "cluster.nodes", "cluster.max_nodes"));
    }
    Ok(())
}

fn between(message: String, entries: &Flat, lower: &str, higher: &str) -> Box<Diagnostic> {
    let at = |path: &str| -> Option<Span> { entries.get(path)?.span };
    let mut diagnostic = Diagnostic::error(codes::CLUSTER_RANGE, message)
        .help(format!("lower `{lower}` or raise `{higher}`"));
    if let Some(place) = at(lower).or(at(higher)) {
        diagnostic = diagnostic.at(place, "");
    }
    Box::new(diagnostic)
}

/// A key that the schema guarantees is absent or of another kind: a bug in the schema.
fn internal(path: &str) -> Box<Diagnostic> {
    let doc = schema::find(path).map_or("no such key", |k| k.doc);
    Box::new(Diagnostic::error(codes::SCHEMA, format!("the schema lost `{path}` ({doc})")))
}
