//! The reference is complete and in step: `docs/ir.md`, `docs/certificate.md`, the shipped programs,
//! and a case per rule.
//!
//! `UPDATE_DOCS=1 cargo test -p shardc-tests --test reference` rewrites the generated parts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where the project is wrong")]

use shardc::reference;
use shardc_ir::diag::Code;
use shardc_ir::ops::OPS;
use shardc_ir::{layout, text, verify};
use shardc_tests::findings;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/ir.md")).unwrap()
}

fn table(heading: &str, codes: &[&Code]) -> String {
    let row = |c: &&Code| format!("| {} | {} |\n", c.id, c.summary);
    format!("| code | {heading} |\n|---|---|\n{}", codes.iter().map(row).collect::<String>())
}

/// The codes of the verifier by section, layouts where they are checked.
fn rules() -> String {
    let layouts = layout::codes::ALL.iter().filter(|c| ("L002".."L008").contains(&c.id));
    let mesh = layout::codes::ALL.iter().filter(|c| c.id == "L001");
    let of = |digit: char| verify::codes::ALL.iter().filter(move |c| c.id[1..].starts_with(digit));
    let sections: [(&str, Vec<&Code>); 5] = [
        ("Structure, at every level", of('1').chain(mesh).collect()),
        ("Annotations, at every level", of('2').chain(layouts).collect()),
        ("Layouts, from sharded level on", of('3').collect()),
        ("Collectives, from collective level on", of('4').collect()),
        ("Programs, at local level (shares before layouts)", of('5').collect()),
    ];
    let text =
        sections.iter().map(|(name, codes)| format!("**{name}**\n\n{}\n", table("rule", codes)));
    text.collect()
}

/// The rules that certificates may name.
fn certificate_rules() -> String {
    let rows = shardc_ir::certificate::RULES.iter().copied().flatten();
    let row = |r: &shardc_ir::certificate::RuleInfo| {
        format!("| `{}` | {} | {} |\n", r.name, r.statement, r.when)
    };
    format!("| rule | says | where |\n|---|---|---|\n{}", rows.map(row).collect::<String>())
}

/// The generated part of that name, as it should be.
fn generated(name: &str) -> String {
    match name {
        "operators" => reference::markdown(),
        "rules" => rules(),
        "errors" => table("when", &text::codes::ALL.iter().collect::<Vec<_>>()) + "\n",
        "certificate-rules" => certificate_rules(),
        "certificate-codes" => {
            let codes = [shardc_ir::certificate::codes::ALL, shardc_check::certificate::codes::ALL];
            table("when", &codes.iter().copied().flatten().collect::<Vec<_>>())
        }
        _ => panic!("there is no generated part {name}"),
    }
}

/// The page with its generated parts brought up to date.
fn regenerated(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("<!-- generated: ") {
        let (name, after) = after.split_once(" -->").unwrap();
        let (_, after) = after.split_once("<!-- end -->").unwrap();
        let part = generated(name);
        out +=
            &format!("{before}<!-- generated: {name} -->\n\n{}\n\n<!-- end -->", part.trim_end());
        rest = after;
    }
    out + rest
}

#[test]
fn the_pages_are_in_step() {
    for name in ["docs/ir.md", "docs/certificate.md"] {
        let page = fs::read_to_string(root().join(name)).unwrap();
        let wanted = regenerated(&page);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(root().join(name), wanted).unwrap();
        } else {
            assert!(page == wanted, "{name} is out of step: run this test with UPDATE_DOCS=1");
        }
    }
}

#[test]
fn programs_on_the_page_are_accepted() {
    let page = page();
    let programs: Vec<&str> =
        page.split("```sir\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(programs.len() >= 5);
    for program in programs {
        assert_eq!(findings(program), [], "{program}");
    }
}

#[test]
fn every_operator_has_an_example() {
    let examples = reference::examples();
    let missing: Vec<&str> =
        OPS.iter().map(|i| i.name).filter(|name| !examples.contains_key(name)).collect();
    assert!(missing.is_empty(), "examples/programs lack {missing:?}");
}

/// Every code expected or rendered by some case, in text form.
fn cases() -> String {
    let folders = ["tests/files/verify", "tests/snapshots/diag"].map(|f| root().join(f));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn every_rule_has_a_case() {
    let cases = cases();
    // V101 is broken in memory only, P017 by more text than a file should hold, L003 and L008 by
    // texts of layouts outside of programs, whose reader reports P011 and P003 itself.
    let elsewhere = ["V101", "P017", "L003", "L008"];
    let all = [verify::codes::ALL, text::codes::ALL, layout::codes::ALL].concat();
    let missing: Vec<&str> = all
        .iter()
        .map(|c| c.id)
        .filter(|id| !elsewhere.contains(id) && !cases.contains(id))
        .collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}
