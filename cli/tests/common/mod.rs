//! Running the binary on files of a test's own directory.
#![allow(dead_code, reason = "each test file uses its share")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where a run fails")]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a run came to.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }
}

/// Runs `shardc` with the arguments.
pub fn shardc(args: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_shardc")).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let code = output.status.code().unwrap_or(-1);
    Run { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// The path of a shipped model.
pub fn model(name: &str) -> String {
    format!("{}/../examples/models/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

/// Every shipped model.
pub fn models() -> Vec<String> {
    let dir = format!("{}/../examples/models", env!("CARGO_MANIFEST_DIR"));
    let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let is_model = |p: &PathBuf| {
        let name = p.file_name().unwrap().to_string_lossy();
        name.ends_with(".json") && name.contains("__")
    };
    let mut out: Vec<String> = names.filter(is_model).map(|p| p.display().to_string()).collect();
    out.sort();
    out
}

/// An empty directory of a test.
pub fn scratch(test: &str) -> PathBuf {
    // Every package's tests share this directory.
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli").join(test);
    fs::remove_dir_all(&dir).ok();
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Writes a file of a test and returns its path.
pub fn file(dir: &Path, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

/// Every file under a directory with its bytes, sorted.
pub fn tree(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    let mut open = vec![dir.to_path_buf()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().display().to_string();
                out.push((name, fs::read(&path).unwrap()));
            }
        }
    }
    out.sort();
    out
}

/// A text in which numbers with a unit are `#`, so that it holds while constants move.
pub fn masked(text: &str) -> String {
    const UNITS: [&str; 10] = ["ns", "us", "ms", "s", "%", "B", "kB", "MB", "GB", "TB"];
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let indent = line.len() - line.trim_start().len();
        let unit = |word: Option<&&str>| {
            word.is_some_and(|w| UNITS.contains(&w.trim_matches(['(', ')', ',', ':'])))
        };
        let number = |word: &str| {
            let bare = word.trim_matches(['(', '+', '−']).replace(',', "");
            bare.parse::<f64>().is_ok()
        };
        let shown: Vec<&str> = words
            .iter()
            .enumerate()
            .map(|(i, word)| if number(word) && unit(words.get(i + 1)) { "#" } else { word })
            .collect();
        " ".repeat(indent) + &shown.join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}
