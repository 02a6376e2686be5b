//! The shipped configurations give exactly the published parameter counts.

#![allow(clippy::unwrap_used, reason = "a test stops where a file is missing")]

mod common;

use common::{configs, models, read, shipped};
use shardc_frontend::spec::DType;
use std::collections::BTreeMap;
use std::path::Path;

#[test]
fn parameters_are_exact() {
    let expected: BTreeMap<String, u64> =
        serde_json::from_str(&shipped("parameters.json")).unwrap();
    let found: BTreeMap<String, u64> = models()
        .into_iter()
        .map(|(name, text)| (name, read(&text).parameters().unwrap()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn files_as_they_stand_on_the_hub_count_exactly() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let text = std::fs::read_to_string(folder.join("published.counts.json")).unwrap();
    let expected: BTreeMap<String, u64> = serde_json::from_str(&text).unwrap();
    let files = configs(&folder.join("published"));
    let found: BTreeMap<String, u64> =
        files.into_iter().map(|(name, text)| (name, read(&text).parameters().unwrap())).collect();
    assert_eq!(found, expected);
}

/// The stand-in of a size that nobody published has the parameters that its README says.
#[test]
fn the_stand_in_has_the_parameters_that_are_stated() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/stand-ins");
    let text = std::fs::read_to_string(folder.join("moe-1.6t.json")).unwrap();
    let spec = read(&text);
    let counts = [spec.parameters().unwrap(), spec.active_parameters().unwrap()];
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    assert_eq!(counts[0], 1_569_636_477_440);
    for count in counts {
        let stated = (count as f64 / 1e8).round() / 10.0;
        assert!(readme.contains(&format!("{stated} B")), "{stated} B of {counts:?}");
    }
}

#[test]
fn active_parameters_leave_out_idle_experts() {
    let active = |name: &str| {
        let spec = read(&shipped(&format!("{name}.json")));
        (spec.active_parameters().unwrap() as f64 / 1e7).round() / 100.0
    };
    assert_eq!(active("mistralai__Mixtral-8x7B-v0.1"), 12.88);
    assert_eq!(active("mistralai__Mixtral-8x22B-v0.1"), 39.15);
    assert_eq!(active("Qwen__Qwen3-235B-A22B"), 22.19);
    assert_eq!(active("deepseek-ai__DeepSeek-V3"), 37.55);
    assert_eq!(active("meta-llama__Llama-4-Maverick-17B-128E-Instruct"), 17.18);
    assert_eq!(active("meta-llama__Meta-Llama-3-8B"), 8.03);
}

#[test]
fn kv_bytes_per_token() {
    let bytes =
        |name: &str| read(&shipped(&format!("{name}.json"))).kv_bytes_per_token(DType::Bf16);
    assert_eq!(bytes("Qwen__Qwen3-30B-A3B"), 98_304);
    assert_eq!(bytes("deepseek-ai__DeepSeek-V3"), 70_272);
    assert_eq!(bytes("meta-llama__Meta-Llama-3.1-70B"), 327_680);
    assert_eq!(bytes("meta-llama__Meta-Llama-3.1-405B"), 516_096);
}

#[test]
fn equal_layers_share_a_class() {
    let classes = |name: &str| -> Vec<usize> {
        let spec = read(&shipped(&format!("{name}.json")));
        spec.layer_classes().iter().map(|(_, members)| members.len()).collect()
    };
    assert_eq!(classes("meta-llama__Meta-Llama-3-8B"), [32]);
    assert_eq!(classes("deepseek-ai__DeepSeek-V3"), [3, 58]);
    assert_eq!(classes("openai__gpt-oss-120b"), [18, 18]);
    assert_eq!(classes("meta-llama__Llama-4-Maverick-17B-128E-Instruct"), [24, 12, 12]);
}
