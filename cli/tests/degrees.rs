//! `shardc degrees` from outside, and searches over degrees from inside.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where a run fails")]

mod common;

use common::{file, model, scratch, shardc};
use serde_json::{Value, json};
use shardc::facade::{ModelRequest, read_model};
use shardc_cost::machine;
use shardc_cost::profile::Profile;
use shardc_cost::serving::Load;
use shardc_passes::absorb_latent_attention::absorb_latent_attention;
use shardc_passes::registry;
use shardc_passes::search::{Evaluator, legal_degrees};

fn degrees(path: &str, gpus: &str) -> Value {
    let run = shardc(&["degrees", path, "--gpus", gpus, "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.json()
}

/// A shipped configuration with some keys changed.
fn changed(name: &str, test: &str, changes: &[(&str, u64)]) -> String {
    let text = std::fs::read_to_string(model(name)).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    for (key, value) in changes {
        config[*key] = json!(value);
    }
    file(&scratch(test), "config.json", config.to_string())
}

#[test]
fn heads_are_whole() {
    let changes = [
        ("num_attention_heads", 28),
        ("num_key_value_heads", 4),
        ("hidden_size", 3584),
        ("head_dim", 128),
    ];
    let path = changed("meta-llama__Meta-Llama-3.1-8B", "heads_28", &changes);
    let out = degrees(&path, "28");
    let rows = out["tp"].as_array().unwrap();
    assert_eq!(rows.len(), 28);
    let degrees = |keep: &dyn Fn(&Value) -> bool| -> Vec<u64> {
        rows.iter().filter(|r| keep(r)).map(|r| r["degree"].as_u64().unwrap()).collect()
    };
    assert_eq!(degrees(&|r| r["parts"]["heads"]["valid"] == true), [1, 2, 4, 28]);
    assert_eq!(degrees(&|r| r["group_split"] == true), [7, 14]);
    assert_eq!(rows[27]["kv_copies"], 7);
    let text = shardc(&["degrees", &path, "--gpus", "28"]).stdout;
    for row in rows {
        assert!(text.contains(row["reason"].as_str().unwrap()), "{row}");
    }
    for row in rows {
        for key in ["degree", "valid", "reason", "parts", "padding", "group_split"] {
            assert!(!row[key].is_null(), "{key} of {row}");
        }
        let split = row["parts"]["heads"]["valid"] == true || row["group_split"] == true;
        assert_eq!(row["kv_copies"].is_u64(), split, "{row}");
        for part in ["heads", "ffn", "vocab", "experts"] {
            assert!(row["parts"][part]["reason"].is_string(), "{part} of {row}");
        }
    }
}

#[test]
fn vocabulary_is_padded_and_experts_are_dealt() {
    let changes = [("vocab_size", 151_552), ("num_experts", 30)];
    let path = changed("Qwen__Qwen3-30B-A3B", "padded", &changes);
    let out = degrees(&path, "8");
    assert_eq!(out["tp"][5]["padding"], json!({"vocab": 2, "padded_vocab": 151_554}));
    let row = &out["ep"][7];
    assert_eq!(row["valid"], true);
    assert_eq!(row["shares"], json!([{"ranks": 6, "experts": 4}, {"ranks": 2, "experts": 3}]));
    assert_eq!(row["reason"], "30 experts: 6 ranks of 4, 2 ranks of 3");
    let run = shardc(&["compile", &path, "--cluster", "h100x8", "--layout", "dp=8,ep=8"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn blocks_are_refused_by_number() {
    let out = degrees(&model("Qwen__Qwen3-235B-A22B-FP8"), "8");
    let experts = &out["tp"][7]["parts"]["experts"];
    assert_eq!(experts["valid"], false);
    let reason = experts["reason"].as_str().unwrap();
    assert!(
        reason.contains("1536 over 8 is 192, which cuts quantisation blocks of 128"),
        "{reason}"
    );
    assert_eq!(degrees(&model("Qwen__Qwen3-235B-A22B"), "8")["tp"][7]["valid"], true);
}

#[test]
fn refusing_without_lowering_refuses_the_same_plans() {
    for (name, cluster) in [
        ("deepseek-ai__DeepSeek-V3", "h100x8x2"),
        ("openai__gpt-oss-120b", "a100-40gx8"),
        ("meta-llama__Meta-Llama-3.1-70B", "h100x4"),
    ] {
        let config = std::fs::read_to_string(model(name)).unwrap();
        let request = ModelRequest { config, ..ModelRequest::default() };
        let prefill = read_model(&request).unwrap().logical;
        let mut decode = prefill.clone();
        absorb_latent_attention(&mut decode, &registry::Options::default()).unwrap();
        let cluster = machine::preset(cluster).unwrap();
        let (profile, load) = (Profile::default(), Load::new(1024, 1024));
        let evaluator =
            Evaluator::new(&prefill, &decode, &cluster, &profile, load, 2048, 1.0, None);
        for degrees in legal_degrees(evaluator.facts(), cluster.devices()) {
            let quick = evaluator.evaluate(&degrees).unwrap().is_ok();
            let exact = evaluator.evaluate_exactly(&degrees).unwrap().is_ok();
            assert_eq!(quick, exact, "{name} {degrees}");
        }
    }
}
