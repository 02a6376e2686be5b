//! One model, written by `transformers` 4 and by 5, is one [`ModelSpec`], with the count that the
//! library gives.
//!
//! [`ModelSpec`]: shardc_frontend::spec::ModelSpec

#![allow(clippy::unwrap_used, reason = "a test stops where a file is missing")]

mod common;

use common::{configs, read};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Asserts that each `NAME.v4` reads as `NAME.v5` does; returns how many there are.
fn check(folder: &str) -> usize {
    let files: BTreeMap<String, String> = configs(&data(folder)).into_iter().collect();
    let mut pairs = 0;
    for (name, text) in &files {
        let Some(other) = name.strip_suffix(".v4").and_then(|n| files.get(&format!("{n}.v5")))
        else {
            continue;
        };
        let (older, newer) = (read(text), read(other));
        let difference = first_difference(&format!("{older:?}"), &format!("{newer:?}"));
        assert!(older == newer, "{name}: {difference}");
        pairs += 1;
    }
    pairs
}

/// Where two texts part, with what stands before.
fn first_difference(a: &str, b: &str) -> String {
    let at = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    let around = |text: &str| text[at.saturating_sub(60)..(at + 60).min(text.len())].to_string();
    format!("\n{}\n{}", around(a), around(b))
}

#[test]
fn both_spellings_of_tiny_models_read_alike() {
    assert_eq!(check("spellings"), 9);
}

#[test]
fn both_spellings_of_published_sizes_read_alike() {
    assert!(check("families") > 70);
}

#[test]
fn published_sizes_count_as_the_library_counts() {
    let text = std::fs::read_to_string(data("families.counts.json")).unwrap();
    let expected: BTreeMap<String, u64> = serde_json::from_str(&text).unwrap();
    let mut seen = BTreeMap::new();
    for (name, text) in configs(&data("families")) {
        let model = name.trim_end_matches(".v4").trim_end_matches(".v5").to_string();
        let count = read(&text).parameters().unwrap();
        assert_eq!(Some(&count), expected.get(&model), "{name}");
        seen.insert(model, count);
    }
    assert_eq!(seen, expected);
}
