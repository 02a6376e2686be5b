//! Reading what the user names: models, clusters, pins. Nothing is read beyond the largest size
//! that makes sense.

use crate::failure::{InSource, Outcome};
use shardc::codes;
use shardc_cost::machine::{self, Cluster};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::text::MAX_SOURCE;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Largest configuration and cluster file, bytes.
const MAX_TEXT: u64 = 16 << 20;
/// Largest pin file, bytes: some ten thousand lines.
const MAX_PINS: u64 = 1 << 20;
/// Largest schedule, bytes.
const MAX_SCHEDULE: u64 = 4 << 20;
/// Largest index of a checkpoint, bytes; the largest published ones have about 50 MB.
const MAX_INDEX: u64 = 128 << 20;

/// Largest trace, bytes: some ten million requests.
const MAX_TRACE: u64 = 1 << 30;
/// Largest history, bytes: a million plans.
const MAX_HISTORY: u64 = 1 << 29;

/// What a program is called in messages.
const PROGRAM: &str = "a program, such as a `.sir` file";

/// A text and where it comes from.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path as the user would write it.
    pub name: String,
    /// The text.
    pub text: String,
}

impl Source {
    /// Line and column, from 1, of a byte.
    pub fn line_and_column(&self, byte: usize) -> (usize, usize) {
        let mut at = byte.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.text[..at];
        let start = before.rfind('\n').map_or(0, |i| i + 1);
        (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
    }
}

/// A model's files.
#[derive(Debug)]
pub struct ModelFiles {
    /// Name for people: of the file, or of the directory.
    pub name: String,
    /// Its `config.json`.
    pub config: Source,
    /// The index of its checkpoint, if there is one beside it.
    pub index: Option<Source>,
    /// Its `hf_quant_config.json`, if there is one beside it.
    pub quantisation: Option<Source>,
}

/// Reads a `config.json`, or the one of a directory, with the index and the quantisation beside it.
///
/// Errors: `U002` and `U003`, or text that is not UTF-8.
pub fn model(path: &Path) -> Outcome<ModelFiles> {
    let config = if path.is_dir() { path.join("config.json") } else { path.to_path_buf() };
    if path.is_dir() && !config.is_file() {
        let message = format!("{} holds no config.json", path.display());
        let help = "name a model's config.json, or the directory that holds it";
        return Err(Box::new(Diagnostic::error(codes::UNREADABLE, message).help(help)).into());
    }
    let named_config = config.file_name().is_some_and(|n| n == "config.json");
    let beside = |name: &str, most: u64| match config.with_file_name(name) {
        path if named_config && path.is_file() => text(&path, most, "JSON").map(Some),
        _ => Ok(None),
    };
    Ok(ModelFiles {
        name: model_name(&config),
        config: text(&config, MAX_TEXT, "a config.json")?,
        index: beside("model.safetensors.index.json", MAX_INDEX)?,
        quantisation: beside("hf_quant_config.json", MAX_TEXT)?,
    })
}

/// The file's stem; the directory's name for a file called `config.json`.
fn model_name(config: &Path) -> String {
    let stem = config.file_stem().map(|s| s.to_string_lossy().into_owned());
    if stem.as_deref() != Some("config") {
        return stem.unwrap_or_default();
    }
    let directory = config.parent().map(|p| if p == Path::new("") { Path::new(".") } else { p });
    let directory = directory.and_then(|p| fs::canonicalize(p).ok()).unwrap_or_default();
    directory.file_name().map_or("model".to_string(), |n| n.to_string_lossy().into_owned())
}

/// Reads a preset's name, or the cluster file of that path.
///
/// Errors: `M0xx`, `U002` and `U003`.
pub fn cluster(name: &str) -> Outcome<Cluster> {
    let path = Path::new(name);
    let looks_like_file = name.contains(std::path::is_separator) || name.ends_with(".toml");
    if !looks_like_file && !path.is_file() {
        return Ok(machine::preset(name)?);
    }
    let source = text(path, MAX_TEXT, "a cluster file in TOML")?;
    machine::parse(&source.text).in_source(&source)
}

/// Reads a file of pins.
///
/// Errors: `U002` and `U003`, or text that is not UTF-8.
pub fn pins(path: &Path) -> Outcome<Source> {
    text(path, MAX_PINS, "a file of lines `pattern: layout`")
}

/// Reads a file of a plan's directory.
///
/// Errors: `U002` and `U003`, or text that is not UTF-8.
pub fn of_plan(path: &Path) -> Outcome<Source> {
    text(path, MAX_PINS, "a file of a directory that `shardc compile -o` wrote")
}

/// Reads a schedule, or the one in a plan's directory.
///
/// Errors: `U002` and `U003`, or text that is not UTF-8.
pub fn schedule(path: &Path) -> Outcome<Source> {
    let path = if path.is_dir() { path.join("schedule.toml") } else { path.to_path_buf() };
    text(&path, MAX_SCHEDULE, "a schedule, such as the schedule.toml of a plan's directory")
}

/// Reads a program of the IR, or standard input for `-`.
///
/// Errors: `U002` and `U003`, or text that is not UTF-8.
pub fn program(path: &Path) -> Outcome<Source> {
    let (name, bytes) = match path.to_str() {
        Some("-") => ("<stdin>".to_string(), standard_input(MAX_SOURCE as u64)?),
        _ => (path.display().to_string(), bytes(path, MAX_SOURCE as u64, PROGRAM)?),
    };
    decode(name, bytes, PROGRAM)
}

fn standard_input(most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(most + 1).read_to_end(&mut bytes).map_err(|error| {
        let message = format!("standard input cannot be read: {error}");
        Box::new(Diagnostic::error(codes::UNREADABLE, message))
    })?;
    if bytes.len() as u64 > most {
        let message = format!("standard input has more than {most} bytes");
        return Err(Box::new(Diagnostic::error(codes::TOO_LARGE, message)));
    }
    Ok(bytes)
}

/// Reads a trace of requests.
///
/// Errors: `U002` and `U003`, or text that is not UTF-8.
pub fn trace(path: &Path) -> Outcome<Source> {
    text(path, MAX_TRACE, "a trace of requests")
}

/// Reads what a search left for later ones.
///
/// Errors: `U002` and `U003`, or text that is not UTF-8.
pub fn history(path: &Path) -> Outcome<Source> {
    text(path, MAX_HISTORY, "a history that --save-history wrote")
}

/// Reads the text of a file that is to be `what`.
fn text(path: &Path, most: u64, what: &str) -> Outcome<Source> {
    let name = path.display().to_string();
    decode(name, bytes(path, most, what)?, what)
}

/// The text of a file, or where it is none.
fn decode(name: String, bytes: Vec<u8>, what: &str) -> Outcome<Source> {
    String::from_utf8(bytes).map(|text| Source { name: name.clone(), text }).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message = format!("byte {at} of {name} is not UTF-8");
        let help = format!("name {what}, which is UTF-8 text");
        Box::new(Diagnostic::error(codes::UNREADABLE, message).help(help)).into()
    })
}

fn bytes(path: &Path, most: u64, what: &str) -> Result<Vec<u8>> {
    let unreadable = |error: std::io::Error| {
        let message = format!("{} cannot be read: {error}", path.display());
        let mut diagnostic = Diagnostic::error(codes::UNREADABLE, message);
        if let Some(near) = nearest_entry(path) {
            diagnostic = diagnostic.help(format!("did you mean {}?", near.display()));
        }
        Box::new(diagnostic)
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most {
        let message = format!("{} has more than {most} bytes", path.display());
        let help = format!("name {what}; this file is too long for one");
        return Err(Box::new(Diagnostic::error(codes::TOO_LARGE, message).help(help)));
    }
    Ok(bytes)
}

/// An entry of the directory whose name continues the missing one, or only adds an extension.
fn nearest_entry(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let parent = path.parent()?;
    let directory = if parent == Path::new("") { Path::new(".") } else { parent };
    let entries =
        fs::read_dir(directory).ok()?.filter_map(|e| e.ok()?.file_name().into_string().ok());
    let near = entries.filter(|e| e != name && e.starts_with(name)).min()?;
    Some(parent.join(near))
}
