//! TOML text to a flat map of checked values; every complaint points at the text.

use std::collections::BTreeMap;
use std::ops::Range;

use shardc_ir::diag::{Diagnostic, Result, Span};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Provenance;
use super::schema::{self, Key, Kind, MAX_RATE, MIN_FRACTION, MIN_RATE};
use crate::codes;
use shardc_ir::nearest::nearest;

/// Longest cluster file read, in bytes.
const MAX_FILE: usize = 1 << 20;
/// Longest text value read, in bytes.
const MAX_TEXT: usize = 200;

/// A checked value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Number(f64),
    Pairs(Vec<(u64, u64)>),
}

/// A value, where it stands and where it was taken from.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub value: Value,
    /// Place in the file being read; `None` for values of a preset or a default.
    pub span: Option<Span>,
    pub provenance: Provenance,
}

/// Values by dotted path.
pub(super) type Flat = BTreeMap<&'static str, Entry>;

/// Reads a file against the schema. Missing keys stay missing.
pub(super) fn flat(text: &str) -> Result<Flat> {
    if text.len() > MAX_FILE {
        let message = format!("a cluster file of {} bytes is too large", text.len());
        let help = format!("keep it under {MAX_FILE} bytes");
        return Err(Box::new(Diagnostic::error(codes::CLUSTER_SYNTAX, message).help(help)));
    }
    let root = DeTable::parse(text).map_err(|e| syntax(&e))?;
    let mut entries = Flat::new();
    let mut sources = Vec::new();
    for (name, value) in root.get_ref().iter() {
        if name.get_ref() == "sources" {
            sources = read_sources(value)?;
        } else {
            walk(name.get_ref(), name.span(), value, &mut entries)?;
        }
    }
    for (path, entry) in &mut entries {
        if let Some((_, text)) =
            sources.iter().filter(|(p, _)| covers(p, path)).max_by_key(|s| s.0.len())
        {
            entry.provenance = Provenance::parse(text);
        }
    }
    Ok(entries)
}

fn syntax(error: &toml::de::Error) -> Box<Diagnostic> {
    let message = format!("not valid TOML: {}", error.message().trim());
    let diagnostic = Diagnostic::error(codes::CLUSTER_SYNTAX, message);
    Box::new(match error.span() {
        Some(range) => diagnostic.at(span(range), ""),
        None => diagnostic,
    })
}

/// Descends one table entry; `path` names it from the root.
fn walk(path: &str, at: Range<usize>, value: &Spanned<DeValue>, out: &mut Flat) -> Result<()> {
    if schema::is_table(path) {
        let Some(table) = value.get_ref().as_table() else {
            return Err(mistyped(path, "a table", value));
        };
        for (name, child) in table.iter() {
            let below = format!("{path}.{}", name.get_ref());
            walk(&below, name.span(), child, out)?;
        }
        return Ok(());
    }
    let Some(key) = schema::find(path) else { return Err(unknown(path, at)) };
    let entry = Entry {
        value: check(key, value)?,
        span: Some(span(value.span())),
        provenance: Provenance::stated(),
    };
    out.insert(key.path, entry);
    Ok(())
}

fn check(key: &Key, value: &Spanned<DeValue>) -> Result<Value> {
    match key.kind {
        Kind::Text => text(key.path, value).map(Value::Text),
        Kind::Choice(options) => {
            let found = text(key.path, value)?;
            if options.contains(&found.as_str()) {
                return Ok(Value::Text(found));
            }
            let message = format!("`{}` cannot be {found:?}", key.path);
            let help = format!("write one of {}", options.join(", "));
            Err(Box::new(
                Diagnostic::error(codes::CLUSTER_RANGE, message)
                    .at(span(value.span()), "no such choice")
                    .help(help),
            ))
        }
        Kind::Integer(low, high) => {
            whole(key.path, value, low, high).map(|n| Value::Number(n as f64))
        }
        Kind::Positive(high) => positive(key.path, value, high).map(Value::Number),
        Kind::Rate => between(key.path, value, MIN_RATE, MAX_RATE).map(Value::Number),
        Kind::Fraction => between(key.path, value, MIN_FRACTION, 1.0).map(Value::Number),
        Kind::Pairs => pairs(key.path, value).map(Value::Pairs),
    }
}

fn text(path: &str, value: &Spanned<DeValue>) -> Result<String> {
    let Some(found) = value.get_ref().as_str() else {
        return Err(mistyped(path, "a string", value));
    };
    if found.len() > MAX_TEXT || found.chars().any(char::is_control) {
        let range = format!("one line of at most {MAX_TEXT} bytes");
        return Err(out_of_range(path, "a longer or unprintable text", &range, value));
    }
    Ok(found.to_string())
}

/// Any TOML number as `f64`, infinities and NaN included.
fn number(path: &str, value: &Spanned<DeValue>) -> Result<f64> {
    let parsed = match value.get_ref() {
        DeValue::Integer(i) => match u128::from_str_radix(i.as_str(), i.radix()) {
            Ok(n) => Some(n as f64),
            Err(_) => i.as_str().parse().ok(),
        },
        DeValue::Float(f) => f.as_str().parse().ok(),
        _ => None,
    };
    parsed.ok_or_else(|| mistyped(path, "a number", value))
}

fn positive(path: &str, value: &Spanned<DeValue>, high: f64) -> Result<f64> {
    let n = number(path, value)?;
    if n > 0.0 && n <= high && n.is_normal() {
        return Ok(n);
    }
    Err(out_of_range(path, &n.to_string(), &format!("above 0 and up to {high:e}"), value))
}

fn between(path: &str, value: &Spanned<DeValue>, low: f64, high: f64) -> Result<f64> {
    let n = number(path, value)?;
    if (low..=high).contains(&n) {
        return Ok(n);
    }
    let range = format!("from {} to {}", plain(low), plain(high));
    Err(out_of_range(path, &n.to_string(), &range, value))
}

/// A limit as a person writes it.
fn plain(n: f64) -> String {
    if n < 1e4 { n.to_string() } else { format!("{n:e}") }
}

fn whole(path: &str, value: &Spanned<DeValue>, low: u64, high: u64) -> Result<u64> {
    let n = number(path, value)?;
    if n >= low as f64 && n <= high as f64 && n.fract() == 0.0 {
        return Ok(n as u64);
    }
    Err(out_of_range(path, &n.to_string(), &format!("a whole number from {low} to {high}"), value))
}

fn pairs(path: &str, value: &Spanned<DeValue>) -> Result<Vec<(u64, u64)>> {
    let wanted = "a list of [devices, bytes] pairs";
    let array = value.get_ref().as_array().ok_or_else(|| mistyped(path, wanted, value))?;
    let mut out: Vec<(u64, u64)> = Vec::new();
    for item in array.iter() {
        let pair = item.get_ref().as_array().ok_or_else(|| mistyped(path, wanted, item))?;
        let [devices, bytes] = pair.iter().collect::<Vec<_>>()[..] else {
            return Err(mistyped(path, wanted, item));
        };
        let devices = whole(path, devices, 1, 1 << 20)?;
        let bytes = whole(path, bytes, 0, 1 << 50)?;
        if out.last().is_some_and(|last| last.0 >= devices) {
            let found = format!("{devices} after {}", out[out.len() - 1].0);
            return Err(out_of_range(path, &found, "growing device counts", item));
        }
        out.push((devices, bytes));
    }
    Ok(out)
}

/// `[sources]`: dotted path or prefix of one → `kind: text`.
fn read_sources(value: &Spanned<DeValue>) -> Result<Vec<(String, String)>> {
    let table = value.get_ref().as_table().ok_or_else(|| mistyped("sources", "a table", value))?;
    let mut out = Vec::new();
    for (path, said) in table.iter() {
        let name = path.get_ref().as_ref();
        if schema::find(name).is_none() && !schema::is_table(name) {
            return Err(unknown(name, path.span()));
        }
        out.push((name.to_string(), text(name, said)?));
    }
    Ok(out)
}

/// Whether `prefix` is `path` or a table above it.
fn covers(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn unknown(path: &str, at: Range<usize>) -> Box<Diagnostic> {
    let shown: String = path.chars().take(80).collect();
    let diagnostic =
        Diagnostic::error(codes::CLUSTER_UNKNOWN_KEY, format!("unknown key `{shown}`"))
            .at(span(at), "not a key of a cluster file");
    let parent = path.rsplit_once('.').map_or("", |(p, _)| p);
    let in_table =
        schema::KEYS.iter().map(|k| k.path).filter(|p| covers(parent, p) || parent.is_empty());
    Box::new(match nearest(path, schema::KEYS.iter().map(|k| k.path)).or_else(|| by_leaf(path)) {
        Some(known) => diagnostic.help(format!("did you mean `{known}`?")),
        None => {
            let known: Vec<_> = in_table.collect();
            diagnostic.help(format!("known keys: {}", known.join(", ")))
        }
    })
}

/// A key of another table with the same last name.
fn by_leaf(path: &str) -> Option<&'static str> {
    let leaf = path.rsplit('.').next()?;
    schema::KEYS.iter().map(|k| k.path).find(|p| p.rsplit('.').next() == Some(leaf))
}

fn mistyped(path: &str, wanted: &str, value: &Spanned<DeValue>) -> Box<Diagnostic> {
    let found = value.get_ref().type_str();
    let message = format!("`{path}` must be {wanted}, found {found}");
    Box::new(
        Diagnostic::error(codes::CLUSTER_TYPE, message)
            .at(span(value.span()), format!("this is {found}"))
            .help(help_of(path)),
    )
}

fn out_of_range(path: &str, found: &str, range: &str, value: &Spanned<DeValue>) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error(codes::CLUSTER_RANGE, format!("`{path}` is {found}"))
            .at(span(value.span()), format!("must be {range}"))
            .help(help_of(path)),
    )
}

/// The meaning of a key, as help.
fn help_of(path: &str) -> String {
    match schema::find(path) {
        Some(key) => format!("`{path}`: {}", key.doc),
        None => format!("see docs/cluster.md for `{path}`"),
    }
}

fn span(range: Range<usize>) -> Span {
    Span::new(range.start, range.end)
}
