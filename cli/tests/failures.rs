//! How commands fail: exit codes, texts, and no panic whatever the input.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where a run fails")]

mod common;

use common::{Run, file, model, scratch, shardc};
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn exit_codes_follow_the_class() {
    let llama = model("meta-llama__Meta-Llama-3.1-8B");
    let code = |args: &[&str]| shardc(args).code;
    assert_eq!(code(&["--help"]), 0);
    assert_eq!(code(&["--version"]), 0);
    assert_eq!(code(&[]), 1);
    assert_eq!(code(&["compile", &llama]), 1);
    assert_eq!(code(&["compile", &llama, "--cluster", "h100x8", "--isl", "many"]), 1);
    assert_eq!(code(&["compile", &llama, "--cluster", "h100x9"]), 1);
    assert_eq!(code(&["compile", &llama, "--cluster", "h100x8", "--tpot", "0.001"]), 2);
    assert_eq!(code(&["compile", "nowhere.json", "--cluster", "h100x8"]), 1);
}

#[test]
fn values_out_of_range_are_named() {
    let llama = model("meta-llama__Meta-Llama-3.1-8B");
    for (option, value, expected) in [
        ("--isl", "0", "U006"),
        ("--osl", "0", "U006"),
        ("--isl", "-1", "--isl"),
        ("--concurrency", "0", "U006"),
        ("--ttft", "NaN", "U006"),
        ("--ttft", "-4", "U006"),
        ("--tpot", "0", "U006"),
        ("--tpot", "inf", "U006"),
        ("--mem-fraction", "0", "U006"),
        ("--mem-fraction", "1.5", "U006"),
        ("--mem-fraction", "nan", "U006"),
        ("--max-len", "10", "U006"),
        ("--isl", "18446744073709551615", "U006"),
        ("--isl", "18446744073709551616", "--isl"),
        ("--gpus", "0", "M007"),
        ("--gpus", "9", "M007"),
        ("--gpus", "few", "--gpus"),
        ("--dtype", "int3", "U008"),
        ("--kv-dtype", "i4", "F204"),
        ("--search", "magic", "S202"),
        ("--layout", "tp=3", "S107"),
        ("--layout", "tp=4,dp=2,ep=3", "S107"),
        ("--profile", "mine", "U009"),
        ("--assume", "llamma", "F201"),
    ] {
        let run = shardc(&["compile", &llama, "--cluster", "h100x8", option, value]);
        assert_eq!(run.code, 1, "{option} {value}: {}", run.stderr);
        assert!(run.stderr.contains(expected), "{option} {value}: {}", run.stderr);
    }
}

#[test]
fn failures_are_json_where_json_is_asked_for() {
    let run = shardc(&["compile", "nowhere.json", "--cluster", "h100x8", "--json"]);
    assert_eq!(run.json()["error"]["code"], "U002");
    assert!(run.stderr.contains("U002"));
    let run = shardc(&["compile", "--json"]);
    assert_eq!((run.code, &run.json()["error"]["code"]), (1, &"U001".into()));
    let run = shardc(&["degrees", &model("Qwen__Qwen3-8B"), "--gpus", "0", "--json"]);
    assert_eq!((run.code, &run.json()["error"]["code"]), (1, &"U006".into()));
}

fn infeasible(name: &str, args: &[&str]) -> Run {
    let path = model(name);
    let run = shardc(&[&["compile", &path], args].concat());
    assert_eq!(run.code, 2, "{}", run.stderr);
    run
}

#[test]
fn infeasible_requests_say_what_conflicts_and_what_works() {
    let run = infeasible("meta-llama__Meta-Llama-3.1-405B", &["--cluster", "h100x8"]);
    assert!(run.stderr.contains("conflict: weights of 94.50 GiB a device, 8 devices of 80.00 GiB"));
    assert!(run.stderr.contains("nearest feasible change: 16 devices (`--cluster h100x8x2`)"));
    assert!(run.stderr.contains("also possible: weights in 8 bits (`--dtype f8e4m3`)"));
    let llama = "meta-llama__Meta-Llama-3.1-70B";
    let run = infeasible(llama, &["--cluster", "h100x8", "--layout", "dp=8"]);
    assert!(run.stderr.contains("nearest feasible change: `--layout pp=2,dp=4`"), "{}", run.stderr);
    let run = infeasible(llama, &["--cluster", "h100x8x2", "--gpus", "1"]);
    assert!(run.stderr.contains("2 devices (`--gpus 2`)"), "{}", run.stderr);
}

#[test]
fn layouts_that_miss_the_devices_are_completed() {
    let llama = model("meta-llama__Meta-Llama-3.1-8B");
    let help = |layout: &str| {
        let run = shardc(&["compile", &llama, "--cluster", "h100x8", "--layout", layout, "--json"]);
        assert_eq!((run.code, &run.json()["error"]["code"]), (1, &"S107".into()));
        run.json()["error"]["help"].as_str().unwrap().to_string()
    };
    assert_eq!(help("tp=4"), "add dp=2 or --gpus 4");
    assert!(help("kvp=2").starts_with("give cp"));
    assert!(help("edp=2").starts_with("edp is tp·dp·cp / (ep·etp)"));
    let args = ["--cluster", "h100x8", "--layout", "cp=8"];
    let run = infeasible("meta-llama__Meta-Llama-3.1-70B", &args);
    assert!(run.stderr.contains("nearest feasible change: `--layout pp=2,cp=4`"), "{}", run.stderr);
}

#[test]
fn clusters_that_never_end_are_errors() {
    let dir = scratch("slow_cluster");
    let llama = model("meta-llama__Meta-Llama-3.1-8B");
    let run = |text: &str| {
        let path = file(&dir, "slow.toml", format!("base = \"h100x8\"\n[device]\n{text}\n"));
        shardc(&["compile", &llama, "--cluster", &path, "--isl", "100000000"])
    };
    let found = run("memory.bytes_per_s = 1");
    assert_eq!(found.code, 1);
    assert!(
        found.stderr.contains("M004") && found.stderr.contains("slow.toml:3:"),
        "{}",
        found.stderr
    );
    let found = run("memory.capacity_bytes = 1e15\nflops.bf16 = 1e6");
    assert_eq!(found.code, 1, "{}", found.stdout);
    assert!(found.stderr.contains("M008"), "{}", found.stderr);
    assert!(found.stderr.contains("device.flops.bf16 = 1000000"), "{}", found.stderr);
}

/// The value after an option in the nearest change.
fn proposed(run: &Run, option: &str) -> String {
    let (_, help) = run.stderr.split_once("nearest feasible change: ").unwrap();
    let (_, rest) = help.split_once(option).unwrap_or_else(|| panic!("{}", run.stderr));
    rest.trim_start().split(['`', ' ']).next().unwrap().to_string()
}

#[test]
fn proposed_values_are_exact() {
    let path = model("meta-llama__Meta-Llama-3.1-8B");
    let with = |option: &str, value: &str| {
        shardc(&["compile", &path, "--cluster", "h100x8", option, value]).code
    };
    let run = infeasible("meta-llama__Meta-Llama-3.1-8B", &["--cluster", "h100x8", "--tpot", "1"]);
    let tpot = proposed(&run, "--tpot");
    let below = tpot.parse::<f64>().unwrap() - 0.01;
    assert_eq!((with("--tpot", &tpot), with("--tpot", &below.to_string())), (0, 2));
    let args = ["--cluster", "h100x8", "--max-len", "100000000"];
    let run = infeasible("meta-llama__Meta-Llama-3.1-8B", &args);
    assert!(!run.stderr.contains("contexts of 100000000 tokens"), "told once: {}", run.stderr);
    let longest: u64 = proposed(&run, "--max-len").parse().unwrap();
    let codes = [longest, longest + 1].map(|n| with("--max-len", &n.to_string()));
    assert_eq!(codes, [0, 2]);
}

/// Runs on an edited configuration; it must end in time, without a panic.
fn edited(name: &str, text: &[u8]) -> Run {
    let dir = scratch(&format!("edited_{name}"));
    let path = file(&dir, "edited.json", text);
    let start = Instant::now();
    let run = shardc(&["compile", &path, "--cluster", "h100x8"]);
    let limit = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });
    assert!(start.elapsed() < limit, "{name} took {:?}", start.elapsed());
    assert!((0..=2).contains(&run.code), "{name}: exit {}: {}", run.code, run.stderr);
    run
}

#[test]
fn hostile_files_end_in_a_clear_error() {
    let nested = "[".repeat(10 << 20);
    let keys = format!("{{\"a\":{}1{}", "{\"a\":".repeat(1 << 20), "}".repeat((1 << 20) + 1));
    let long = format!("{{\"x\": \"{}\"}}", "y".repeat(10 << 20));
    let cases: [(&str, &[u8]); 9] = [
        ("empty", b""),
        ("nested", nested.as_bytes()),
        ("keys", keys.as_bytes()),
        ("long", long.as_bytes()),
        ("list", b"[1, 2]"),
        ("nan", b"NaN"),
        ("cut", b"{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 40"),
        ("binary", b"\xff\xfe\x00\x01"),
        ("zeros", &[0; 4096]),
    ];
    for (name, text) in cases {
        let run = edited(name, text);
        assert_eq!(run.code, 1, "{name}");
        assert!(run.stderr.starts_with("error["), "{name}: {}", run.stderr);
        assert!(run.stderr.len() < 10_000, "{name}: {} bytes of error", run.stderr.len());
    }
}

#[test]
fn every_key_may_be_missing_or_wrong() {
    let values =
        ["null", "-1", "0", "1e308", "NaN", "\"text\"", "[]", "{}", "true", "18446744073709551616"];
    for name in ["meta-llama__Meta-Llama-3.1-8B", "deepseek-ai__DeepSeek-V3"] {
        let text = std::fs::read_to_string(model(name)).unwrap();
        let config: serde_json::Value = serde_json::from_str(&text).unwrap();
        let keys: Vec<&String> = config.as_object().unwrap().keys().collect();
        for (i, key) in keys.iter().enumerate() {
            let mut missing = config.clone();
            missing.as_object_mut().unwrap().remove(*key);
            edited(&format!("{name}_{key}_missing"), missing.to_string().as_bytes());
            let mut marked = config.clone();
            marked[*key] = "MARK".into();
            let value = values[i % values.len()];
            let wrong = marked.to_string().replace("\"MARK\"", value);
            edited(&format!("{name}_{key}_wrong"), wrong.as_bytes());
        }
    }
}

#[test]
fn huge_sizes_are_answered() {
    let text = std::fs::read_to_string(model("meta-llama__Meta-Llama-3.1-8B")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    for key in ["hidden_size", "intermediate_size", "vocab_size", "num_hidden_layers"] {
        for value in [1u64, 7, 1 << 20, 1 << 40, u64::MAX] {
            let mut huge = config.clone();
            huge[key] = value.into();
            let run = edited(&format!("huge_{key}_{value}"), huge.to_string().as_bytes());
            assert!(!run.stderr.contains("panicked"), "{key} {value}");
        }
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let path = model("meta-llama__Meta-Llama-3.1-8B");
    let binary = env!("CARGO_BIN_EXE_shardc");
    let line = format!(
        "'{binary}' families | head -1 >/dev/null; echo ${{PIPESTATUS[0]}}; '{binary}' compile '{path}' --cluster h100x8 --json | true; echo ${{PIPESTATUS[0]}}"
    );
    let output = Command::new("bash").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n0\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_directory_is_a_model_and_its_index_is_checked() {
    let dir = scratch("directory");
    let config = std::fs::read(model("meta-llama__Meta-Llama-3.1-8B")).unwrap();
    file(&dir, "config.json", config);
    let path = dir.display().to_string();
    let run = shardc(&["compile", &path, "--cluster", "h100x8", "--json"]);
    assert_eq!((run.code, &run.json()["model"]["name"]), (0, &"directory".into()));
    file(&dir, "model.safetensors.index.json", r#"{"weight_map": {"lm_head.weight": "x"}}"#);
    let run = shardc(&["compile", &path, "--cluster", "h100x8"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("F301"), "{}", run.stderr);
    let empty = scratch("empty_directory");
    let run = shardc(&["compile", &empty.display().to_string(), "--cluster", "h100x8"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("holds no config.json"), "{}", run.stderr);
}
