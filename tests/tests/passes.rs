//! The passes as a set: names, files, cases and the reference agree.
//!
//! `UPDATE_DOCS=1 cargo test -p shardc-tests --test passes` rewrites `docs/passes.md`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where the project is wrong")]

use shardc::workbench;
use shardc_passes::PASSES;
use shardc_passes::pipeline::PIPELINES;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The file of a pass: `name.rs`, or `name/mod.rs`.
fn file_of(name: &str) -> PathBuf {
    let stem = name.replace('-', "_");
    let flat = root().join(format!("passes/src/{stem}.rs"));
    if flat.exists() { flat } else { root().join(format!("passes/src/{stem}/mod.rs")) }
}

/// What the file of a pass opens with, as Markdown, without the name.
fn idea(name: &str) -> String {
    let text = fs::read_to_string(file_of(name)).unwrap();
    let lines = text.lines().take_while(|l| l.starts_with("//!"));
    let lines: Vec<&str> = lines.map(|l| l[3..].strip_prefix(' ').unwrap_or("")).collect();
    let idea = lines.join("\n");
    let prefix = format!("`{name}`: ");
    let rest = idea.strip_prefix(&prefix);
    let rest = rest.unwrap_or_else(|| panic!("the file of {name} must open with {prefix}"));
    let mut chars = rest.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + chars.as_str()
}

/// The cases of a pass or pipeline.
fn cases(name: &str) -> Vec<String> {
    let folder = root().join("tests/files/pass").join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_pass_has_its_file_and_cases() {
    for pass in PASSES {
        idea(pass.name);
        let cases = cases(pass.name);
        assert!(cases.len() >= 3, "{} has {} cases", pass.name, cases.len());
        let unchanged = cases.iter().any(|c| c.starts_with("unchanged"));
        assert!(unchanged, "{} has no case that leaves it nothing to do", pass.name);
    }
}

#[test]
fn cases_belong_to_passes_and_say_what_they_show() {
    let known = |name: &str| {
        PASSES.iter().any(|p| p.name == name) || PIPELINES.iter().any(|p| p.name == name)
    };
    for entry in fs::read_dir(root().join("tests/files/pass")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        assert!(known(&name), "tests/files/pass/{name} belongs to no pass");
        for case in cases(&name) {
            let text = fs::read_to_string(folder.join(&case)).unwrap();
            assert!(text.starts_with("; "), "{name}/{case} does not say what it shows");
        }
    }
}

#[test]
fn names_are_distinct() {
    let names = PASSES.iter().map(|p| p.name).chain(PIPELINES.iter().map(|p| p.name));
    let mut names: Vec<&str> = names.collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn the_reference_is_in_step() {
    let path = root().join("docs/passes.md");
    let wanted = workbench::page(idea);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, wanted).unwrap();
    } else {
        let page = fs::read_to_string(path).unwrap();
        assert!(page == wanted, "docs/passes.md is out of step: run this test with UPDATE_DOCS=1");
    }
}

/// Rust files of the compiler that the page tells a newcomer to write or edit.
#[test]
fn a_pass_takes_three_files() {
    let page = fs::read_to_string(root().join("docs/add-a-pass.md")).unwrap();
    let headed = |line: &&str| line.starts_with("**");
    let steps: Vec<&str> = page.lines().filter(headed).collect();
    assert_eq!(steps.len(), 4, "the file, the row, the pipeline, the cases");
    let named = |line: &str| {
        let quoted = line.split('`').skip(1).step_by(2);
        quoted.filter(|t| t.starts_with("passes/src/")).map(String::from).collect::<Vec<_>>()
    };
    let files: Vec<String> = steps.iter().flat_map(|s| named(s)).collect();
    assert_eq!(files, ["passes/src/NAME.rs", "passes/src/lib.rs", "passes/src/pipeline.rs"]);
    let rows = fs::read_to_string(root().join(&files[1])).unwrap();
    let order = fs::read_to_string(root().join(&files[2])).unwrap();
    for pass in PASSES {
        let module = pass.name.replace('-', "_");
        assert!(rows.contains(&format!("pub mod {module};")), "{module}");
        assert!(rows.contains(&format!("name: \"{}\"", pass.name)), "{}", pass.name);
    }
    assert!(order.contains("const LOWER: &[&str]"));
}
