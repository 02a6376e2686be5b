//! Shipped machines, and names such as `h100x8x4`.

use shardc_ir::diag::{Diagnostic, Result};

use super::read::{Entry, Flat, Value, flat};
use super::{Cluster, Provenance, build};
use crate::codes;
use shardc_ir::nearest::nearest;

/// Families of presets: name and text. A family is a device and its usual node.
const FAMILIES: &[(&str, &str)] = &[
    ("a10", include_str!("../../presets/a10.toml")),
    ("a100", include_str!("../../presets/a100.toml")),
    ("a100-40g", include_str!("../../presets/a100-40g.toml")),
    ("a100-40g-pcie", include_str!("../../presets/a100-40g-pcie.toml")),
    ("a100-pcie", include_str!("../../presets/a100-pcie.toml")),
    ("a30", include_str!("../../presets/a30.toml")),
    ("b200", include_str!("../../presets/b200.toml")),
    ("gb200", include_str!("../../presets/gb200.toml")),
    ("h100", include_str!("../../presets/h100.toml")),
    ("h100-pcie", include_str!("../../presets/h100-pcie.toml")),
    ("h200", include_str!("../../presets/h200.toml")),
    ("l4", include_str!("../../presets/l4.toml")),
    ("l40s", include_str!("../../presets/l40s.toml")),
];

/// Names of the shipped nodes, such as `h100x8`. Any of them may be followed by `xN` for N nodes,
/// and `FAMILYxD` is a node with D of its devices.
pub fn presets() -> Vec<String> {
    let mut names: Vec<String> =
        FAMILIES.iter().map(|(n, _)| format!("{n}x{}", usual(n))).collect();
    names.push("l4x4".to_string());
    names.sort();
    names
}

/// The cluster of a name: `FAMILY` (its usual node), `FAMILYxD` (a node of D devices) or
/// `FAMILYxDxN` (N such nodes, up to 4096).
///
/// # Errors
/// An unknown family, or counts that the family does not have; the help names the nearest ones.
pub fn preset(name: &str) -> Result<Cluster> {
    build::build(flat_of(name)?)
}

/// The values behind a preset's name.
pub(super) fn flat_of(name: &str) -> Result<Flat> {
    let (family, counts) = split(name)?;
    let mut entries = flat(FAMILIES[family].1)?;
    let most = number(&entries, "node.devices");
    let max_nodes = if entries.contains_key("cluster.max_nodes") {
        number(&entries, "cluster.max_nodes")
    } else {
        4096
    };
    let devices = counts.first().copied().unwrap_or(most);
    let nodes = counts.get(1).copied().unwrap_or(1);
    let family = FAMILIES[family].0;
    if devices == 0 || devices > most {
        let whole = devices.div_ceil(most).clamp(1, max_nodes);
        let message = format!("a node of `{family}` has 1 to {most} devices, not {devices}");
        let help = format!("write `{family}x{most}x{whole}` for {} devices", whole * most);
        return Err(Box::new(Diagnostic::error(codes::PRESET_UNKNOWN, message).help(help)));
    }
    if nodes == 0 || nodes > max_nodes {
        let message = format!("`{family}` joins 1 to {max_nodes} nodes, not {nodes}");
        let help = format!("write `{family}x{devices}x{}`", nodes.clamp(1, max_nodes));
        return Err(Box::new(Diagnostic::error(codes::PRESET_UNKNOWN, message).help(help)));
    }
    let canonical = if nodes == 1 {
        format!("{family}x{devices}")
    } else {
        format!("{family}x{devices}x{nodes}")
    };
    let said = |value| Entry { value, span: None, provenance: Provenance::stated() };
    entries.insert("name", said(Value::Text(canonical)));
    entries.insert("node.devices", said(Value::Number(devices as f64)));
    entries.insert("cluster.nodes", said(Value::Number(nodes as f64)));
    Ok(entries)
}

/// Index of the family and the counts after it.
fn split(name: &str) -> Result<(usize, Vec<u64>)> {
    let lower = name.trim().to_ascii_lowercase();
    let mut parts = lower.split('x');
    let family = parts.next().unwrap_or_default();
    let counts: Option<Vec<u64>> = parts.map(count).collect();
    match (FAMILIES.iter().position(|(n, _)| *n == family), counts) {
        (Some(index), Some(counts)) if counts.len() <= 2 => Ok((index, counts)),
        _ => Err(unknown(name)),
    }
}

/// A count of digits only; counts too large for any cluster saturate.
fn count(digits: &str) -> Option<u64> {
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().unwrap_or(u64::MAX))
}

fn unknown(name: &str) -> Box<Diagnostic> {
    let known = presets();
    let shown: String = name.chars().take(80).collect();
    let diagnostic = Diagnostic::error(
        codes::PRESET_UNKNOWN,
        format!("no cluster preset is called `{shown}`"),
    )
    .note(format!("presets: {}", known.join(", ")))
    .note(
        "`PRESETxN` is N nodes of a preset; a cluster of your own is a TOML file (docs/cluster.md)",
    );
    let mut parts = name.split('x');
    let family = parts.next().unwrap_or_default();
    let node = format!("{family}x{}", parts.next().unwrap_or_default());
    let near = nearest(&node, known.iter().map(String::as_str))
        .or_else(|| nearest(family, FAMILIES.iter().map(|(n, _)| *n)));
    Box::new(match near {
        Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
        None => diagnostic.help("name a preset, or the path of a cluster file"),
    })
}

fn number(entries: &Flat, path: &str) -> u64 {
    match entries.get(path).map(|e| &e.value) {
        Some(Value::Number(n)) => *n as u64,
        _ => 1,
    }
}

/// Devices of the family's usual node.
fn usual(family: &str) -> u64 {
    if family == "gb200" { 4 } else { 8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_preset_builds_and_keeps_its_name() {
        for name in presets() {
            let cluster = preset(&name).unwrap();
            assert_eq!(cluster.name, name);
            assert_eq!(cluster.nodes, 1);
            assert!(cluster.sources.values().all(|s| !s.text.is_empty()), "{name}");
        }
    }
}
