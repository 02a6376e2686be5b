//! `shardc compile` from outside: keys, numbers, files, repeatability.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where a run fails")]

mod common;

use common::{file, model, models, scratch, shardc, tree};
use serde_json::{Value, json};
use std::fs;

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Whether all keys are there.
fn has(value: &Value, wanted: &[&str]) {
    let keys = keys(value);
    for key in wanted {
        assert!(keys.contains(key), "{key} is missing of {keys:?}");
    }
}

#[test]
fn json_keeps_the_contract() {
    for name in ["meta-llama__Meta-Llama-3.1-70B", "Qwen__Qwen3-235B-A22B"] {
        let run = shardc(&["compile", &model(name), "--cluster", "h100x8", "--json"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(run.stderr, "");
        let out = run.json();
        has(&out, &["model", "cluster", "plan", "files"]);
        let wanted =
            ["name", "family", "parameters", "active_parameters", "kv_bytes_per_token", "layers"];
        has(&out["model"], &wanted);
        assert_eq!(out["cluster"]["devices"], 8);
        assert_eq!(out["cluster"]["nodes"], 1);
        let plan = &out["plan"];
        has(plan, &["search", "phases", "memory", "ttft_ms", "tpot_ms", "batch"]);
        assert!(plan["throughput_tokens_per_s_per_gpu"].as_f64().unwrap() > 100.0);
        assert!(plan["batch"].is_u64());
        for (phase, name) in plan["phases"].as_array().unwrap().iter().zip(["prefill", "decode"]) {
            assert_eq!(phase["name"], name);
            let degree = |key: &str| phase[key].as_u64().unwrap();
            let stage = 8 / degree("pp");
            assert_eq!(degree("tp") * degree("dp") * degree("cp") * degree("kvp"), stage);
            assert_eq!(degree("ep") * degree("etp") * degree("edp"), stage);
            assert_eq!(phase["mixed"], false);
            assert!(phase["time_ns"].as_u64().unwrap() > 1_000_000);
            assert!(phase["collectives"].as_object().unwrap().values().all(Value::is_u64));
        }
        let memory = &plan["memory"];
        let bytes = |key: &str| memory[key].as_u64().unwrap();
        let items = ["weights", "kv_cache", "activations", "workspace", "reserve"];
        assert_eq!(items.iter().map(|k| bytes(k)).sum::<u64>(), bytes("total"));
        assert!(bytes("total") <= bytes("capacity"));
        assert_eq!(out["files"], json!([]));
    }
}

#[test]
fn the_layout_decides_the_collectives() {
    let path = model("meta-llama__Meta-Llama-3.1-8B");
    let of = |layout: &str| {
        let args = ["compile", &path, "--cluster", "h100x8", "--json", "--layout", layout];
        shardc(&args).json()["plan"]["phases"][1]["collectives"].clone()
    };
    assert_eq!(of("dp=8"), json!({}));
    // Two per layer, and those of the embedding and of the choice of a token.
    assert_eq!(of("tp=8")["all_reduce"], 2 * 32 + 2);
}

#[test]
fn forced_tensor_parallelism_divides_weights() {
    let path = model("meta-llama__Meta-Llama-3.1-8B");
    let args = ["compile", &path, "--cluster", "h100x8", "--json", "--layout", "tp=8"];
    let out = shardc(&args).json();
    let weights = out["plan"]["memory"]["weights"].as_u64().unwrap();
    let all = out["model"]["parameters"].as_u64().unwrap() * 2;
    // Norms are replicated, everything else is split eight ways.
    assert!(weights > all / 8 && weights < all / 8 + (1 << 20), "{weights} of {all}");
    assert_eq!(out["plan"]["search"], "layout");
}

#[test]
fn same_request_same_bytes() {
    let dir = scratch("same_bytes");
    let run = |out: &str| {
        let out = dir.join(out).display().to_string();
        let path = model("openai__gpt-oss-20b");
        let run = shardc(&["compile", &path, "--cluster", "h100x4", "-o", &out]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout.replace(&out, "DIR")
    };
    assert_eq!(run("a"), run("b"));
    let (a, b) = (tree(&dir.join("a")), tree(&dir.join("b")));
    assert!(a == b, "the directories differ");
    let names: Vec<&str> = a.iter().map(|(name, _)| name.as_str()).collect();
    for wanted in ["plan.json", "ir/prefill/01-logical.sir", "ir/decode/06-localize.sir"] {
        assert!(names.contains(&wanted), "{wanted} is missing of {names:?}");
    }
}

#[test]
fn dumps_are_read_back() {
    let dir = scratch("dumps");
    let out = dir.join("plan").display().to_string();
    let path = model("deepseek-ai__DeepSeek-V3");
    let run = shardc(&["compile", &path, "--cluster", "h100x8x2", "-o", &out, "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for name in run.json()["files"].as_array().unwrap() {
        let name = name.as_str().unwrap();
        let text = fs::read_to_string(name).unwrap();
        if name.ends_with(".sir") {
            let parsed = shardc_ir::text::parse(&text);
            assert!(parsed.diagnostics.is_empty(), "{name}: {:?}", parsed.diagnostics);
            assert!(shardc_ir::text::print(&parsed.module) == text, "{name} is not canonical");
        }
    }
}

#[test]
fn plan_json_says_who_is_where() {
    let dir = scratch("plan_json");
    let out = dir.join("plan").display().to_string();
    let path = model("Qwen__Qwen3-30B-A3B");
    let layout = "tp=2,dp=2,pp=2,ep=4";
    let args = ["compile", &path, "--cluster", "h100x8", "--layout", layout, "-o", &out];
    assert_eq!(shardc(&args).code, 0);
    let text = fs::read_to_string(dir.join("plan/plan.json")).unwrap();
    let plan: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(plan["generator"], "shardc");
    assert_eq!(plan["request"]["layout"], layout);
    assert_eq!(plan["replica_groups"]["tp"], json!([[0, 1], [2, 3], [4, 5], [6, 7]]));
    assert_eq!(plan["replica_groups"]["dp"], json!([[0, 2], [1, 3], [4, 6], [5, 7]]));
    assert_eq!(plan["replica_groups"]["ep"], json!([[0, 1, 2, 3], [4, 5, 6, 7]]));
    assert_eq!(plan["replica_groups"]["pp"][0], json!([0, 4]));
    assert_eq!(plan["stages"][1]["layers"], json!([24, 48]));
    assert_eq!(plan["stages"][1]["first_rank"], 4);
    let names: Vec<&str> =
        plan["files"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(names.iter().all(|n| dir.join("plan").join(n).is_file()), "{names:?}");
}

#[test]
fn directories_are_replaced_whole_or_not_at_all() {
    let dir = scratch("replace");
    let path = model("meta-llama__Meta-Llama-3.1-8B");
    let to = |name: &str, more: &[&str]| {
        let out = dir.join(name).display().to_string();
        let mut args = vec!["compile", &path, "--cluster", "h100x8", "-o", &out];
        args.extend(more);
        shardc(&args)
    };
    assert_eq!(to("plan", &["--layout", "tp=8"]).code, 0);
    let first = tree(&dir.join("plan"));
    // A request that fails leaves the earlier plan as it was.
    assert_eq!(to("plan", &["--tpot", "0.001"]).code, 2);
    assert!(tree(&dir.join("plan")) == first);
    assert_eq!(to("plan", &["--layout", "dp=8"]).code, 0);
    assert!(tree(&dir.join("plan")) != first);
    // Nothing else is overwritten.
    fs::create_dir(dir.join("theirs")).unwrap();
    file(&dir.join("theirs"), "thesis.tex", "42");
    let refused = to("theirs", &[]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("U004"), "{}", refused.stderr);
    // Another file in a plan's directory is kept, too.
    file(&dir.join("plan"), "notes.txt", "mine");
    assert_eq!(to("plan", &[]).code, 1);
    let left: Vec<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(left.iter().all(|n| n == "plan" || n == "theirs"), "{left:?}");
}

#[test]
fn a_directory_below_a_file_is_refused_and_abandoned_ones_are_removed() {
    let dir = scratch("abandoned");
    let path = model("meta-llama__Meta-Llama-3.1-8B");
    let to = |name: &str| {
        let out = dir.join(name).display().to_string();
        shardc(&["compile", &path, "--cluster", "h100x8", "--layout", "tp=8", "-o", &out])
    };
    file(&dir, "afile", "text");
    let run = to("afile/x");
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("afile is a file, and cannot hold a directory"), "{}", run.stderr);
    // No process has the highest number; the test's own is alive.
    let (dead, alive) = (i32::MAX as u32, std::process::id());
    for id in [dead, alive] {
        fs::create_dir(dir.join(format!(".plan.{id}.partial"))).unwrap();
    }
    assert_eq!(to("plan").code, 0);
    assert!(!dir.join(format!(".plan.{dead}.partial")).exists());
    assert!(dir.join(format!(".plan.{alive}.partial")).exists());
}

#[test]
fn every_number_says_what_it_rests_on() {
    let dir = scratch("sources");
    let out = dir.join("plan").display().to_string();
    let path = model("meta-llama__Meta-Llama-3.1-8B");
    let of = |cluster: &str| {
        let args = ["compile", &path, "--cluster", cluster, "--layout", "tp=8", "-o", &out];
        assert_eq!(shardc(&args).code, 0);
        let text = fs::read_to_string(dir.join("plan/plan.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let plan = of("h100x8");
    for (i, phase) in ["prefill", "decode"].iter().enumerate() {
        let times = plan["sources"]["times"][phase].as_object().unwrap();
        for (category, ns) in plan["plan"]["phases"][i]["micro_batch_ns"].as_object().unwrap() {
            let parts = times[category]["ns"].as_object().unwrap().values();
            assert_eq!(parts.map(|v| v.as_u64().unwrap()).sum::<u64>(), ns.as_u64().unwrap());
        }
        assert_eq!(times["gemm"]["source"], "interpolated");
        assert_eq!(times["host"]["source"], "guessed");
        assert!((0.01..0.2).contains(&times["step"]["error"].as_f64().unwrap()));
    }
    let constants = plan["sources"]["constants"].as_object().unwrap();
    assert_eq!(constants["node.host_bytes_per_device"]["origin"], "guess");
    assert_eq!(constants["device.memory.bytes_per_s"]["value"], 3_350_000_000_000u64);
    assert_eq!(plan["sources"]["memory"]["weights"], "exact");
    // Another machine carries what was measured on this one.
    assert_eq!(of("h200x8")["sources"]["times"]["decode"]["gemm"]["source"], "modelled");
}

#[test]
fn one_token_is_one_token() {
    let path = model("meta-llama__Meta-Llama-3.1-8B");
    let args = ["compile", &path, "--cluster", "h100x8", "--isl", "1", "--osl", "2", "--json"];
    let out = shardc(&args).json();
    assert_eq!(out["plan"]["phases"][0]["micro_batch_tokens"], 1);
}

#[test]
fn the_step_of_prompts_is_the_best_that_is_tried() {
    let path = model("Qwen__Qwen3-30B-A3B");
    let plan = |more: &[&str]| {
        let args = ["compile", &path, "--cluster", "h100x8", "--layout", "dp=8,ep=8", "--json"];
        let out = shardc(&[&args[..], more].concat()).json();
        let rate = out["plan"]["throughput_tokens_per_s_per_gpu"].as_f64().unwrap();
        (rate, out["plan"]["chunk_tokens"].as_u64().unwrap())
    };
    let tried = ["512", "1024", "2048", "4096", "8192"].map(|n| plan(&["--chunk-tokens", n]));
    assert_eq!(tried.map(|(_, chunk)| chunk), [512, 1024, 2048, 4096, 8192]);
    let chosen = plan(&[]);
    assert!(tried.contains(&chosen), "{chosen:?} of {tried:?}");
    assert!(tried.iter().all(|(rate, _)| *rate <= chosen.0), "{chosen:?} of {tried:?}");
    assert!(tried[4].0 < chosen.0, "replicas that step together want small steps");
}

#[test]
fn each_phase_says_how_tokens_reach_experts() {
    let path = model("Qwen__Qwen3-235B-A22B-FP8");
    let ways = |layout: &str| {
        let args = ["compile", &path, "--cluster", "h100x8", "--json", "--layout", layout];
        let out = shardc(&args).json();
        [0, 1].map(|i| out["plan"]["phases"][i]["expert_exchange"].clone())
    };
    assert_eq!(ways("tp=8,ep=8"), [json!(null), json!(null)]);
    assert_eq!(ways("tp=4,dp=2,ep=8"), [json!("all_gather"), json!("all_gather")]);
    assert_eq!(ways("cp=8,ep=8"), [json!("all_to_all"), json!(null)]);
    let args = ["compile", &path, "--cluster", "h100x8", "--layout", "cp=8,ep=8"];
    let screen = shardc(&args).stdout;
    let wanted = "tokens reach experts by all_to_all in prefill, by no collective in decode";
    assert!(screen.contains(wanted), "{screen}");
    assert!(screen.contains("the same GPUs split cached tokens in decode: kvp 8"), "{screen}");
}

#[test]
fn auto_takes_the_fewest_devices() {
    let count = |name: &str, more: &[&str]| {
        let path = model(name);
        let mut args = vec!["compile", &path, "--cluster", "h100x8x2", "--gpus", "auto", "--json"];
        args.extend(more);
        shardc(&args).json()["cluster"]["devices"].as_u64()
    };
    assert_eq!(count("meta-llama__Meta-Llama-3.1-8B", &[]), Some(1));
    assert_eq!(count("meta-llama__Meta-Llama-3.1-70B", &[]), Some(2));
    assert_eq!(count("meta-llama__Meta-Llama-3.1-405B", &[]), Some(16));
    assert_eq!(count("meta-llama__Meta-Llama-3.1-8B", &["--tpot", "4"]), Some(4));
}

#[test]
fn pins_change_layouts_and_mix_operators() {
    let dir = scratch("pins");
    let pins = file(&dir, "pins.txt", "# keep the head whole\nhead.w: [{}, {}]\n");
    let path = model("meta-llama__Meta-Llama-3.1-8B");
    let args =
        ["compile", &path, "--cluster", "h100x8", "--layout", "tp=8", "--pin", &pins, "--json"];
    let out = shardc(&args).json();
    assert_eq!(out["plan"]["phases"][0]["mixed"], true);
    let bad = file(&dir, "bad.txt", "\nhead.w: {}\n");
    let run = shardc(&["compile", &path, "--cluster", "h100x8", "--pin", &bad]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("S106") && run.stderr.contains("bad.txt:2:1"), "{}", run.stderr);
}

#[test]
fn eight_bit_weights_halve_memory() {
    let path = model("nvidia__Llama-3.1-70B-Instruct-FP8");
    let weights = |dtype: &str| {
        let args = ["compile", &path, "--cluster", "h100x8", "--layout", "tp=8", "--json"];
        let run = shardc(&[&args[..], &["--dtype", dtype]].concat());
        run.json()["plan"]["memory"]["weights"].as_u64().unwrap()
    };
    let (narrow, wide) = (weights("f8e4m3"), weights("bf16"));
    // Embedding and head keep 16 bits.
    assert!(narrow * 100 / wide > 50 && narrow * 100 / wide < 54, "{narrow} of {wide}");
}

#[test]
fn screens_fit() {
    for path in models() {
        let run = shardc(&["compile", &path, "--cluster", "h100x8x2"]);
        assert_eq!(run.code, 0, "{path}: {}", run.stderr);
        let lines: Vec<&str> = run.stdout.lines().collect();
        assert!(lines.len() <= 45, "{path}: {} lines", lines.len());
        for line in lines {
            assert!(line.chars().count() <= 120, "{path}: {line}");
        }
    }
}

#[test]
fn collectives_are_those_of_a_whole_step() {
    let model = model("meta-llama__Meta-Llama-3-70B");
    let args = ["compile", &model, "--cluster", "h100x8", "--layout", "tp=4,pp=2", "--json"];
    let json = shardc(&args).json();
    let decode = &json["plan"]["phases"][1];
    let micro_batches = decode["micro_batches"].as_u64().unwrap();
    assert!(micro_batches > 1, "{decode}");
    // Two a layer, and one after the embedding or for the sampled token.
    assert_eq!(decode["collectives"]["all_reduce"], micro_batches * (2 * 40 + 1), "{decode}");
    assert_eq!(decode["collectives"]["send"], micro_batches, "{decode}");
}
