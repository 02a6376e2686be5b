//! `shardc diff` from outside: what differs is shown with both values, what is equal is counted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where a run fails")]

mod common;

use common::{file, masked, model, scratch, shardc};
use serde_json::{Value, json};

/// Directories of plans of one model with these flags each.
fn plans(test: &str, flags: [&[&str]; 2]) -> [String; 2] {
    let dir = scratch(test);
    let path = model("meta-llama__Meta-Llama-3.1-8B");
    ["a", "b"].map(|name| {
        let out = dir.join(name).display().to_string();
        let more = flags[usize::from(name == "b")];
        let args = [&["compile", &path, "--cluster", "h100x8", "-o", &out], more].concat();
        assert_eq!(shardc(&args).code, 0);
        out
    })
}

#[test]
fn differences_have_both_values() {
    let [a, b] = plans("diff_degrees", [&["--layout", "tp=4,dp=2"], &["--layout", "tp=4,pp=2"]]);
    let run = shardc(&["diff", &a, &b]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = masked(&run.stdout.replace(&a, "A").replace(&b, "B"));
    // How many requests run follows constants that move.
    let head = text.lines().take_while(|l| !l.starts_with("service"));
    let head: Vec<&str> = head.filter(|l| !l.contains("requests")).collect();
    insta::assert_snapshot!("degrees", head.join("\n"));
    let out = shardc(&["diff", &a, &b, "--json"]).json();
    let change = |section: &str, phase: Value, name: &str| -> Value {
        let rows = out["changed"].as_array().unwrap();
        let found = rows
            .iter()
            .find(|c| c["section"] == section && c["phase"] == phase && c["name"] == name);
        found.unwrap_or_else(|| panic!("{section} {name}: {out:#}")).clone()
    };
    let weights = change("memory", json!(null), "weights");
    assert!((weights["ratio"].as_f64().unwrap() + 0.5).abs() < 0.02, "{weights}");
    let reduced = change("collectives", json!("prefill"), "all_reduce");
    assert_eq!((&reduced["a"], &reduced["b"]), (&json!(66), &json!(33)));
    assert_eq!(change("degrees", json!("prefill"), "dp")["difference"], -1.0);
    let layouts = out["layouts"]["changed"].as_array().unwrap();
    let x = layouts.iter().find(|l| l["func"] == "layer" && l["value"] == "x").unwrap();
    assert_eq!((&x["a"], &x["b"]), (&json!("[{gpu0}, {}, {}]"), &json!("[{}, {}, {}]")));
}

#[test]
fn a_pin_changes_what_it_pins() {
    let pins = file(&scratch("diff_pins"), "pins.txt", "head.w: [{}, {}]\n");
    let layout = ["--layout", "tp=8"];
    let pinned = ["--layout", "tp=8", "--pin", &pins];
    let [a, b] = plans("diff_pinned", [&layout, &pinned]);
    let out = shardc(&["diff", &a, &b, "--json"]).json();
    let changed = out["layouts"]["changed"].as_array().unwrap();
    let values: Vec<&str> = changed
        .iter()
        .filter(|c| c["phase"] == "decode")
        .map(|c| c["value"].as_str().unwrap())
        .collect();
    assert_eq!(values, ["head.w", "logits", "next"]);
}

#[test]
fn equal_plans_do_not_differ() {
    let [a, b] = plans("diff_equal", [&[], &[]]);
    let run = shardc(&["diff", &a, &b]);
    assert!(run.stdout.contains("no figure differs"), "{}", run.stdout);
    assert!(run.stdout.contains(" 0 changed, 0 in a alone, 0 in b alone"), "{}", run.stdout);
    // A file alone has no programs.
    let out = shardc(&["diff", &format!("{a}/plan.json"), &b, "--json"]).json();
    assert_eq!((&out["changed"], &out["layouts"]), (&json!([]), &json!(null)));
}

#[test]
fn what_is_no_plan_is_refused() {
    let dir = scratch("diff_damaged");
    let other = file(&dir, "other.json", r#"{"generator": "me"}"#);
    let run = shardc(&["diff", &other, &other]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("U132"), "{}", run.stderr);
    let run = shardc(&["diff", "nowhere", "nowhere", "--json"]);
    assert_eq!((run.code, &run.json()["error"]["code"]), (1, &json!("U002")));
}
