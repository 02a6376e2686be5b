//! Files and shorthands for the tests of this crate.
#![allow(dead_code, reason = "each test file uses its share")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where a file is missing")]

use shardc_frontend::config::{self, Options};
use shardc_frontend::spec::ModelSpec;
use std::path::{Path, PathBuf};

/// The folder of shipped models.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/models")
}

/// A file of that folder.
pub fn shipped(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

/// Every `config.json` of that folder, by name.
pub fn models() -> Vec<(String, String)> {
    configs(&folder()).into_iter().filter(|(name, _)| name != "parameters").collect()
}

/// Every `.json` file of `folder`, by name.
pub fn configs(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "json") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_string();
            found.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// The model of a configuration that must be read.
pub fn read(text: &str) -> ModelSpec {
    match config::read(text, &Options::default()) {
        Ok(reading) => reading.spec,
        Err(e) => panic!("{e}\n{e:#?}"),
    }
}

/// A configuration of `tests/data`, with the keys at `/`-separated paths set to other values.
pub fn edited(file: &str, edits: &[(&str, serde_json::Value)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
    let mut value: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for (path, new) in edits {
        let (outer, key) = path.rsplit_once('/').unwrap_or(("", path));
        let outer = if outer.is_empty() { String::new() } else { format!("/{outer}") };
        value.pointer_mut(&outer).unwrap()[key] = new.clone();
    }
    value.to_string()
}
