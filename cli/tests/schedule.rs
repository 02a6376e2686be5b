//! Schedules from outside: every plan writes one, it gives the same plan again, and a wrong line says
//! what is wrong and what could stand there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where a run fails")]

mod common;

use common::{file, model, scratch, shardc, tree};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A model, and the rest of a command line.
type Case = (&'static str, &'static [&'static str]);

const CASES: &[Case] = &[
    ("meta-llama__Meta-Llama-3.1-8B", &["--gpus", "8", "--layout", "tp=2,pp=2,dp=2"]),
    ("mistralai__Mixtral-8x7B-v0.1", &["--gpus", "4", "--tpot", "40"]),
    ("Qwen__Qwen3-30B-A3B", &["--gpus", "4", "--concurrency", "64", "--search", "megatron-folded"]),
    ("meta-llama__Meta-Llama-3.1-70B", &["--isl", "2048", "--tpot", "40", "--search", "exact"]),
    ("mistralai__Mixtral-8x7B-v0.1", &["--gpus", "4", "--osl", "128", "--search", "exact"]),
    ("openai__gpt-oss-120b", &["--gpus", "4", "--objective", "latency", "--search", "exact"]),
    ("deepseek-ai__DeepSeek-V3", &["--isl", "32768", "--tpot", "50", "--search", "exact"]),
    ("Qwen__Qwen3-32B", &["--gpus", "4", "--search", "genetic", "--evaluations", "40"]),
];

/// The cluster of a case.
fn cluster(name: &str) -> &'static str {
    if name.contains("DeepSeek") { "h100x8x2" } else { "h100x8" }
}

/// Compiles into a directory.
fn compile(name: &str, args: &[&str], out: &Path) {
    let (path, out) = (model(name), out.display().to_string());
    let first = ["compile", &path, "--cluster", cluster(name), "-o", &out];
    let run = shardc(&[&first[..], args].concat());
    assert_eq!(run.code, 0, "{name} {args:?}: {}", run.stderr);
}

/// Every file below a directory.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let text = |(name, bytes)| (name, String::from_utf8(bytes).unwrap());
    tree(directory).into_iter().map(text).collect()
}

/// A plan without what says how it was found.
fn found_apart(text: &str) -> Value {
    let mut plan: Value = serde_json::from_str(text).unwrap();
    for key in ["search", "evaluations", "reading", "lower_bound", "gap", "proof"] {
        plan["plan"].as_object_mut().unwrap().remove(key);
    }
    for key in ["search", "layout", "pins", "evaluations"] {
        plan["request"].as_object_mut().unwrap().remove(key);
    }
    plan
}

/// The flags of a request without those that say how to search.
fn asked<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let how = ["--search", "--layout", "--evaluations", "--pin"];
    let pairs = args.chunks(2).filter(|pair| !how.contains(&pair[0]));
    pairs.flatten().copied().collect()
}

fn assert_replayed(name: &str, args: &[&str], test: &str) {
    let dir = scratch(test);
    let (a, b) = (dir.join("a"), dir.join("b"));
    compile(name, args, &a);
    let schedule = a.display().to_string();
    let again = [&asked(args)[..], &["--schedule", &schedule]].concat();
    compile(name, &again, &b);
    let (mut first, mut second) = (files(&a), files(&b));
    let plans = [&mut first, &mut second].map(|files| files.remove("plan.json").unwrap());
    assert_eq!(found_apart(&plans[0]), found_apart(&plans[1]), "{name} {args:?}");
    assert!(first.contains_key("schedule.toml") && first.len() > 8, "{:?}", first.keys());
    for (file, text) in &first {
        assert_eq!(Some(text), second.get(file), "{name} {args:?}: {file}");
    }
    assert_eq!(first.len(), second.len());
    let plan: Value = serde_json::from_str(&plans[1]).unwrap();
    assert_eq!(plan["plan"]["search"], "schedule");
}

#[test]
fn schedules_give_the_same_plan_again() {
    for (i, (name, args)) in CASES.iter().enumerate() {
        assert_replayed(name, args, &format!("schedule_replay_{i}"));
    }
}

#[test]
fn functions_are_listed_once() {
    let text = "degrees = \"tp=4,dp=2\"\n\n[both.zebra]\nx = \"[{}, {}, {}]\"\n";
    let found = run("schedule_functions", text, &[]);
    assert_eq!(found.json()["error"]["code"], "S122", "{}", found.stderr);
    let help = found.json()["error"]["help"].as_str().unwrap().to_string();
    assert_eq!(help.matches("layer").count(), 1, "{help}");
}

#[test]
fn pins_become_lines_of_the_schedule() {
    let dir = scratch("schedule_pins");
    let pins = file(&dir, "pins", "*/attn.o: [{dp}, {}, {tp}]\n");
    let args = ["--layout", "tp=4,dp=2", "--pin", &pins];
    assert_replayed("meta-llama__Meta-Llama-3.1-8B", &args, "schedule_pins_replay");
    let (path, out) = (model("meta-llama__Meta-Llama-3.1-8B"), dir.join("p").display().to_string());
    let first = ["compile", &path, "--cluster", "h100x8", "-o", &out];
    assert_eq!(shardc(&[&first[..], &args].concat()).code, 0);
    let text = fs::read_to_string(dir.join("p/schedule.toml")).unwrap();
    assert!(text.contains("\"*/attn.o\" = \"[{gpu0}, {}, {gpu1}]\""), "{text}");
}

/// A schedule of one operator's decision over Megatron's layouts.
fn one_line(section: &str, line: &str) -> String {
    format!("degrees = \"tp=4,dp=2\"\n\n[{section}]\n{line}\n")
}

/// What a schedule of Llama 3.1 8B comes to.
fn run(test: &str, text: &str, more: &[&str]) -> common::Run {
    let schedule = file(&scratch(test), "schedule.toml", text);
    let path = model("meta-llama__Meta-Llama-3.1-8B");
    let args = ["compile", &path, "--cluster", "h100x8", "--schedule", &schedule, "--json"];
    shardc(&[&args[..], more].concat())
}

#[test]
fn a_changed_line_changes_the_plan() {
    let plain = run("schedule_plain", "degrees = \"tp=4,dp=2\"\n", &[]);
    assert_eq!(plain.code, 0, "{}", plain.stderr);
    let plan = plain.json();
    assert_eq!(plan["plan"]["phases"][1]["tp"], 4);
    let changed = run("schedule_degrees", "degrees = \"tp=8\"\nbatch = 16\n", &[]);
    assert_eq!(changed.json()["plan"]["phases"][1]["tp"], 8);
    assert_eq!(changed.json()["plan"]["batch"], 16);
    assert_eq!(changed.json()["plan"]["limited_by"], "the largest batch of a replica");
    // The feed-forward block on every device whole: no reduction after it, and more weights.
    let line =
        "\"ffn.gate\" = { b = \"dp\" }\n\"ffn.up\" = { b = \"dp\" }\n\"ffn.down\" = { b = \"dp\" }";
    let whole = run("schedule_operator", &one_line("both.layer", line), &[]);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    let whole = whole.json();
    let count = |plan: &Value| plan["plan"]["phases"][1]["collectives"]["all_reduce"].as_u64();
    assert!(count(&whole) < count(&plan), "{whole:#}");
    let weights = |plan: &Value| plan["plan"]["memory"]["weights"].as_u64().unwrap();
    // Three quarters of 3 × 4,096 × 14,336 weights of 32 layers in 16 bits come to every GPU.
    assert_eq!(weights(&whole) - weights(&plan), 3 * 3 * 4096 * 14336 * 32 * 2 / 4);
    assert_eq!(whole["plan"]["phases"][1]["mixed"], true);
}

#[test]
fn wrong_lines_are_pointed_at() {
    let cases: [(&str, String, &str, usize, &str); 15] = [
        ("toml", "degrees = ".to_string(), "S120", 1, ""),
        ("key", "degrees = \"tp=8\"\nbtach = 3\n".to_string(), "S121", 2, "`batch`"),
        ("version", "version = 2\ndegrees = \"tp=8\"\n".to_string(), "S121", 1, "version 1"),
        ("both", "degrees = \"tp=8\"\nmesh = \"gpu=8\"\n".to_string(), "S121", 2, "keep one"),
        ("devices", "mesh = \"gpu=4\"\n".to_string(), "S123", 1, "come to 8"),
        ("degree", "degrees = \"tp=3\"\n".to_string(), "S107", 1, ""),
        (
            "stages",
            "degrees = \"pp=2,tp=4\"\nstages = [16, 15]\n".to_string(),
            "S123",
            2,
            "[16, 16]",
        ),
        ("func", one_line("both.layr", "x = \"[{}, {}, {}]\""), "S122", 3, "`layer`"),
        ("name", one_line("both.layer", "\"ffn.dwon\" = {}"), "S122", 4, "`ffn.down`"),
        ("factor", one_line("both.layer", "\"ffn.down\" = { q = \"tp\" }"), "S122", 4, "14336"),
        ("axis", one_line("both.layer", "\"ffn.down\" = { f = \"gpu7\" }"), "S122", 4, "gpu1"),
        (
            "shared",
            one_line("both.layer", "\"ffn.down\" = { b = \"tp\", f = \"tp\" }"),
            "S123",
            4,
            "gpu0",
        ),
        (
            "stacked",
            one_line("stored.main", "\"layer.ffn.down.w\" = \"[{}, {tp}, {}]\""),
            "S122",
            4,
            "[stored.layer]",
        ),
        ("rank", one_line("both.layer", "x = \"[{}, {}]\""), "S123", 4, "per dimension"),
        (
            "stored",
            one_line("both.layer", "\"ffn.down.w\" = \"[{}, {}]\""),
            "S121",
            4,
            "[stored.layer]",
        ),
    ];
    for (name, text, code, line, help) in cases {
        let found = run(&format!("schedule_wrong_{name}"), &text, &["--gpus", "8"]);
        assert_eq!(found.code, 1, "{name}: {}", found.stdout);
        let error = &found.json()["error"];
        assert_eq!(error["code"], code, "{name}: {error}");
        assert_eq!(error["place"]["line"], line, "{name}: {error}");
        assert!(error["place"]["file"].as_str().unwrap().ends_with("schedule.toml"), "{error}");
        assert!(error["help"].as_str().unwrap_or_default().contains(help), "{name}: {error}");
    }
}

#[test]
fn schedules_and_other_flags() {
    let text = "degrees = \"tp=4,dp=2\"\n";
    for more in [&["--layout", "tp=8"][..], &["--search", "exact"], &["--stages", "16,16"]] {
        assert_eq!(run("schedule_flags", text, more).code, 1, "{more:?}");
    }
    let pins = file(&scratch("schedule_with_pins"), "pins", "*/attn.o: [{dp}, {}, {tp}]\n");
    let both = run("schedule_and_pins", text, &["--pin", &pins]);
    assert_eq!(both.code, 0, "{}", both.stderr);
    let mesh = run("schedule_mesh_and_pins", "mesh = \"gpu=8\"\n", &["--pin", &pins]);
    assert_eq!(mesh.json()["error"]["code"], "S121", "{}", mesh.stdout);
    // Too much for one GPU.
    let path = model("meta-llama__Meta-Llama-3.1-405B");
    let alone = file(&scratch("schedule_alone"), "s.toml", "mesh = \"gpu=8\"\n");
    let args = ["compile", &path, "--cluster", "h100x8", "--schedule", &alone];
    let heavy = shardc(&args);
    assert_eq!(heavy.code, 2, "{}", heavy.stderr);
}

/// The answers to some lines.
fn ask(test: &str, lines: &[Value]) -> Vec<Value> {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let input = file(&scratch(test), "questions.jsonl", lines.join("\n"));
    let run = shardc(&["evaluate", "--input", &input]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn evaluate_prices_schedules() {
    let asked = |what: Value| {
        let mut question = json!({
            "model": model("meta-llama__Meta-Llama-3.1-8B"), "cluster": "h100x8",
            "isl": 1024, "osl": 128, "concurrency": 32,
        });
        question.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        question
    };
    let by = |schedule: Value| asked(json!({"schedule": schedule}));
    let gate = |assigned: Value| {
        by(json!({"degrees": "tp=4,dp=2", "decode": {"layer": {"ffn.gate": assigned}}}))
    };
    let answers = ask(
        "evaluate_schedules",
        &[
            asked(json!({"layout": {"tp": 4, "dp": 2}})),
            by(json!({"degrees": {"tp": 4, "dp": 2}})),
            by(json!({"degrees": "tp=4,dp=2", "batch": 4})),
            gate(json!({"b": "dp", "f": "tp"})),
            gate(json!({"b": "dp"})),
            gate(json!("[{dp}, {}, {tp}]")),
            gate(json!({"f": "tp, tp"})),
            by(json!({"mesh": "gpu=8"})),
            asked(json!({"schedule": {"mesh": "gpu=8"}, "layout": {"tp": 8}})),
            by(json!({"mesh": "gpu=8", "both": {"layer": {"attn": {"q": "gpu"}}}})),
        ],
    );
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[2]["running"], 8, "{}", answers[2]);
    // The same assignment as the rule's, said twice.
    assert_eq!(answers[3]["step_ns"], answers[0]["step_ns"]);
    assert_eq!(answers[5]["step_ns"], answers[0]["step_ns"]);
    assert_ne!(answers[4]["step_ns"], answers[0]["step_ns"]);
    let error = &answers[6]["error"];
    assert_eq!(error["operator"], "decode/layer/ffn.gate", "{error}");
    assert!(error["dim"].as_str().unwrap().starts_with("f=14336"), "{error}");
    assert_eq!(error["axis"], "gpu1, gpu1", "{error}");
    assert!(error["legal"].as_array().unwrap().contains(&json!("\"gpu1\"")), "{error}");
    assert_eq!(answers[7]["fits"], true, "{}", answers[7]);
    assert_eq!(answers[8]["error"]["code"], "U151");
    assert!(answers[9]["error"]["legal"].is_array(), "{}", answers[9]);
}

#[test]
fn stored_blocks_are_never_cut() {
    let schedule = |layout: &str| {
        json!({
            "model": model("Qwen__Qwen3-32B-FP8"), "cluster": "h100x8x2",
            "isl": 512, "osl": 64, "concurrency": 8,
            "schedule": {"mesh": "node=2,gpu=8", "stored": {"layer": {"ffn.gate.w": layout}}},
        })
    };
    let answers = ask("stored_blocks", &[schedule("[{}, {node, gpu}]"), schedule("[{}, {gpu}]")]);
    // 25,600 columns are 200 blocks of 128.
    let error = &answers[0]["error"];
    assert_eq!(error["code"], "S123", "{error}");
    assert_eq!(error["operator"], "stored/layer/ffn.gate.w", "{error}");
    assert!(error["legal"].as_array().unwrap().contains(&json!("\"gpu\"")), "{error}");
    assert!(answers[1]["memory"].is_object(), "{}", answers[1]);
}

#[test]
fn memory_is_itemised_alike() {
    let path = model("Qwen__Qwen3-8B");
    let args = ["compile", &path, "--cluster", "h100x8", "--gpus", "4", "--json"];
    let load = ["--isl", "512", "--osl", "64", "--concurrency", "8"];
    for (layout, talks) in [("tp=4", true), ("dp=4", false)] {
        let plan = shardc(&[&args[..], &load, &["--layout", layout]].concat()).json();
        let memory = &plan["plan"]["memory"];
        let (name, degree) = layout.split_once('=').unwrap();
        let question = json!({
            "model": path, "cluster": "h100x8", "isl": 512, "osl": 64, "concurrency": 8,
            "layout": {name: degree.parse::<u64>().unwrap()},
        });
        let answer = &ask("memory_items", &[question])[0]["memory"];
        for items in [&memory["items"], &answer["items"]] {
            let sum: u64 = items.as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
            assert_eq!(items["communication"].as_u64().unwrap() > 0, talks, "{layout} {items}");
            assert!(sum == memory["total"] || sum == answer["total"], "{items}");
        }
        let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&memory["items"]), keys(&answer["items"]));
        assert_eq!(memory["items"]["weights"], answer["items"]["weights"]);
    }
}

#[test]
fn exact_plans_are_explained_compared_and_simulated() {
    let dir = scratch("schedule_explained");
    let (name, a, b) = ("openai__gpt-oss-120b", dir.join("a"), dir.join("b"));
    compile(name, &["--gpus", "4", "--objective", "latency", "--search", "exact"], &a);
    compile(name, &["--gpus", "4", "--objective", "latency"], &b);
    let [a, b] = [a, b].map(|p| p.display().to_string());
    let plan: Value =
        serde_json::from_str(&fs::read_to_string(Path::new(&a).join("plan.json")).unwrap())
            .unwrap();
    assert_eq!(plan["plan"]["phases"][1]["mixed"], true, "the case is one by operator");
    let explained = shardc(&["explain", &a, "--json"]);
    assert_eq!(explained.code, 0, "{}", explained.stderr);
    let explained = explained.json();
    for (phase, planned) in explained["phases"]
        .as_array()
        .unwrap()
        .iter()
        .zip(plan["plan"]["phases"].as_array().unwrap())
    {
        let ops = phase["ops"].as_array().unwrap();
        let sum: u64 = ops.iter().map(|op| op["step_ns"].as_u64().unwrap()).sum();
        let parts = planned["micro_batch_ns"].as_object().unwrap().values();
        let whole: u64 = parts.map(|ns| ns.as_u64().unwrap()).sum();
        assert_eq!(sum + phase["host_ns"].as_u64().unwrap(), whole);
    }
    let value = shardc(&["explain", &a, "--op", "sliding/attn.q", "--json"]);
    assert_eq!(value.code, 0, "{}", value.stderr);
    let value = &value.json()["values"][0];
    let why = value["phases"]["decode"]["why"].as_array().unwrap();
    assert!(why.iter().any(|r| r["why"].as_str().unwrap().contains("schedule")), "{value:#}");
    assert!(!value["alternatives"].as_array().unwrap().is_empty());
    let layout = value["phases"]["decode"]["layout"].as_str().unwrap();
    let layout = layout.split(" unreduced").next().unwrap().to_string();
    let same = ["explain", &a, "--op", "sliding/attn.q", "--why-not", &layout, "--json"];
    let same = shardc(&same);
    assert_eq!(same.code, 0, "{}", same.stderr);
    let other =
        ["explain", &a, "--op", "sliding/attn.q", "--why-not", "[{}, {}, {}, {}, {}]", "--json"];
    assert_eq!(
        shardc(&other).json()["why_not"]["verdict"].as_str().map(str::is_empty),
        Some(false)
    );
    let diff = shardc(&["diff", &b, &a, "--json"]);
    assert_eq!(diff.code, 0, "{}", diff.stderr);
    assert!(!diff.json()["layouts"]["changed"].as_array().unwrap().is_empty(), "{}", diff.stdout);
    let simulated = ["simulate", &a, "--isl", "256", "--osl", "32", "--rate", "2", "--json"];
    let simulated = shardc(&simulated);
    assert_eq!(simulated.code, 0, "{}", simulated.stderr);
    let verified = shardc(&["verify", &a]);
    assert_eq!(verified.code, 0, "{}", verified.stderr);
}

#[test]
fn pins_that_nobody_takes_are_named() {
    let dir = scratch("schedule_bypassed");
    let path = model("meta-llama__Meta-Llama-3.1-8B");
    let pins = file(&dir, "pins", "layer/ffn.norm: [{dp}, {}, {tp}]\n");
    let args = ["compile", &path, "--cluster", "h100x8", "--gpus", "4", "--pin", &pins, "--json"];
    let plan = shardc(&[&args[..], &["--layout", "tp=4"]].concat());
    assert_eq!(plan.code, 0, "{}", plan.stderr);
    let codes = |run: &common::Run| -> Vec<String> {
        let warnings = run.json()["warnings"].clone();
        warnings
            .as_array()
            .unwrap()
            .iter()
            .map(|w| w["code"].as_str().unwrap().to_string())
            .collect()
    };
    assert!(codes(&plan).contains(&"U011".to_string()), "{}", plan.stdout);
    let exact = shardc(&[&args[..], &["--search", "exact"]].concat());
    assert!(codes(&exact).contains(&"U010".to_string()), "{}", exact.stdout);
}
