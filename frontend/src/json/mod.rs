//! JSON that remembers where every key and value stands in its text.
//!
//! A separate reader is kept because a diagnostic must point at the guilty key, because a
//! duplicate key must be an error, and because published configurations hold what Python's writer
//! emits beyond the standard: `NaN`, `Infinity` and `-Infinity`. Strings and numbers themselves
//! are decoded by `serde_json` and the standard library.

mod parse;

pub use parse::{Limits, MAX_DEPTH, decode, parse, parse_within};

use shardc_ir::diag::Span;
use std::collections::BTreeMap;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Bytes of the value.
    pub span: Span,
    /// The value.
    pub value: Value,
}

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number written without point and exponent that fits in 64 bits.
    Int(i64),
    /// Any other number, `NaN` and infinities included.
    Float(f64),
    /// A string, escapes decoded.
    String(String),
    /// An array.
    Array(Vec<Node>),
    /// An object; keys are unique.
    Object(BTreeMap<String, Member>),
}

/// A key's place, and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Bytes of the key, quotes included.
    pub key_span: Span,
    /// The value.
    pub node: Node,
}

impl Member {
    /// Key and value together.
    pub fn span(&self) -> Span {
        self.key_span.join(self.node.span)
    }
}

/// A number as a configuration would hold it, and never long.
pub(crate) fn number(x: f64) -> String {
    match x {
        x if x.is_nan() => "NaN".into(),
        x if x.is_infinite() => if x > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        x => format!("{x:?}"),
    }
}

impl Value {
    /// What kind of value it is, with an article, for messages.
    pub fn describe(&self) -> String {
        match self {
            Value::Null => "null".into(),
            Value::Bool(b) => b.to_string(),
            Value::Int(n) => n.to_string(),
            Value::Float(x) => format!("the number {}", number(*x)),
            Value::String(s) if s.len() <= 40 => format!("the string {s:?}"),
            Value::String(_) => "a string".into(),
            Value::Array(_) => "an array".into(),
            Value::Object(_) => "an object".into(),
        }
    }
}
