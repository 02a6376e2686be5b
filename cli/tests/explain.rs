//! `shardc explain` from outside: costs add up, reasons name what decided, alternatives are priced.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where a run fails")]

mod common;

use common::{masked, model, scratch, shardc};
use serde_json::Value;

const LLAMA: &str = "meta-llama__Meta-Llama-3.1-8B";

fn explained(args: &[&str]) -> Value {
    let run = shardc(&[&["explain"], args, &["--json"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.json()
}

#[test]
fn a_directory_is_explained_as_the_plan_that_was_compiled() {
    let dir = scratch("explain_directory");
    let out = dir.join("plan").display().to_string();
    for (name, layout) in [(LLAMA, "tp=2,pp=2,dp=2"), ("Qwen__Qwen3-30B-A3B", "dp=8,ep=8")] {
        let path = model(name);
        let request = ["--cluster", "h100x8", "--layout", layout];
        let plan = shardc(&[&["compile", &path], &request[..], &["-o", &out, "--json"]].concat());
        let here = explained(&[&[path.as_str()], &request[..]].concat());
        let there = explained(&[&out]);
        assert_eq!(here, there);
        for (phase, planned) in there["phases"]
            .as_array()
            .unwrap()
            .iter()
            .zip(plan.json()["plan"]["phases"].as_array().unwrap())
        {
            let ops = phase["ops"].as_array().unwrap();
            let sum: u64 = ops.iter().map(|op| op["step_ns"].as_u64().unwrap()).sum();
            let parts = planned["micro_batch_ns"].as_object().unwrap().values();
            let whole: u64 = parts.map(|ns| ns.as_u64().unwrap()).sum();
            assert_eq!(sum + phase["host_ns"].as_u64().unwrap(), whole, "{name}");
            for reshard in phase["reshards"].as_array().unwrap() {
                let bytes = |key: &str| reshard[key].as_u64().unwrap();
                assert!(bytes("wire_bytes") >= bytes("lower_bound_bytes"), "{reshard}");
            }
        }
    }
}

#[test]
fn a_value_says_why_and_what_else_would_cost() {
    let path = model(LLAMA);
    let request = [path.as_str(), "--cluster", "h100x8", "--layout", "tp=4,dp=2"];
    let run = shardc(&[&["explain"], &request[..], &["--op", "ffn.down"]].concat());
    insta::assert_snapshot!("value", masked(&run.stdout));
    let out = explained(&[&request[..], &["--op", "head.w"]].concat());
    let value = &out["values"][0];
    assert_eq!(value["phases"]["decode"]["layout"], "[{}, {gpu1}]");
    let alternatives = value["alternatives"].as_array().unwrap();
    let whole = alternatives.iter().find(|a| a["layout"] == "[{}, {}]").unwrap();
    // Three quarters of 128,256 × 4,096 weights in 16 bits come to every GPU.
    assert_eq!(whole["memory"]["weights"], 3 * 128_256 * 4096 * 2u64 / 4);
    assert_eq!(whole["verdict"], "worse");
}

#[test]
fn why_not_itemises_the_difference() {
    let path = model(LLAMA);
    let request = [path.as_str(), "--cluster", "h100x8", "--layout", "tp=4,dp=2"];
    let ask = |op: &str, layout: &str| {
        shardc(&[&["explain"], &request[..], &["--op", op, "--why-not", layout]].concat())
    };
    insta::assert_snapshot!("why_not", masked(&ask("layer/ffn.down", "[{dp},{},{tp}]").stdout));
    let bypassed = ask("ffn.down", "[{}, {}, {}]");
    assert!(bypassed.stdout.contains("verdict      bypassed"), "{}", bypassed.stdout);
    // 8 kv heads over 4 and again over 4 cannot be: an axis is used twice.
    let twice = ask("attn.k.w", "[{tp}, {tp}, {}]");
    assert_eq!(twice.code, 1);
    assert!(twice.stderr.contains("S106"), "{}", twice.stderr);
    let no_axis = ask("attn.k.w", "[{gpu}, {}, {}]");
    let named = "no axis `gpu`; axes are gpu0, gpu1; groups are ";
    assert!(
        no_axis.stderr.contains("S106") && no_axis.stderr.contains(named),
        "{}",
        no_axis.stderr
    );
    let unknown = ask("ffn.dwn", "[{}]");
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("S105"), "{}", unknown.stderr);
    assert!(unknown.stderr.contains("did you mean `ffn.down`?"), "{}", unknown.stderr);
}

#[test]
fn what_is_no_plan_is_refused() {
    let run = shardc(&["explain", &model(LLAMA)]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("--cluster"), "{}", run.stderr);
    let dir = scratch("explain_damaged");
    common::file(&dir, "plan.json", "{}");
    let run = shardc(&["explain", &dir.display().to_string()]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("U132"), "{}", run.stderr);
}
