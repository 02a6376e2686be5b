//! The keys of a JSON object, each read as what it should be.

use serde_json::{Map, Value};
use shardc::codes;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::nearest::nearest;

/// An object of a question.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// What the object is called: `question`, `layout`.
    name: &'static str,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// The fields of an object that may have the keys of `known`.
    ///
    /// Errors: `U151` for anything but an object, and for a key that is not known.
    pub fn of(name: &'static str, value: &'a Value, known: &[&str]) -> Result<Self> {
        let Value::Object(map) = value else {
            return Err(wrong(name, value, "an object"));
        };
        let Some(odd) = map.keys().find(|key| !known.contains(&key.as_str())) else {
            return Ok(Fields { name, map });
        };
        let message = format!("{name} has no key `{odd}`");
        let help = match nearest(odd, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the keys are {}", known.join(", ")),
        };
        Err(Box::new(Diagnostic::error(codes::QUESTION_FIELD, message).help(help)))
    }

    /// A value that may be absent; `null` counts as absent.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// A text that may be absent.
    ///
    /// Errors: `U151`.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>> {
        let read = |value: &'a Value| value.as_str().ok_or_else(|| wrong(key, value, "a text"));
        self.get(key).map(read).transpose()
    }

    /// A whole number of at least 1 that may be absent.
    ///
    /// Errors: `U151`.
    pub fn count(&self, key: &str) -> Result<Option<u64>> {
        self.get(key).map(|value| count(key, value)).transpose()
    }

    /// A number that may be absent.
    ///
    /// Errors: `U151`.
    pub fn number(&self, key: &str) -> Result<Option<f64>> {
        let read = |value: &Value| value.as_f64().ok_or_else(|| wrong(key, value, "a number"));
        self.get(key).map(read).transpose()
    }

    /// Whole numbers of at least 1 that may be absent.
    ///
    /// Errors: `U151`.
    pub fn counts(&self, key: &str) -> Result<Option<Vec<u64>>> {
        let read = |value: &Value| match value {
            Value::Array(items) => items.iter().map(|item| count(key, item)).collect(),
            _ => Err(wrong(key, value, "an array of whole numbers")),
        };
        self.get(key).map(read).transpose()
    }

    /// What a key holds that must be there.
    ///
    /// Errors: `U151` where nothing was found.
    pub fn needed<T>(&self, key: &str, found: Option<T>) -> Result<T> {
        found.ok_or_else(|| {
            let message = format!("{} has no `{key}`", self.name);
            let help = "see docs/evaluate.md for the keys of a question";
            Box::new(Diagnostic::error(codes::QUESTION_FIELD, message).help(help))
        })
    }
}

fn count(key: &str, value: &Value) -> Result<u64> {
    let count = value.as_u64().filter(|n| *n > 0);
    count.ok_or_else(|| wrong(key, value, "a whole number of at least 1"))
}

fn wrong(key: &str, value: &Value, wanted: &str) -> Box<Diagnostic> {
    let shown: String = value.to_string().chars().take(40).collect();
    let message = format!("`{key}` is {shown}, not {wanted}");
    Box::new(Diagnostic::error(codes::QUESTION_FIELD, message).help(format!("give {wanted}")))
}
