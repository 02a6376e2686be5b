//! `shardc evaluate` from outside: answers in order, errors in place, memory to the byte.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where a run fails")]

mod common;

use common::{file, model, scratch, shardc};
use serde_json::{Value, json};

const GIB: u64 = 1 << 30;

/// The answers to some lines.
fn ask(test: &str, lines: &[String]) -> Vec<Value> {
    let input = file(&scratch(test), "questions.jsonl", lines.join("\n"));
    let run = shardc(&["evaluate", "--input", &input]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn question(name: &str, cluster: &str, layout: Value, load: (u64, u64, u64)) -> Value {
    let (isl, osl, concurrency) = load;
    json!({
        "model": model(name), "cluster": cluster, "layout": layout,
        "isl": isl, "osl": osl, "concurrency": concurrency,
    })
}

#[test]
fn a_compiled_layout_has_the_same_numbers() {
    let name = "mistralai__Mixtral-8x7B-v0.1";
    for (layout, flag) in [
        (json!({"tp": 2, "dp": 4, "ep": 8}), "tp=2,dp=4,ep=8"),
        (json!({"tp": 8}), "tp=8"),
        (json!({"tp": 2, "pp": 4, "ep": 2}), "tp=2,pp=4,ep=2"),
    ] {
        let mut asked = question(name, "h100x8", layout, (1000, 200, 64));
        asked["waves"] = json!(1 << 30);
        let answer = &ask("same_numbers", &[asked.to_string()])[0];
        let args = ["compile", &model(name), "--cluster", "h100x8", "--layout", flag];
        let load = ["--isl", "1000", "--osl", "200", "--concurrency", "64", "--json"];
        let load = [&load[..], &["--chunk-tokens", "8192"]].concat();
        let plan = shardc(&[&args[..], &load[..]].concat()).json();
        let plan = &plan["plan"];
        for key in ["ttft_ms", "tpot_ms"] {
            let (a, b) = (answer[key].as_f64().unwrap(), plan[key].as_f64().unwrap());
            assert!((a / b - 1.0).abs() < 1e-3, "{flag} {key}: {a}, {b} of {plan}");
        }
    }
}

#[test]
fn answers_say_what_they_rest_on() {
    let name = "Qwen__Qwen3-30B-A3B";
    let mut asked = question(name, "h100x8", json!({"tp": 2, "pp": 2}), (1000, 200, 64));
    asked["waves"] = json!(1 << 30);
    let answer = &ask("sources", &[asked.to_string()])[0];
    let args = ["compile", &model(name), "--cluster", "h100x8", "--gpus", "4", "--layout"];
    let load = ["tp=2,pp=2", "--isl", "1000", "--osl", "200", "--concurrency", "64", "--json"];
    let plan = shardc(&[&args[..], &load[..]].concat()).json();
    let (here, there) = (&answer["sources"], &plan["sources"]);
    assert_eq!(here["memory"], there["memory"]);
    let error = |of: &Value| of["error"].as_f64().unwrap();
    for phase in ["prefill", "decode"] {
        let times = here["times"][phase].as_object().unwrap();
        let parts = answer["breakdown"][phase].as_object().unwrap();
        assert_eq!(times.len(), parts.len() + 1, "every category and the step: {times:?}");
        for (category, of) in times {
            assert!(error(of) > 0.0 && error(of) <= 0.5, "{phase} {category}: {of}");
            let planned = &there["times"][phase][category];
            assert_eq!(of["source"], planned["source"], "{phase} {category}");
        }
    }
    for figure in ["ttft_ms", "tpot_ms", "throughput_tokens_per_s_per_gpu"] {
        let (a, b) = (error(&here["service"][figure]), error(&there["service"][figure]));
        assert!(a > 0.0 && (a - b).abs() < 0.01, "{figure}: {a} {b}");
    }
}

/// Shared experts run while rows of the others travel; with tensor parallelism alone nothing can.
#[test]
fn collectives_run_beside_what_does_not_wait_for_them() {
    let apart = question(
        "deepseek-ai__DeepSeek-V3",
        "h100x8x4",
        json!({"tp": 4, "dp": 8, "ep": 32}),
        (1000, 200, 512),
    );
    let bound = question("Qwen__Qwen3-8B", "h100x8", json!({"tp": 8}), (1000, 200, 64));
    let with = |question: &Value, overlap: &str| {
        let mut asked = question.clone();
        asked["overlap"] = json!(overlap);
        asked.to_string()
    };
    let lines = [&apart, &bound].map(|q| ["none", "modelled"].map(|overlap| with(q, overlap)));
    let answers = ask("overlap", lines.as_flattened());
    let step = |i: usize| answers[i]["step_ns"]["prefill"].as_u64().unwrap();
    let talk = |i: usize| answers[i]["breakdown"]["prefill"]["communication"].as_u64().unwrap();
    assert!(step(1) < step(0) && step(1) + talk(0) >= step(0), "{} {}", step(1), step(0));
    assert_eq!(step(0) - step(1), talk(0) - talk(1), "what is saved is communication");
    assert_eq!(step(3), step(2), "every kernel waits for the sums before it");
    assert_eq!(answers[1]["overlap"], "modelled");
}

#[test]
fn lines_are_answered_in_order_and_errors_in_place() {
    let good = question("Qwen__Qwen3-8B", "h100x8", json!({"tp": 2}), (512, 64, 4));
    let with = |key: &str, value: Value| {
        let mut changed = good.clone();
        changed[key] = value;
        changed.to_string()
    };
    let lines = [
        with("id", json!("a")),
        "not json".to_string(),
        with("layout", json!({"tp": 3})),
        with("layout", json!({"tp": 2, "tpp": 1})),
        with("cluster", json!("h100y8")),
        with("model", json!("absent/config.json")),
        with("isl", json!(-1)),
        with("precision", json!("fp7")),
        with("profile", json!("vlm")),
        with("overlap", json!("ideal")),
        with("layout", json!({"tp": 2, "dp": 8})),
        "[1]".to_string(),
        with("isl", Value::Null),
        with("gpus", json!(4)),
        with("isl", json!(u64::MAX)),
        with("layout", json!({"tp": u64::MAX, "dp": 2})),
        with("id", json!("z")),
    ];
    let answers = ask("errors", &lines);
    assert_eq!(answers.len(), lines.len());
    for (line, answer) in lines.iter().zip(&answers).skip(1).take(lines.len() - 2) {
        let error = &answer["error"];
        assert!(error["code"].is_string() && error["message"].is_string(), "{line}: {answer}");
    }
    assert_eq!((&answers[0]["id"], &answers[16]["id"]), (&json!("a"), &json!("z")));
    assert_eq!(answers[0]["tpot_ms"], answers[16]["tpot_ms"]);
    assert_eq!(answers[0]["fits"], true);
    let steps = &answers[0]["breakdown"];
    for phase in ["prefill", "decode"] {
        let sum: u64 =
            steps[phase].as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum();
        assert_eq!(Some(sum), answers[0]["step_ns"][phase].as_u64(), "{phase} of {steps}");
    }
}

#[test]
fn keys_that_are_proposed_are_taken() {
    let ask_with = |key: &str| {
        let mut asked = question("Qwen__Qwen3-8B", "h100x8", json!({"tp": 2}), (512, 64, 4));
        asked[key] = json!({});
        asked.to_string()
    };
    let answers = ask("keys", &[ask_with("frobnicate"), ask_with("schedule")]);
    let help = answers[0]["error"]["help"].as_str().unwrap();
    assert!(help.starts_with("the keys are id, model") && help.contains("schedule"), "{help}");
    // A question with a layout too.
    let message = answers[1]["error"]["message"].as_str().unwrap();
    assert!(message.contains("not both"), "{message}");
}

#[test]
fn kv_of_uneven_stages_is_exact() {
    let layout = json!({"pp": 2, "stages": [16, 32]});
    let load = (262_144 - 16, 16, 1);
    let mut asked = question("Qwen__Qwen3-30B-A3B", "h200x8", layout, load);
    asked["gpus"] = json!(2);
    let answer = &ask("uneven_stages", &[asked.to_string()])[0];
    assert_eq!(answer["fits"], true, "{answer}");
    let kv = |stage: usize| answer["memory"]["stages"][stage]["kv_cache"].as_u64();
    assert_eq!((kv(0), kv(1)), (Some(8 * GIB), Some(16 * GIB)));
    let stages = answer["memory"]["stages"].as_array().unwrap();
    for stage in stages {
        let items = ["weights", "kv_cache", "activations", "workspace", "communication", "reserve"];
        let sum: u64 = items.iter().map(|item| stage[item].as_u64().unwrap()).sum();
        assert_eq!(stage["total"], sum);
    }
}

#[test]
fn kv_of_a_large_model_is_exact() {
    let load = (131_072 - 16, 16, 1);
    let asked = question("meta-llama__Meta-Llama-3.1-405B", "h200x8", json!({"tp": 8}), load);
    let answer = &ask("large_model", &[asked.to_string()])[0];
    assert_eq!(answer["memory"]["kv_cache"], 7 * GIB + 7 * GIB / 8, "{answer}");
}

#[test]
fn stages_that_do_not_hold_all_layers_are_refused() {
    let of = |layout: Value| question("Qwen__Qwen3-8B", "h100x8", layout, (512, 64, 4)).to_string();
    let lines = [
        of(json!({"pp": 2, "stages": [18, 17]})),
        of(json!({"pp": 2, "stages": [12, 12, 12]})),
        of(json!({"pp": 2, "stages": [36, 0]})),
        of(json!({"pp": 2, "stages": [10, 26]})),
    ];
    let answers = ask("stages", &lines);
    for answer in &answers[..3] {
        assert!(answer["error"]["message"].is_string(), "{answer}");
    }
    assert_eq!(answers[0]["error"]["help"], "give every stage a layer, such as 18,18");
    assert_eq!(answers[3]["fits"], true);
}

#[test]
fn weights_beyond_memory_do_not_fit() {
    let asked =
        question("meta-llama__Meta-Llama-3.1-405B", "h200x8", json!({"tp": 1}), (1024, 1024, 1));
    let answer = &ask("too_heavy", &[asked.to_string()])[0];
    assert_eq!(answer["fits"], false);
    assert!(answer["memory"]["weights"].as_u64() > Some(141 * GIB), "{answer}");
    assert!(answer["tpot_ms"].is_null());
}

#[test]
fn a_model_too_large_for_a_gpu_is_refused_with_a_way_out() {
    let path = model("meta-llama__Meta-Llama-3.1-405B");
    let args = ["compile", &path, "--cluster", "h200x8", "--gpus", "1", "--json"];
    let run = shardc(&args);
    assert_eq!(run.code, 2, "{}", run.stderr);
    let error = &run.json()["error"];
    let notes = error["notes"].to_string();
    assert!(notes.contains("conflict") && notes.contains("weights"), "{error}");
    assert!(error["help"].is_string(), "{error}");
}

/// What is no schedule is told so whatever was asked before it.
#[test]
fn schedules_that_are_alike_in_text_only_are_told_apart() {
    let base = json!({
        "model": model("Qwen__Qwen3-8B"), "cluster": "h100x8", "isl": 512, "osl": 64, "gpus": 2,
    });
    let with = |schedule: Value| {
        let mut asked = base.clone();
        asked["schedule"] = schedule;
        asked.to_string()
    };
    let degrees = json!({"degrees": "tp=2"});
    let twins = [
        [with(json!(5)), with(json!({}))],
        [
            with(json!({"degrees": "tp=2", "stages": true})),
            with(json!({"degrees": "tp=2", "stages": "the value true"})),
        ],
        [with(json!({"degrees": "tp=2", "batch": 3})), with(degrees.clone())],
    ];
    for (i, [a, b]) in twins.into_iter().enumerate() {
        let alone = |line: &String, n| ask(&format!("twins_{i}_{n}"), std::slice::from_ref(line));
        let (first, second) = (alone(&a, 0).remove(0), alone(&b, 1).remove(0));
        assert_ne!(first, second, "twins {i}");
        let there = ask(&format!("twins_{i}_there"), &[a.clone(), b.clone()]);
        assert_eq!(there, [first.clone(), second.clone()], "twins {i}");
        let back = ask(&format!("twins_{i}_back"), &[b, a]);
        assert_eq!(back, [second, first], "twins {i}, the other way round");
    }
}
