//! What `ARCHITECTURE.md` and `STYLE.md` promise about the source, held.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where the project is wrong")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// Which of our crates each crate may depend on; `None` is all.
const ARROWS: &[(&str, Option<&[&str]>)] = &[
    ("ir", Some(&[])),
    ("frontend", Some(&["shardc-ir"])),
    ("cost", Some(&["shardc-ir"])),
    ("passes", Some(&["shardc-ir", "shardc-cost"])),
    ("interp", Some(&["shardc-ir"])),
    ("runtime", Some(&["shardc-ir", "shardc-check"])),
    ("verify", Some(&["shardc-ir", "shardc-interp", "shardc-passes"])),
    ("check", Some(&["shardc-ir"])),
    ("cli", None),
    ("tests", None),
    ("examples", None),
];

/// Crates whose sources do no I/O and read no clocks.
const PURE: [&str; 7] = ["ir", "frontend", "cost", "passes", "interp", "verify", "check"];

/// What such sources would need for it.
const IMPURE: [&str; 6] =
    ["std::fs", "std::io", "std::net", "std::env", "std::process", "std::time"];

/// Most lines of a file and of a function.
const LIMITS: (usize, usize) = (600, 60);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Files with an extension in the crates' folders and `docs`, by their path from the root.
fn files(extension: &str) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let folders = ARROWS.iter().map(|(name, _)| *name).chain(["docs"]);
    let mut pending: Vec<PathBuf> = folders.map(|f| root().join(f)).collect();
    while let Some(folder) = pending.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
                out.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    out
}

fn none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn crates_depend_only_along_the_arrows() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let workspace: toml::Table = workspace.parse().unwrap();
    let members = workspace["workspace"]["members"].as_array().unwrap();
    let mut problems = Vec::new();
    for member in members.iter().map(|m| m.as_str().unwrap()) {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == member) else {
            problems.push(format!("{member} has no row in ARROWS"));
            continue;
        };
        let manifest = fs::read_to_string(root().join(member).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
        let used = tables.iter().filter_map(|t| manifest.get(*t)?.as_table());
        for name in used.flat_map(|t| t.keys()).filter(|n| n.starts_with("shardc")) {
            if allowed.is_some_and(|a| !a.contains(&name.as_str())) {
                problems.push(format!("{member} must not depend on {name}"));
            }
        }
    }
    none(problems);
}

#[test]
fn core_crates_do_no_io() {
    let mut problems = Vec::new();
    for (path, text) in files("rs") {
        let test = path.contains("/tests/") || path.ends_with("/tests.rs");
        let pure = !test && PURE.iter().any(|c| path.starts_with(&format!("{c}/src/")));
        for word in IMPURE.iter().filter(|w| pure && text.contains(**w)) {
            problems.push(format!("{path} uses {word}"));
        }
    }
    none(problems);
}

#[test]
fn every_file_opens_with_its_idea() {
    let bare = |(path, text): (String, String)| {
        (!text.starts_with("//! ")).then(|| format!("{path} does not open with `//! `"))
    };
    none(files("rs").into_iter().filter_map(bare).collect());
}

/// Functions that are too long, by name.
#[derive(Default)]
struct Long(Vec<(String, usize)>);

impl Long {
    fn judge(&mut self, sig: &syn::Signature, block: &syn::Block) {
        let end = block.brace_token.span.close().end().line;
        let lines = end + 1 - sig.ident.span().start().line;
        if lines > LIMITS.1 {
            self.0.push((sig.ident.to_string(), lines));
        }
    }
}

impl<'a> Visit<'a> for Long {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.judge(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.judge(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
}

/// Files and functions over the limits, as lines of the allow-list.
fn oversized() -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for (path, text) in files("rs") {
        if text.lines().count() > LIMITS.0 {
            out.insert(path.clone());
        }
        let mut long = Long::default();
        long.visit_file(&syn::parse_file(&text).unwrap());
        out.extend(long.0.into_iter().map(|(name, _)| format!("{path} {name}")));
    }
    out
}

#[test]
fn files_and_functions_are_short() {
    let list = fs::read_to_string(root().join("tests/tidy-allow.txt")).unwrap();
    let allowed: BTreeSet<String> =
        list.lines().filter(|l| !l.starts_with('#') && !l.is_empty()).map(String::from).collect();
    let found = oversized();
    let (files, functions) = LIMITS;
    let mut problems: Vec<String> = Vec::new();
    for new in found.difference(&allowed) {
        problems
            .push(format!("{new}: more than {files} lines in a file, {functions} in a function"));
    }
    for gone in allowed.difference(&found) {
        problems.push(format!("{gone}: no longer too long; take it off tests/tidy-allow.txt"));
    }
    none(problems);
}

#[test]
fn nothing_is_left_for_later() {
    let words = [["TO", "DO"], ["FIX", "ME"], ["XX", "X:"], ["for", " now"]].map(|w| w.concat());
    let mut problems = Vec::new();
    for (path, text) in files("rs").into_iter().chain(files("md")) {
        for (i, line) in text.lines().enumerate() {
            if words.iter().any(|w| line.contains(w.as_str())) {
                problems.push(format!("{path}:{}: {}", i + 1, line.trim()));
            }
        }
    }
    none(problems);
}

/// The targets of relative Markdown links.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = |t: &&str| !t.contains("://") && !t.starts_with('#') && !t.contains(' ');
    targets.map(|t| t.split('#').next().unwrap_or(t)).filter(local).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut pages = files("md");
    for name in ["README.md", "ARCHITECTURE.md", "STYLE.md"] {
        if let Ok(text) = fs::read_to_string(root().join(name)) {
            pages.insert(name.to_string(), text);
        }
    }
    let mut problems = Vec::new();
    for (path, text) in &pages {
        let folder = root().join(path).parent().unwrap().to_path_buf();
        for target in links(text).into_iter().filter(|t| !folder.join(t).exists()) {
            problems.push(format!("{path} links to {target}, which does not exist"));
        }
    }
    none(problems);
}

#[test]
fn every_page_can_be_reached() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let pages = files("md");
    let linked = |path: &str| {
        let name = path.trim_start_matches("docs/");
        let mut others = pages.iter().filter(|(other, _)| *other != path);
        readme.contains(path) || others.any(|(_, text)| text.contains(&format!("({name}")))
    };
    let docs = pages.keys().filter(|path| path.starts_with("docs/"));
    let lost = docs.filter(|path| !linked(path)).map(|path| format!("nothing links to {path}"));
    none(lost.collect());
}

/// Paths in backquotes on a page that begin with one of our folders.
fn paths_named(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let ours = |t: &&str| ARROWS.iter().any(|(name, _)| t.starts_with(&format!("{name}/")));
    let plain = |t: &&str| t.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
    let stands_for_many = |t: &&str| ["NAME", "KIND", "MODEL"].iter().any(|word| t.contains(word));
    quoted.filter(ours).filter(plain).filter(|t| !stands_for_many(t)).collect()
}

#[test]
fn pages_name_files_that_exist() {
    let mut problems = Vec::new();
    for (path, text) in files("md") {
        for named in paths_named(&text).into_iter().filter(|n| !root().join(n).exists()) {
            problems.push(format!("{path} names {named}, which does not exist"));
        }
    }
    none(problems);
}

#[test]
fn an_operator_takes_few_files() {
    let page = fs::read_to_string(root().join("docs/add-an-op.md")).unwrap();
    let sources: BTreeSet<&str> =
        paths_named(&page).into_iter().filter(|p| p.ends_with(".rs")).collect();
    assert!((1..=6).contains(&sources.len()), "{sources:?}");
}
