//! The table of rules as a whole: wrong rules are caught, every rule has a case, and the page lists
//! them all.
//!
//! `UPDATE_DOCS=1 cargo test -p shardc-tests --test egraph` rewrites the tables of `docs/algebra.md`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where the project is wrong")]

use shardc_interp::Inputs;
use shardc_ir::algebra::{Condition, GROUPS, Plane, Row, Rule, Theme, rules};
use shardc_passes::egraph::Budget;
use shardc_tests::algebra::check;
use shardc_tests::program::Program;
use shardc_tests::random::Random;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn files(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("files").join(kind)
}

fn program(name: &str) -> Program {
    let source = fs::read_to_string(files("algebra").join(name)).unwrap();
    Program::read(&source).unwrap()
}

#[test]
fn every_rule_has_a_case() {
    let entries = fs::read_dir(files("algebra")).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    let covered: BTreeSet<String> =
        names.map(|n| n.split('.').next().unwrap_or_default().to_string()).collect();
    let lacking = rules().iter().filter(|r| !covered.contains(r.row.name));
    let lacking: Vec<&str> = lacking.map(|r| r.row.name).collect();
    assert!(lacking.is_empty(), "without a case in tests/files/algebra: {lacking:?}");
}

/// What comes of one planted rule on the program of a case.
fn planted(file: &str, lhs: &'static str, rhs: &'static str) -> Result<(), String> {
    let row = Row { name: "planted", lhs, rhs, when: &[], doc: "a rule that is wrong" };
    let rule = Rule::of(row, Theme::Collectives, Plane::Device).unwrap();
    let program = program(file);
    let mut random = Random::of(file, 0);
    let bind = program.bind(&mut random);
    let main = program.module.func("main").unwrap();
    let inputs: Inputs = program.inputs(&program.module.funcs[main], &bind, &mut random).unwrap();
    check(&program.module, &[rule], Budget::default(), 8, &inputs).map(drop)
}

#[test]
fn wrong_rules_are_caught() {
    for (file, lhs, rhs) in [
        ("reduce-by-scatter.sir", "all_reduce[k a](x)", "x"),
        ("gather-slice.sir", "all_gather[g](x)", "x"),
        ("slice-early.sir", "add[d](x, y)", "x"),
        ("reduce-late.sir", "scale[b](x)", "x"),
        ("gather-late.sir", "rms_norm[e](x, g)", "x"),
    ] {
        let outcome = planted(file, lhs, rhs);
        assert!(outcome.is_err(), "nobody noticed that {lhs} is not {rhs}");
    }
}

/// The tables of the page: rules by theme, then conditions.
fn reference() -> String {
    let mut out = String::new();
    for (theme, _, rows) in GROUPS {
        out.push_str(&format!(
            "**{}**\n\n| rule | becomes | when | why |\n|---|---|---|---|\n",
            theme.name()
        ));
        for row in *rows {
            let when: Vec<String> = row.when.iter().map(Condition::text).collect();
            // A bracket before a parenthesis would be a link.
            let text = |side: &str| side.replace("](", "] (");
            let (lhs, rhs, when) = (text(row.lhs), text(row.rhs), when.join("; "));
            out.push_str(&format!("| {}: `{lhs}` | `{rhs}` | {when} | {} |\n", row.name, row.doc));
        }
        out.push('\n');
    }
    out.push_str("| condition | holds of |\n|---|---|\n");
    for (name, text) in Condition::KINDS {
        out.push_str(&format!("| {name} | {text} |\n"));
    }
    out.push('\n');
    out
}

#[test]
fn the_page_is_in_step() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/algebra.md");
    let page = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- generated: rules -->\n\n", "<!-- end -->");
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let wanted = format!("{before}{begin}{}{end}{after}", reference());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, wanted).unwrap();
    } else {
        assert!(page == wanted, "docs/algebra.md is out of step: run this test with UPDATE_DOCS=1");
    }
}
