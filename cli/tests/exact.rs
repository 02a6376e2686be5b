//! `--search exact`: never worse than the other searches, and honest about how good it is.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where a run fails")]

mod common;

use common::{model, scratch, shardc};
use serde_json::Value;
use shardc_passes::search::{METHODS, Method, MethodInfo};

/// The plan of a search, as `--json` prints it.
fn plan(name: &str, search: &str, args: &[&str]) -> Value {
    let path = model(name);
    let run = shardc(&[&["compile", &path, "--search", search, "--json"], args].concat());
    assert_eq!(run.code, 0, "{name} {search}: {}", run.stderr);
    run.json()["plan"].clone()
}

/// A model, and the rest of a command line.
type Case = (&'static str, &'static [&'static str]);

const CASES: &[Case] = &[
    ("meta-llama__Meta-Llama-3.1-8B", &["--cluster", "h100x8", "--gpus", "2"]),
    ("meta-llama__Meta-Llama-3.1-70B", &["--cluster", "h100x8", "--isl", "2048", "--tpot", "40"]),
    ("mistralai__Mixtral-8x7B-v0.1", &["--cluster", "h100x8", "--gpus", "4", "--osl", "128"]),
    ("openai__gpt-oss-120b", &["--cluster", "h100x8", "--gpus", "4", "--objective", "latency"]),
    ("Qwen__Qwen3-30B-A3B", &["--cluster", "h100x8", "--gpus", "4", "--concurrency", "64"]),
    ("deepseek-ai__DeepSeek-V3", &["--cluster", "h100x8x2", "--isl", "32768", "--tpot", "50"]),
];

#[test]
fn no_search_is_better() {
    for (name, args) in CASES {
        let exact = plan(name, "exact", args);
        let value = |plan: &Value| match args.contains(&"latency") {
            // 1,024 output tokens, of which the first comes with the prefill.
            true => {
                -(plan["ttft_ms"].as_f64().unwrap() + 1023.0 * plan["tpot_ms"].as_f64().unwrap())
            }
            false => plan["throughput_tokens_per_s_per_gpu"].as_f64().unwrap(),
        };
        // Searches plan by plan are not: what is banned here is not banned there.
        let rules = |m: &&MethodInfo| !matches!(m.method, Method::Exact | Method::Outer(..));
        for other in METHODS.iter().filter(rules).filter(|m| !m.name.contains(':')) {
            let other_plan = plan(name, other.name, args);
            let (ours, theirs) = (value(&exact), value(&other_plan));
            assert!(ours >= theirs, "{name} {args:?}: {ours} < {theirs} of {}", other.name);
        }
        let gap = exact["gap"].as_f64().unwrap();
        assert!(gap >= 0.0 && gap.is_finite(), "{name} {args:?}: gap {gap}");
        assert!(exact["lower_bound"].as_f64().unwrap() > 0.0);
        assert!(exact["proof"]["unsearched"].is_null(), "{name}: {}", exact["proof"]);
    }
}

#[test]
fn plans_are_written_with_their_assignments() {
    let dir = scratch("exact_files");
    let path = model("Qwen__Qwen3-235B-A22B-FP8");
    let out = dir.to_str().unwrap();
    let args = ["compile", &path, "--cluster", "h100x8", "--search", "exact", "-o", out];
    let run = shardc(&args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("in this space under this cost model"), "{}", run.stdout);
    let text = std::fs::read_to_string(dir.join("plan.json")).unwrap();
    let plan: Value = serde_json::from_str(&text).unwrap();
    let phases = plan["plan"]["phases"].as_array().unwrap();
    for phase in phases.iter().filter(|p| p["mixed"] == true) {
        let of = |name: &str| phase[name].as_u64().unwrap();
        let stage = 8 / of("pp");
        assert_eq!(of("tp") * of("dp") * of("cp") * of("kvp") * of("rep"), stage);
        assert_eq!(of("ep") * of("etp") * of("edp"), stage);
        let name = phase["name"].as_str().unwrap();
        assert!(!plan["assignments"][name].as_array().unwrap().is_empty());
    }
    // The same again, byte for byte.
    let again = shardc(&args);
    assert_eq!(run.stdout, again.stdout);
    assert_eq!(text, std::fs::read_to_string(dir.join("plan.json")).unwrap());
}

/// Degrees stand beside the axes that they are, and are left out where layouts differ too much to say.
#[test]
fn degrees_are_shown_with_their_axes() {
    let path = model("Qwen__Qwen3-8B");
    let args = ["--cluster", "h100x8", "--gpus", "2", "--isl", "4096", "--osl", "512"];
    let run = shardc(&[&["compile", &path, "--search", "exact"], &args[..]].concat());
    let line = run.stdout.lines().find(|l| l.trim_start().starts_with("mesh @")).unwrap();
    let mut shown = line.split("; ").skip(1).map(|part| part.split_once(" = ").unwrap());
    assert!(shown.all(|(_, axes)| !axes.trim().is_empty()), "{line}");
}
