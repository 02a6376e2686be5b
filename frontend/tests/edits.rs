//! Edited copies of configurations: an error that points at a place, or an answer; never a panic.

#![allow(clippy::unwrap_used, reason = "a test stops where a file is missing")]

mod common;

use common::{configs, models};
use serde_json::{Map, Value, json};
use shardc_frontend::config::{self, Options};
use shardc_frontend::spec::ModelSpec;
use shardc_ir::diag::Result;
use std::path::Path;

fn read(value: &Value) -> Result<ModelSpec> {
    config::read(&value.to_string(), &Options::default()).map(|reading| reading.spec)
}

/// One configuration of every family, and those in the form of the hub.
fn samples() -> Vec<(String, Value)> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut families = std::collections::BTreeSet::new();
    let mut samples = Vec::new();
    for (name, text) in configs(&data.join("published")).into_iter().chain(models()) {
        let value: Value = serde_json::from_str(&text).unwrap();
        if families.insert(read(&value).unwrap().family) || name.contains("Llama-4") {
            samples.push((name, value));
        }
    }
    for (name, text) in configs(&data.join("families")) {
        let value: Value = serde_json::from_str(&text).unwrap();
        if families.insert(read(&value).unwrap().family) {
            samples.push((name, value));
        }
    }
    samples
}

/// Paths to every key of objects within `value`.
fn paths(value: &Value) -> Vec<Vec<String>> {
    let Value::Object(map) = value else { return Vec::new() };
    let mut found = Vec::new();
    for (key, inner) in map {
        found.push(vec![key.clone()]);
        for mut path in paths(inner) {
            path.insert(0, key.clone());
            found.push(path);
        }
    }
    found
}

/// The object that holds the last key of `path`.
fn holder<'a>(value: &'a mut Value, path: &[String]) -> &'a mut Map<String, Value> {
    let (_, outer) = path.split_last().unwrap();
    let inner = outer.iter().fold(value, |value, key| &mut value[key.as_str()]);
    inner.as_object_mut().unwrap()
}

/// The copy of `value` with the key at `path` changed by `edit`.
fn edited(value: &Value, path: &[String], edit: impl Fn(&mut Map<String, Value>, &str)) -> Value {
    let mut copy = value.clone();
    edit(holder(&mut copy, path), path.last().unwrap());
    copy
}

/// Reads a copy that may fail; a failure must say where and what to do.
fn check(value: &Value, what: &str) -> Option<ModelSpec> {
    match read(value) {
        Ok(spec) => {
            assert!(spec.parameters().is_ok(), "{what}");
            assert!(spec.active_parameters().unwrap() <= spec.parameters().unwrap(), "{what}");
            Some(spec)
        }
        Err(error) => {
            let placed = error.primary.is_some() || error.code.id == "F401";
            assert!(placed, "{what}: no place: {error}");
            assert!(error.help.is_some(), "{what}: no help: {error}");
            None
        }
    }
}

#[test]
fn a_dropped_key_is_missed_or_has_a_documented_default() {
    for (name, value) in samples() {
        for path in paths(&value) {
            let copy = edited(&value, &path, |map, key| drop(map.remove(key)));
            check(&copy, &format!("{name} without {path:?}"));
        }
    }
}

#[test]
fn values_of_another_type_are_refused_or_unread() {
    let others = [
        json!("text"),
        json!(true),
        json!([]),
        json!({}),
        json!(null),
        json!([1, "x"]),
        json!("12"),
        json!({"a": 1}),
    ];
    for (name, value) in samples() {
        for path in paths(&value) {
            for other in &others {
                let copy = edited(&value, &path, |map, key| {
                    map.insert(key.to_string(), other.clone());
                });
                check(&copy, &format!("{name} with {path:?} = {other}"));
            }
        }
    }
}

#[test]
fn absurd_numbers_are_refused_or_unread() {
    let numbers = [
        json!(-1),
        json!(0),
        json!(0.5),
        json!(1e18),
        json!(1e308),
        json!(i64::MAX),
        json!(1_000_000_000),
        json!(7),
        json!(16_777_216),
    ];
    for (name, value) in samples() {
        for path in paths(&value) {
            for number in &numbers {
                let copy = edited(&value, &path, |map, key| {
                    map.insert(key.to_string(), number.clone());
                });
                check(&copy, &format!("{name} with {path:?} = {number}"));
            }
        }
    }
}

#[test]
fn a_misspelt_key_never_changes_the_model_silently() {
    for (name, value) in samples() {
        let original = read(&value).unwrap();
        for path in paths(&value) {
            let key = path.last().unwrap();
            if key.len() < 6 {
                continue;
            }
            let swapped: String = {
                let mut chars: Vec<char> = key.chars().collect();
                chars.swap(2, 3);
                chars.into_iter().collect()
            };
            for other in [format!("{key}x"), key[..key.len() - 1].to_string(), swapped] {
                let copy = edited(&value, &path, |map, key| {
                    let inner = map.remove(key).unwrap();
                    map.insert(other.clone(), inner);
                });
                let what = format!("{name} with {path:?} renamed to {other}");
                if let Some(spec) = check(&copy, &what) {
                    assert!(spec == original || other == *key, "{what}: silently another model");
                }
            }
        }
    }
}

#[test]
fn edited_models_with_recurrent_layers_are_refused_in_good_order() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/refused");
    let others = [json!(0), json!(1), json!(16_777_216), json!(1e300), json!("x"), json!([])];
    for (name, text) in configs(&data) {
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(read(&value).is_err(), "{name}");
        for path in paths(&value) {
            let dropped = edited(&value, &path, |map, key| drop(map.remove(key)));
            check(&dropped, &format!("{name} without {path:?}"));
            for other in &others {
                let copy = edited(&value, &path, |map, key| {
                    map.insert(key.to_string(), other.clone());
                });
                check(&copy, &format!("{name} with {path:?} = {other}"));
            }
        }
    }
}
