//! `shardc simulate` from the outside: plans and models, every kind of load, what it writes, how
//! it fails.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where the project is wrong")]

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn shardc(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shardc")).args(args).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = shardc(&[args, &["--json"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap()
}

fn example(path: &str) -> String {
    format!("{}/../examples/{path}", env!("CARGO_MANIFEST_DIR"))
}

fn temporary(name: &str) -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("simulate");
    fs::create_dir_all(&directory).unwrap();
    directory.join(name)
}

/// Compiles Qwen3 8B on two H100s into a directory of that name.
fn plan(name: &str, more: &[&str]) -> String {
    let directory = temporary(name).display().to_string();
    let model = example("models/Qwen__Qwen3-8B.json");
    let args = ["compile", &model, "--cluster", "h100x2", "-o", &directory];
    let output = shardc(&[&args[..], more].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    directory
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {value:#}"))
}

#[test]
fn a_directory_is_the_plan_that_was_compiled() {
    let directory = plan("same", &["--layout", "tp=2"]);
    let model = example("models/Qwen__Qwen3-8B.json");
    let load = ["--rate", "5", "--requests", "500"];
    let from_model = ["simulate", &model, "--cluster", "h100x2", "--layout", "tp=2"];
    let a = json(&[&["simulate", &directory], &load[..]].concat());
    let b = json(&[&from_model[..], &load[..]].concat());
    assert_eq!(a, b);
    assert_eq!(a, json(&[&["simulate", &directory], &load[..]].concat()));
}

#[test]
fn every_kind_of_trace_is_served() {
    let directory = plan("traces", &[]);
    let loads: [(&str, &[&str], f64); 4] = [
        ("traces/azure-2023-code.csv", &[], 1000.0),
        ("traces/azure-2023-code.csv", &["--speed", "2", "--requests", "2500"], 2500.0),
        ("traces/mooncake-synthetic.jsonl", &["--chunk-tokens", "4096"], 600.0),
        ("traces/arxiv-summarization.csv", &["--concurrency", "50"], 1000.0),
    ];
    for (trace, more, requests) in loads {
        let trace = example(trace);
        let args = ["simulate", &directory, "--trace", &trace, "--ttft", "500", "--tpot", "30"];
        let found = json(&[&args[..], more].concat());
        let served = number(&found, "/requests/served") + number(&found, "/requests/rejected");
        assert_eq!(served, requests, "{trace}");
        assert!(number(&found, "/ttft_ms/p50") <= number(&found, "/ttft_ms/p99"));
        assert!((0.0..=1.0).contains(&number(&found, "/goodput/share")));
        assert!(number(&found, "/pools/0/utilisation") <= 1.0);
    }
}

#[test]
fn pools_transfer_every_cache() {
    let directory = plan("pools", &[]);
    let trace = example("traces/azure-2023-code.csv");
    let args = ["simulate", &directory, "--trace", &trace];
    let found = json(&[&args[..], &["--pools", "1:2", "--router", "round-robin"]].concat());
    assert_eq!(number(&found, "/transfers/count"), 1000.0);
    assert_eq!(number(&found, "/pools/1/steps/prefill"), 0.0);
    let together = json(&args);
    let tpot = |found: &Value| number(found, "/tpot_ms/p99");
    assert!(tpot(&found) < tpot(&together), "decoding is not disturbed by prompts");
}

#[test]
fn timeline_and_plot_are_written() {
    let directory = plan("files", &["--layout", "pp=2"]);
    let (timeline, plot) = (temporary("timeline.json"), temporary("plot.svg"));
    let files = [timeline.to_str().unwrap(), plot.to_str().unwrap()];
    let trace = example("traces/azure-2023-code.csv");
    let args = ["simulate", &directory, "--trace", &trace, "--requests", "200"];
    json(&[&args[..], &["--trace-out", files[0], "--plot", files[1]]].concat());
    let timeline: Value = serde_json::from_str(&fs::read_to_string(timeline).unwrap()).unwrap();
    let mut ends = std::collections::BTreeMap::new();
    for event in timeline["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X") {
        let [start, length] = ["/ts", "/dur"].map(|path| number(event, path));
        let end = ends.entry(event["tid"].as_u64()).or_insert(0.0);
        assert!(start >= *end - 1e-3 && length > 0.0, "slices of a thread overlap: {event}");
        *end = start + length;
    }
    assert_eq!(ends.len(), 2, "one thread a pipeline slot");
    assert!(fs::read_to_string(plot).unwrap().starts_with("<svg"));
}

#[test]
fn clients_of_varied_length_meet_the_steady_state() {
    let load = ["--isl", "1024", "--osl", "256", "--concurrency", "32"];
    let directory = plan("steady", &[&["--layout", "tp=2"], &load[..]].concat());
    let plan: Value =
        serde_json::from_str(&fs::read_to_string(format!("{directory}/plan.json")).unwrap())
            .unwrap();
    let trace = temporary("varied.csv");
    let row = |i: u64| format!("1024,{}\n", 128 + i * 2_654_435_761 % 257);
    fs::write(&trace, "isl,osl\n".to_string() + &(0..2000).map(row).collect::<String>()).unwrap();
    let trace = trace.display().to_string();
    let found = json(&["simulate", &directory, "--trace", &trace, "--concurrency", "32"]);
    let tpot = number(&found, "/tpot_ms/mean") / number(&plan, "/plan/tpot_ms");
    let rate = number(&found, "/throughput/output_tokens_per_s_per_gpu")
        / number(&plan, "/plan/throughput_tokens_per_s_per_gpu");
    assert!((tpot - 1.0).abs() < 0.05 && (rate - 1.0).abs() < 0.05, "{tpot} {rate}");
}

#[test]
fn faults_are_placed_and_helped() {
    let directory = plan("faults", &[]);
    let bad = temporary("bad.csv");
    fs::write(&bad, "TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n1,2\n").unwrap();
    let bad = bad.display().to_string();
    let lengths = example("traces/arxiv-summarization.csv");
    let timed = example("traces/azure-2023-code.csv");
    let cases: [(&[&str], &str); 8] = [
        (&[], "U131"),
        (&["--trace", &lengths], "U131"),
        (&["--trace", &timed, "--rate", "3"], "U131"),
        (&["--trace", &bad], "U130"),
        (&["--trace", "nowhere.csv"], "U002"),
        (&["--rate", "-1"], "U006"),
        (&["--rate", "1", "--cluster", "a10x8"], "U132"),
        (&["--rate", "1e-9"], "U136"),
    ];
    for (args, code) in cases {
        let output = shardc(&[&["simulate", &directory, "--json"], args].concat());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["error"]["code"], code, "{args:?}");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
    }
    let output = shardc(&["simulate", &directory, "--json", "--trace", &bad]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["error"]["place"]["line"], 3);
}
