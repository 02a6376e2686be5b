//! `shardc check` from the outside: plans as they were written, and files that were damaged.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where the project is wrong")]

mod common;

use common::{model, scratch, shardc};
use shardc_ir::launch::fingerprint;
use std::fs;
use std::path::{Path, PathBuf};

/// Compiles Qwen3 30B on two H100s, in two stages.
fn plan(test: &str) -> PathBuf {
    let directory = scratch(test).join("plan");
    let (model, out) = (model("Qwen__Qwen3-30B-A3B"), directory.display().to_string());
    let flags = ["--cluster", "h100x4", "--layout", "tp=2,pp=2,ep=2", "-o", &out];
    let run = shardc(&[&["compile", &model], &flags[..]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    directory
}

fn check(directory: &Path, more: &[&str]) -> common::Run {
    let path = directory.display().to_string();
    shardc(&[&["check", &path], more].concat())
}

/// Replaces the first of some text in a file of a plan.
fn edit(directory: &Path, file: &str, from: &str, to: &str) {
    let path = directory.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} has no `{from}`");
    fs::write(&path, text.replacen(from, to, 1)).unwrap();
}

/// What the check of a plan says that somebody edited.
fn refused(test: &str, file: &str, from: &str, to: &str) -> String {
    let directory = plan(test);
    edit(&directory, file, from, to);
    let run = check(&directory, &[]);
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    run.stderr
}

#[test]
fn plans_pass_with_their_figures() {
    let directory = plan("check-passes");
    let run = check(&directory, &["--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let json = run.json();
    assert_eq!(json["phases"].as_array().unwrap().len(), 2);
    for phase in json["phases"].as_array().unwrap() {
        assert_eq!(phase["ranks"], 4);
        assert_eq!(phase["programs"].as_array().unwrap().len(), 2);
        for program in phase["programs"].as_array().unwrap() {
            let of = |key: &str, item: &str| program[key][item].as_u64().unwrap();
            let room = of("promised", "activations") + of("promised", "workspace");
            assert!(of("arenas", "scratch") <= room, "{program}");
        }
    }
    assert_eq!(check(&directory, &[]).stdout, check(&directory, &[]).stdout);
}

#[test]
fn the_figures_of_the_plan_and_of_its_launch_plans_agree() {
    let directory = plan("check-figures");
    let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
    let plan: serde_json::Value = serde_json::from_str(&read("plan.json")).unwrap();
    let memory = &plan["plan"]["memory"];
    let launch: serde_json::Value = serde_json::from_str(&read("launch/decode.json")).unwrap();
    let equal = |program: &serde_json::Value| {
        [("weights", "weights"), ("caches", "kv_cache"), ("activations", "activations")]
            .iter()
            .all(|(ours, theirs)| program["promised"][ours] == memory[theirs])
    };
    let programs = launch["programs"].as_array().unwrap();
    assert!(programs.iter().any(equal), "{memory} is none of {programs:?}");
}

#[test]
fn edited_launch_plans_are_refused() {
    let said = refused("check-wait", "launch/decode.json", "\"waits\":[0],", "");
    assert!(said.contains("K121") && said.contains("all_reduce"), "{said}");
    let said =
        refused("check-operand", "launch/prefill.json", "\"reads\":[\"x\",", "\"reads\":[\"pos\",");
    assert!(said.contains("K101"), "{said}");
    let said = refused("check-key", "launch/prefill.json", "\"phase\"", "\"faze\"");
    assert!(said.contains("K001"), "{said}");
    let said = refused("check-version", "launch/prefill.json", "\"version\": 1", "\"version\": 7");
    assert!(said.contains("K002"), "{said}");
}

#[test]
fn a_program_that_was_edited_is_not_that_of_its_launch_plan() {
    let directory = plan("check-program");
    let (local, text) = program(&directory);
    fs::write(local, text.replacen("eps = 1e-6", "eps = 1e-5", 1)).unwrap();
    let run = check(&directory, &["--json"]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert_eq!(run.json()["error"]["code"], "K003", "{}", run.stdout);
}

/// The local program of decoding, its text, and the launch plan that belongs to it.
fn program(directory: &Path) -> (PathBuf, String) {
    let programs = fs::read_dir(directory.join("ir/decode")).unwrap();
    let path = programs.map(|e| e.unwrap().path()).max().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    (path, text)
}

#[test]
fn partial_values_are_reduced_before_anything_that_is_not_linear() {
    // Somebody takes the reduction out of the program, and signs the launch plan for it.
    let directory = plan("check-partial");
    let (path, text) = program(&directory);
    let partial = text.replacen("rms_norm %attn.res,", "rms_norm %attn.o,", 1);
    assert_ne!(partial, text);
    fs::write(&path, &partial).unwrap();
    edit(&directory, "launch/decode.json", &fingerprint(&text), &fingerprint(&partial));
    let run = check(&directory, &["--json"]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert_eq!(run.json()["error"]["code"], "V307", "{}", run.stdout);
}

#[test]
fn cut_and_missing_files_are_named() {
    let directory = plan("check-cut");
    let path = directory.join("launch/decode.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    assert!(check(&directory, &[]).stderr.contains("K001"));
    fs::remove_file(&path).unwrap();
    let run = check(&directory, &[]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("U002") && run.stderr.contains("decode.json"), "{}", run.stderr);
    assert!(check(&scratch("check-nothing"), &[]).stderr.contains("U132"));
}

#[test]
fn the_certificate_is_replayed() {
    let directory = plan("check-certificate");
    let json = check(&directory, &["--json"]).json();
    let phases = json["certificate"].as_array().unwrap();
    assert_eq!(phases.len(), 2);
    for phase in phases {
        let count = |rule: &str| phase["rules"][rule].as_u64().unwrap_or(0);
        assert_eq!(phase["functions"], 3);
        assert!(count("local-op") > 20 && count("all-reduce") > 0, "{phase}");
        assert_eq!((count("repeat"), count("send"), count("recv")), (2, 1, 1), "{phase}");
    }
    let text = fs::read_to_string(directory.join("certificate")).unwrap();
    assert!(text.len() < 200 << 10);
}

#[test]
fn edited_certificates_are_refused() {
    let said = |test: &str, from: &str, to: &str| refused(test, "certificate", from, to);
    let rule = said("check-rule", "\"rule\":\"all-reduce\"", "\"rule\":\"all-gather\"");
    assert!(rule.contains("R101") && rule.contains("all_reduce"), "{rule}");
    let site = said("check-site", "\"of\":\"attn.k\"", "\"of\":\"attn.v\"");
    assert!(site.contains("R10"), "{site}");
    assert!(said("check-space", "\"at\":0,", "\"at\": 0,").contains("R001"));
    assert!(said("check-schema", "\"version\": 1", "\"version\": 2").contains("R002"));
}

#[test]
fn a_program_that_was_edited_is_not_that_of_its_certificate() {
    let said = refused("check-logical", "ir/prefill/01-logical.sir", "eps = 1e-6", "eps = 1e-5");
    assert!(said.contains("R003"), "{said}");
}
