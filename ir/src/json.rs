//! Files that shardc writes as JSON, with one entry a line and the same bytes every time.

use crate::diag::{Code, Diagnostic, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

/// SHA-256 of a text, in hexadecimal.
pub fn fingerprint(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct What {
    /// What a message calls it.
    pub noun: &'static str,
    /// The version of its schema that is read.
    pub version: u64,
    /// The way out where it cannot be read.
    pub help: &'static str,
}

impl What {
    /// That the file cannot be read, and why.
    pub(crate) fn damaged(&self, code: Code, why: &str) -> Box<Diagnostic> {
        let message = format!("{} cannot be read: {why}", self.noun);
        Box::new(Diagnostic::error(code, message).help(self.help))
    }
}

/// Reads a file; the codes are those of a file that cannot be read, and of another version.
pub(crate) fn read<T: DeserializeOwned>(
    text: &str,
    what: &What,
    syntax: Code,
    version: Code,
) -> Result<T> {
    let damaged = |e: serde_json::Error| what.damaged(syntax, &e.to_string());
    let value: serde_json::Value = serde_json::from_str(text).map_err(damaged)?;
    let found = value.get("version").and_then(serde_json::Value::as_u64);
    if let Some(other) = found.filter(|v| *v != what.version) {
        let (noun, known) = (what.noun, what.version);
        let message = format!("{noun} has version {other} of the schema, and {known} is read");
        return Err(Box::new(Diagnostic::error(version, message).help(what.help)));
    }
    serde_json::from_str(text).map_err(damaged)
}

/// The text of a value on one line; these types have no maps and no floats, so there is always one.
pub(crate) fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// An array with one entry a line.
pub(crate) fn lines<T: Serialize>(entries: &[T], indent: &str) -> String {
    if entries.is_empty() {
        return "[]".to_string();
    }
    let entries: Vec<String> = entries.iter().map(|e| format!("\n{indent}  {}", line(e))).collect();
    format!("[{}\n{indent}]", entries.join(","))
}
