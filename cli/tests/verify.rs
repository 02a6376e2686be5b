//! `shardc verify` from the outside: a plan as it was written, and plans that somebody edited.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where the project is wrong")]

mod common;

use common::{model, scratch, shardc};
use std::fs;
use std::path::{Path, PathBuf};

/// Compiles Qwen3 8B on two H100s.
fn plan(test: &str) -> PathBuf {
    let directory = scratch(test).join("plan");
    let (model, out) = (model("Qwen__Qwen3-8B"), directory.display().to_string());
    let run = shardc(&["compile", &model, "--cluster", "h100x2", "--layout", "tp=2", "-o", &out]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    directory
}

fn verify(directory: &Path, more: &[&str]) -> common::Run {
    let path = directory.display().to_string();
    shardc(&[&["verify", &path], more].concat())
}

/// Replaces text in the programs of prefill whose names end so.
fn edit(directory: &Path, ends: &str, from: &str, to: &str) {
    let mut edited = 0;
    for entry in fs::read_dir(directory.join("ir/prefill")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        if path.display().to_string().ends_with(ends) && text.contains(from) {
            fs::write(&path, text.replace(from, to)).unwrap();
            edited += 1;
        }
    }
    assert!(edited > 0, "no program has `{from}`");
}

#[test]
fn a_plan_computes_what_its_model_computes() {
    let directory = plan("verify-equal");
    let run = verify(&directory, &["--json"]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    let json = run.json();
    assert_eq!(json["devices"]["plan"], 2);
    let programs = json["programs"].as_array().unwrap();
    assert!(programs.iter().any(|p| p["phase"] == "decode" && p["pass"] == "localize"));
    assert_eq!(verify(&directory, &[]).stdout, verify(&directory, &[]).stdout);
}

#[test]
fn an_edited_local_program_is_not_what_the_one_before_lowers_to() {
    let directory = plan("verify-stale");
    edit(&directory, "localize.sir", "silu %ffn.gate", "silu %ffn.up");
    let run = verify(&directory, &[]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("C004") && run.stderr.contains("silu %ffn.up"), "{}", run.stderr);
}

#[test]
fn a_wrong_program_is_named_with_its_instruction() {
    let directory = plan("verify-wrong");
    edit(&directory, "collectives.sir", "silu %ffn.gate", "silu %ffn.up");
    edit(&directory, "localize.sir", "silu %ffn.gate", "silu %ffn.up");
    let run = verify(&directory, &["--json"]);
    assert_eq!(run.code, 3, "{}", run.stdout);
    let error = &run.json()["error"];
    assert_eq!(error["code"], "C002", "{error}");
    assert!(error["notes"].to_string().contains("`silu` makes %ffn.gate.act"), "{error}");
}

#[test]
fn what_is_no_plan_is_refused() {
    let run = verify(&scratch("verify-nothing"), &[]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.contains("U132"), "{}", run.stderr);
}
