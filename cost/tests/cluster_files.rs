//! Cluster files: what they accept, what they refuse and where they point.

use proptest::prelude::*;
use shardc_cost::machine::schema::{Default, KEYS};
use shardc_cost::machine::{Cluster, Math, Origin, parse, preset, presets};
use shardc_ir::diag::Diagnostic;

/// Code, message, text pointed at, help.
fn refusal(text: &str) -> String {
    let error: Diagnostic = *parse(text).expect_err("accepted");
    let place = error
        .primary
        .as_ref()
        .map_or("-", |label| &text[label.span.start as usize..label.span.end as usize]);
    let help = error.help.as_deref().unwrap_or("-");
    format!("{} {} | {place} | {help}", error.code, error.message)
}

#[test]
fn a_base_supplies_what_is_not_given() {
    let cluster = parse("base = \"h100x8x2\"\n[device.memory]\nachieved = 0.7\n").unwrap();
    assert_eq!((cluster.nodes, cluster.node.devices), (2, 8));
    assert_eq!(cluster.device.memory.achieved, 0.7);
    assert_eq!(cluster.device.flops.of(Math::Fp8), 1978e12);
    assert_eq!(cluster.sources["device.memory.achieved"].origin, Origin::Stated);
    assert_eq!(cluster.sources["device.flops.bf16"].origin, Origin::Datasheet);
    assert_eq!(cluster.sources["node.link_latency_ns"].origin, Origin::Measured);
}

#[test]
fn defaults_fill_the_rest() {
    let text = "[device.flops]\nbf16 = 100e12\n\
                [device.memory]\nbytes_per_s = 1e12\ncapacity_bytes = 24e9\n";
    let cluster = parse(text).unwrap();
    assert_eq!(cluster.devices(), 1);
    assert_eq!(cluster.device.flops.of(Math::F16), 100e12);
    assert_eq!(cluster.device.flops.of(Math::Tf32), 50e12);
    assert_eq!(cluster.device.flops.of(Math::Fp4), 100e12, "widened to bf16");
    assert_eq!(cluster.node.link_bytes_per_s, cluster.node.pcie_bytes_per_s);
    assert_eq!(cluster.node.link_latency_ns, 10_000.0, "a PCIe node");
    assert_eq!(cluster.device.memory.nccl_bytes_for(3), 358_612_992);
    assert_eq!(cluster.sources["node.devices"].origin, Origin::Default);
}

#[test]
fn refusals_point_and_help() {
    let cases = [
        (
            "base = \"h10x8\"",
            "M006 no cluster preset is called `h10x8` | \"h10x8\" | did you mean `h100x8`?",
        ),
        ("[device", "M001"),
        ("bsae = \"h100x8\"", "M002 unknown key `bsae` | bsae | did you mean `base`?"),
        (
            "[node]\ndevcies = 3",
            "M002 unknown key `node.devcies` | devcies | did you mean `node.devices`?",
        ),
        (
            "[device]\ncapacity_bytes = 3",
            "M002 unknown key `device.capacity_bytes` | capacity_bytes | did you mean `device.memory.capacity_bytes`?",
        ),
        (
            "[node]\ndevices = \"8\"",
            "M003 `node.devices` must be a number, found string | \"8\" | `node.devices`: devices in a node",
        ),
        ("node = 8", "M003 `node` must be a table, found integer | 8"),
        ("[node]\ndevices = -8", "M004 `node.devices` is -8 | -8"),
        ("[node]\ndevices = 2.5", "M004 `node.devices` is 2.5 | 2.5"),
        ("[node]\ndevices = 99999999999999999999999999", "M004 `node.devices`"),
        (
            "[node]\nlink = \"ethernet\"",
            "M004 `node.link` cannot be \"ethernet\" | \"ethernet\" | write one of nvlink, pcie",
        ),
        ("[device.memory]\nbytes_per_s = nan", "M004 `device.memory.bytes_per_s` is NaN | nan"),
        ("[device.memory]\nbytes_per_s = inf", "M004 `device.memory.bytes_per_s` is inf | inf"),
        ("[device.memory]\nachieved = 1.5", "M004 `device.memory.achieved` is 1.5 | 1.5"),
        ("[device.flops]\nbf16 = 1e300", "M004"),
        (
            "[device.flops]\nbf16 = true",
            "M003 `device.flops.bf16` must be a number, found boolean | true",
        ),
        (
            "[device.memory]\nnccl_bytes = [[2, 5], [2, 6]]",
            "M004 `device.memory.nccl_bytes` is 2 after 2 | [2, 6]",
        ),
        ("[device.memory]\nnccl_bytes = [[2]]", "M003"),
        ("[sources]\n\"node.devcies\" = \"x\"", "M002 unknown key `node.devcies`"),
        (
            "[device.flops]\nbf16 = 1e12",
            "M005 the cluster file lacks `device.memory.bytes_per_s`, `device.memory.capacity_bytes`",
        ),
        (
            "base = \"h100x8\"\n[device.memory]\nreserve_bytes = 90e9",
            "M004 the reserve of 90000000000 bytes leaves nothing",
        ),
        (
            "base = \"gb200x4\"\n[cluster]\nnodes = 19",
            "M004 19 nodes are more than the 18 that the network joins | 19",
        ),
    ];
    for (text, expected) in cases {
        let found = refusal(text);
        assert!(found.starts_with(expected), "{text:?}\n found {found}\n wanted {expected}");
    }
}

#[test]
fn values_that_no_machine_has_are_refused() {
    for (text, expected) in [
        ("bytes_per_s = 1", "M004 `device.memory.bytes_per_s` is 1 | 1"),
        ("achieved = 1e-9", "M004 `device.memory.achieved` is 0.000000001"),
    ] {
        let found = refusal(&format!("[device.memory]\n{text}"));
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn hostile_files_are_refused_quickly() {
    assert!(refusal(&"[".repeat(200_000)).starts_with("M001"));
    assert!(refusal(&format!("a = {}", "[".repeat(200_000))).starts_with("M001"));
    assert!(refusal(&"# padding\n".repeat(1 << 20)).starts_with("M001"));
    assert!(refusal(&format!("{} = 1", "k".repeat(100_000))).starts_with("M002"));
}

#[test]
fn preset_names_parse_counts() {
    let size = |name| preset(name).map(|c| (c.node.devices, c.nodes));
    assert_eq!(size("h100").unwrap(), (8, 1));
    assert_eq!(size("H100x8").unwrap(), (8, 1));
    assert_eq!(size("h100x4").unwrap(), (4, 1));
    assert_eq!(size("h100x8x32").unwrap(), (8, 32));
    assert_eq!(size("l4x4x3").unwrap(), (4, 3));
    assert_eq!(size("h100x8x4096").unwrap(), (8, 4096));
    for (name, help) in [
        ("h100x16", "write `h100x8x2` for 16 devices"),
        ("h100x8x5000", "write `h100x8x4096`"),
        ("h100x8x0", "write `h100x8x1`"),
        ("h100x99999999999999999999999", "write `h100x8x4096` for 32768 devices"),
        ("gb200x4x20", "write `gb200x4x18`"),
        ("h300x8", "did you mean `h100x8`?"),
        ("h100x8x2x2", "did you mean `h100x8`?"),
        ("h100x-8", "did you mean `h100x8`?"),
        ("tpu", "name a preset, or the path of a cluster file"),
    ] {
        assert_eq!(size(name).unwrap_err().help.as_deref(), Some(help), "{name}");
    }
}

#[test]
fn examples_build() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/clusters");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let cluster = parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(Some(cluster.name.as_str()), path.file_stem().and_then(|s| s.to_str()));
        names.push(cluster.name);
    }
    assert!(names.len() >= 3, "{names:?}");
}

/// The reference in `docs/cluster.md` lists exactly the keys of the schema.
#[test]
fn reference_matches_the_schema() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cluster.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows: Vec<&str> = text.lines().filter(|l| l.starts_with("| `")).collect();
    let wanted: Vec<String> = KEYS
        .iter()
        .map(|k| format!("| `{}` | {} | {} | {} |", k.path, k.kind, k.default, k.doc))
        .collect();
    assert_eq!(rows, wanted, "\n{}\n", wanted.join("\n"));
}

#[test]
fn required_keys_are_few() {
    let required = KEYS.iter().filter(|k| k.default == Default::Required).count();
    assert_eq!(required, 3);
}

fn sane(cluster: &Cluster) -> bool {
    let memory = &cluster.device.memory;
    memory.capacity_bytes > memory.reserve_bytes
        && cluster.device.flops.of(Math::Fp4).is_finite()
        && cluster.devices() >= 1
}

proptest! {
    #[test]
    fn edited_files_never_panic(at in 0usize..2000, cut in 0usize..40, put in ".{0,8}") {
        let text = include_str!("../presets/h100.toml");
        let (from, to) = (at.min(text.len()), (at + cut).min(text.len()));
        let edited = format!("{}{put}{}", &text[..from], &text[to..]);
        if let Ok(cluster) = parse(&edited) {
            prop_assert!(sane(&cluster));
        }
    }

    #[test]
    fn names_never_panic(name in "[a-z0-9x-]{0,24}|\\PC{0,24}") {
        if let Ok(cluster) = preset(&name) {
            prop_assert!(sane(&cluster));
        }
    }

    #[test]
    fn every_count_of_a_cluster_can_be_taken(which in 0usize..12, nodes in 1u64..40, n in 0u64..400) {
        let names = presets();
        let mut cluster = preset(&names[which]).unwrap();
        cluster.nodes = nodes;
        let legal = cluster.counts().any(|c| c == n);
        prop_assert_eq!(cluster.take(n).is_ok(), legal);
        if legal {
            prop_assert_eq!(cluster.take(n).unwrap().devices(), n);
        }
    }
}
