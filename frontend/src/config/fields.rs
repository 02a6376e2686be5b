//! Typed access to a configuration's keys; every failure points at the guilty bytes.

use super::log::Log;
use crate::codes;
use crate::json::{Member, Node, Value, number};
use crate::similar;
use shardc_ir::diag::{Code, Diagnostic, Result, Span};
use std::collections::BTreeMap;

/// Largest extent of one dimension: 2^24, 16 times the largest published vocabulary.
pub const MAX_DIM: u64 = 1 << 24;
/// Most layers; the deepest published model has 128.
pub const MAX_LAYERS: u64 = 4096;
/// Largest position or window.
pub const MAX_POSITIONS: u64 = 1 << 40;

/// One key, or several spellings of it in order of preference.
pub(crate) trait Keys: Copy {
    /// The spellings.
    fn spellings(&self) -> &[&'static str];
}

impl Keys for &'static str {
    fn spellings(&self) -> &[&'static str] {
        std::slice::from_ref(self)
    }
}

/// Several spellings of one key.
pub(crate) type Spellings = &'static [&'static str];

impl Keys for Spellings {
    fn spellings(&self) -> &[&'static str] {
        self
    }
}

impl<const N: usize> Keys for [&'static str; N] {
    fn spellings(&self) -> &[&'static str] {
        self
    }
}

/// One object of a configuration.
#[derive(Clone)]
pub(crate) struct Fields<'a> {
    log: &'a Log<'a>,
    object: &'a BTreeMap<String, Member>,
    span: Span,
    path: String,
    /// Sizes that stand in for absent keys, as the class in `transformers` has them.
    defaults: &'static [(&'static str, u64)],
}

impl<'a> Fields<'a> {
    /// The object `node`.
    ///
    /// # Errors
    /// `F003` where it is another value.
    pub(crate) fn new(log: &'a Log<'a>, node: &'a Node) -> Result<Self> {
        match &node.value {
            Value::Object(object) => {
                Ok(Fields { log, object, span: node.span, path: String::new(), defaults: &[] })
            }
            other => Err(Box::new(
                Diagnostic::error(
                    codes::NOT_OBJECT,
                    format!("expected an object with a model's keys, found {}", other.describe()),
                )
                .at(Span::new(node.span.start as usize, node.span.start as usize + 1), "")
                .help("pass the model's config.json"),
            )),
        }
    }

    /// The same object, with a log of its own.
    pub(crate) fn logged<'b>(&self, log: &'b Log<'b>) -> Fields<'b>
    where
        'a: 'b,
    {
        Fields {
            log,
            object: self.object,
            span: self.span,
            path: self.path.clone(),
            defaults: self.defaults,
        }
    }

    /// The same object, with sizes for absent keys.
    pub(crate) fn with_defaults(self, defaults: &'static [(&'static str, u64)]) -> Self {
        Fields { defaults, ..self }
    }

    /// Whether this is an object inside the file's own.
    pub(crate) fn is_nested(&self) -> bool {
        !self.path.is_empty()
    }

    /// The object's opening brace.
    pub(crate) fn place(&self) -> Span {
        Span { start: self.span.start, end: self.span.start + 1 }
    }

    /// Fails where a key is absent and the class has no size for it; null will do.
    pub(crate) fn require(&self, key: &'static str) -> Result<()> {
        let defaulted = self.defaults.iter().any(|(name, _)| *name == key);
        self.log.record(self.span, self.object, key, self.object.contains_key(key));
        match defaulted || self.object.contains_key(key) {
            true => Ok(()),
            false => Err(self.missing(key)),
        }
    }

    /// As [`require`](Self::require) for the first key, where no spelling is there.
    pub(crate) fn require_any(&self, keys: impl Keys) -> Result<()> {
        match keys.spellings().iter().any(|key| self.require(key).is_ok()) {
            true => Ok(()),
            false => Err(self.missing(keys)),
        }
    }

    /// Every key of the object.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.object.keys().map(String::as_str)
    }

    /// The member of the first spelling that is there and not null.
    pub(crate) fn find(&self, keys: impl Keys) -> Option<(&'static str, &'a Member)> {
        let there = |key: &&'static str| {
            let member = self.object.get(*key)?;
            (member.node.value != Value::Null).then_some((*key, member))
        };
        let hit = keys.spellings().iter().find_map(there);
        let mut settled = false;
        for &key in keys.spellings() {
            settled |= hit.is_some_and(|(found, _)| found == key);
            let found = settled || self.object.contains_key(key);
            self.log.record(self.span, self.object, key, found);
        }
        hit
    }

    /// Whether any spelling is there and not null.
    pub(crate) fn has(&self, keys: impl Keys) -> bool {
        self.find(keys).is_some()
    }

    /// Counts keys as read whose word the model keeps anyway.
    pub(crate) fn acknowledge(&self, keys: &[&'static str]) {
        for key in keys {
            self.find(*key);
        }
    }

    /// Fails where a key that nobody read, of any object, looks like one that was looked for.
    pub(crate) fn check_spelling(&self) -> Result<()> {
        self.log.check_spelling()
    }

    /// The value of a key that no reader asked for.
    pub(crate) fn unasked(&self, key: &str) -> Option<&'a Value> {
        let member = self.object.get(key)?;
        (!self.log.has_asked(self.span, key)).then_some(&member.node.value)
    }

    /// Adds a warning at a key, without asking for it.
    pub(crate) fn warn_unasked(&self, code: Code, key: &str, message: String) {
        let warning = Diagnostic::warning(code, message);
        self.log.note(self.point(warning, &[key]));
    }

    /// Adds a warning at a key, if it is there.
    pub(crate) fn warn(&self, code: Code, keys: impl Keys, message: impl Into<String>) {
        let warning = Diagnostic::warning(code, message);
        let warning = match self.find(keys) {
            Some((_, member)) => warning.at(member.span(), ""),
            None => warning,
        };
        self.log.note(warning);
    }

    /// Warns that a key is absent, and says what stands in for it.
    pub(crate) fn defaulted(&self, key: &str, instead: String) {
        let message = format!("`{}` is absent: {instead}", self.full(key));
        self.log.note(Diagnostic::warning(codes::DEFAULTED, message).at(self.place(), ""));
    }

    /// A whole number in `1 ..= MAX_DIM`.
    pub(crate) fn dim(&self, keys: impl Keys) -> Result<u64> {
        match self.opt_dim(keys)? {
            Some(n) => Ok(n),
            None => Err(self.missing(keys)),
        }
    }

    /// A whole number in `1 ..= MAX_DIM`, or `default` where the key is absent.
    pub(crate) fn dim_or(&self, keys: impl Keys, default: u64) -> Result<u64> {
        Ok(self.opt_dim(keys)?.unwrap_or(default))
    }

    /// A whole number in `1 ..= MAX_DIM`, if the key is there or the class has a size for it.
    pub(crate) fn opt_dim(&self, keys: impl Keys) -> Result<Option<u64>> {
        if let Some(n) = self.opt_whole(keys, 1, MAX_DIM)? {
            return Ok(Some(n));
        }
        let spelt = |key: &&'static str| self.defaults.iter().find(|(name, _)| name == key);
        let found = keys.spellings().iter().find_map(spelt);
        if let Some((key, n)) = found {
            self.defaulted(key, format!("transformers takes {n}"));
        }
        Ok(found.map(|(_, n)| *n))
    }

    /// A whole number in `lo ..= hi`, or `default` where the key is absent.
    pub(crate) fn whole_or(&self, keys: impl Keys, default: u64, lo: u64, hi: u64) -> Result<u64> {
        Ok(self.opt_whole(keys, lo, hi)?.unwrap_or(default))
    }

    /// A whole number in `lo ..= hi`, if the key is there.
    pub(crate) fn opt_whole(&self, keys: impl Keys, lo: u64, hi: u64) -> Result<Option<u64>> {
        let Some((key, member)) = self.find(keys) else { return Ok(None) };
        match member.node.value {
            Value::Int(n) => match u64::try_from(n).ok().filter(|n| (lo..=hi).contains(n)) {
                Some(n) => Ok(Some(n)),
                None => Err(self.range(key, member, &n.to_string(), lo, hi)),
            },
            Value::Float(x) => Err(self.range(key, member, &number(x), lo, hi)),
            _ => Err(self.wrong(key, &member.node, "a whole number")),
        }
    }

    /// A truth value, or `default` where the key is absent.
    pub(crate) fn flag_or(&self, keys: impl Keys, default: bool) -> Result<bool> {
        let Some((key, member)) = self.find(keys) else { return Ok(default) };
        match member.node.value {
            Value::Bool(b) => Ok(b),
            _ => Err(self.wrong(key, &member.node, "true or false")),
        }
    }

    /// A finite number, or `default` where the key is absent.
    pub(crate) fn number_or(&self, keys: impl Keys, default: f64) -> Result<f64> {
        Ok(self.number(keys)?.unwrap_or(default))
    }

    /// A finite number above zero, or `default` where the key is absent.
    pub(crate) fn positive_or(&self, keys: impl Keys, default: f64) -> Result<f64> {
        Ok(self.positive(keys)?.unwrap_or(default))
    }

    /// A finite number above zero, if the key is there.
    pub(crate) fn positive(&self, keys: impl Keys) -> Result<Option<f64>> {
        let value = self.number(keys)?;
        match (value, self.find(keys)) {
            (Some(x), Some((key, member))) if x <= 0.0 => {
                let message =
                    format!("`{}` is {}; it must be above zero", self.full(key), number(x));
                Err(self.at(codes::OUT_OF_RANGE, member, message))
            }
            _ => Ok(value),
        }
    }

    /// A finite number, if the key is there.
    pub(crate) fn number(&self, keys: impl Keys) -> Result<Option<f64>> {
        let Some((key, member)) = self.find(keys) else { return Ok(None) };
        self.finite(key, &member.node).map(Some)
    }

    fn finite(&self, key: &str, node: &Node) -> Result<f64> {
        match node.value {
            Value::Int(n) => Ok(n as f64),
            Value::Float(x) if x.is_finite() => Ok(x),
            Value::Float(x) => {
                let message = format!("`{}` is {}; it must be finite", self.full(key), number(x));
                Err(Box::new(
                    Diagnostic::error(codes::OUT_OF_RANGE, message).at(node.span, "").help(
                        "restore the published value; JSON has no NaN, and none makes sense here",
                    ),
                ))
            }
            _ => Err(self.wrong(key, node, "a number")),
        }
    }

    /// A string, if the key is there.
    pub(crate) fn text(&self, keys: impl Keys) -> Result<Option<&'a str>> {
        let Some((key, member)) = self.find(keys) else { return Ok(None) };
        match &member.node.value {
            Value::String(s) => Ok(Some(s)),
            _ => Err(self.wrong(key, &member.node, "a string")),
        }
    }

    /// An array's elements, if the key is there.
    pub(crate) fn array(&self, keys: impl Keys) -> Result<Option<&'a [Node]>> {
        let Some((key, member)) = self.find(keys) else { return Ok(None) };
        match &member.node.value {
            Value::Array(items) => Ok(Some(items)),
            _ => Err(self.wrong(key, &member.node, "an array")),
        }
    }

    /// An array of strings, if the key is there.
    pub(crate) fn texts(&self, keys: impl Keys) -> Result<Option<Vec<&'a str>>> {
        self.elements(keys, |fields, key, node| match &node.value {
            Value::String(s) => Ok(s.as_str()),
            _ => Err(fields.wrong(key, node, "an array of strings")),
        })
    }

    /// An array of finite numbers, if the key is there.
    pub(crate) fn numbers(&self, keys: impl Keys) -> Result<Option<Vec<f64>>> {
        self.elements(keys, |fields, key, node| fields.finite(key, node))
    }

    /// An array of whole numbers in `0 ..= MAX_DIM`, if the key is there.
    pub(crate) fn wholes(&self, keys: impl Keys) -> Result<Option<Vec<u64>>> {
        self.elements(keys, |fields, key, node| match node.value {
            Value::Int(n) if (0..=MAX_DIM as i64).contains(&n) => Ok(n as u64),
            _ => Err(fields.wrong(key, node, "an array of whole numbers")),
        })
    }

    fn elements<T>(
        &self,
        keys: impl Keys,
        read: impl Fn(&Self, &'static str, &'a Node) -> Result<T>,
    ) -> Result<Option<Vec<T>>> {
        let Some(items) = self.array(keys)? else { return Ok(None) };
        let key = keys.spellings()[0];
        items.iter().map(|node| read(self, key, node)).collect::<Result<_>>().map(Some)
    }

    /// An array of objects, if the key is there.
    pub(crate) fn objects(&self, key: &'static str) -> Result<Option<Vec<Fields<'a>>>> {
        let Some(items) = self.array(key)? else { return Ok(None) };
        let object = |(index, node): (usize, &'a Node)| match &node.value {
            Value::Object(object) => {
                let path = format!("{}[{index}].", self.full(key));
                Ok(Fields { log: self.log, object, span: node.span, path, defaults: &[] })
            }
            _ => Err(self.wrong(key, node, "an array of objects")),
        };
        items.iter().enumerate().map(object).collect::<Result<_>>().map(Some)
    }

    /// An object, if the key is there.
    pub(crate) fn object(&self, keys: impl Keys) -> Result<Option<Fields<'a>>> {
        let Some((key, member)) = self.find(keys) else { return Ok(None) };
        let Value::Object(object) = &member.node.value else {
            return Err(self.wrong(key, &member.node, "an object"));
        };
        let path = format!("{}.", self.full(key));
        Ok(Some(Fields { log: self.log, object, span: member.node.span, path, defaults: &[] }))
    }

    /// The members of the object, which must be objects themselves, with their keys.
    pub(crate) fn entries(&self) -> Result<Vec<(&'a str, Fields<'a>)>> {
        let entry = |(key, member): (&'a String, &'a Member)| match &member.node.value {
            Value::Object(object) => {
                let (log, path) = (self.log, format!("{}.", self.full(key)));
                let span = member.node.span;
                Ok((key.as_str(), Fields { log, object, span, path, defaults: &[] }))
            }
            _ => Err(self.wrong(key, &member.node, "an object")),
        };
        self.object.iter().map(entry).collect()
    }

    /// A key's name with the path to its object.
    pub(crate) fn full(&self, key: &str) -> String {
        format!("{}{key}", self.path)
    }

    /// The error for an absent key, with the nearest key that is there.
    pub(crate) fn missing(&self, keys: impl Keys) -> Box<Diagnostic> {
        let key = keys.spellings()[0];
        let error =
            Diagnostic::error(codes::MISSING_KEY, format!("`{}` is missing", self.full(key)));
        let found = |k: &&String| similar::same_key(k, key);
        let renamed = self.object.keys().take(1000).find(found);
        Box::new(match renamed.and_then(|k| Some((k, self.object.get(k)?))) {
            Some((near, member)) => error
                .at(member.key_span, format!("perhaps `{near}` is meant to be `{key}`"))
                .help(format!("rename `{near}` to `{key}`")),
            None => error
                .at(self.place(), "in this object")
                .help(format!("add `{key}`, as the published config.json has it")),
        })
    }

    /// The error for a value of the wrong type.
    pub(crate) fn wrong(&self, key: &str, node: &Node, wanted: &str) -> Box<Diagnostic> {
        let found = node.value.describe();
        let message = format!("`{}` must be {wanted}, not {found}", self.full(key));
        let quoted = wanted.ends_with("number") && matches!(node.value, Value::String(_));
        let rest = if quoted { ", without quotes" } else { "" };
        Box::new(
            Diagnostic::error(codes::WRONG_TYPE, message)
                .at(node.span, format!("expected {wanted}"))
                .help(format!("give `{key}` {wanted}{rest}")),
        )
    }

    fn range(&self, key: &str, member: &Member, n: &str, lo: u64, hi: u64) -> Box<Diagnostic> {
        let message =
            format!("`{}` is {n}; it must be a whole number in {lo}..={hi}", self.full(key));
        self.at(codes::OUT_OF_RANGE, member, message)
    }

    fn at(&self, code: Code, member: &Member, message: String) -> Box<Diagnostic> {
        Box::new(
            Diagnostic::error(code, message)
                .at(member.node.span, "")
                .help("restore the value of the published config.json"),
        )
    }

    /// The error for keys that contradict each other; points at all that are there.
    pub(crate) fn conflict(
        &self,
        keys: &[&'static str],
        message: String,
        help: &str,
    ) -> Box<Diagnostic> {
        let error = Diagnostic::error(codes::CONTRADICTION, message).help(help);
        Box::new(self.point(error, keys))
    }

    /// The error for a feature that is not supported.
    pub(crate) fn unsupported(
        &self,
        key: &'static str,
        message: impl Into<String>,
        help: &str,
    ) -> Box<Diagnostic> {
        Box::new(
            self.point(Diagnostic::error(codes::UNSUPPORTED_VALUE, message).help(help), &[key]),
        )
    }

    /// Points `error` at those of `keys` that are there, the first as the primary place.
    pub(crate) fn point(&self, error: Diagnostic, keys: &[&str]) -> Diagnostic {
        keys.iter().filter_map(|key| self.object.get(*key)).fold(error, |error, member| match error
            .primary
        {
            None => error.at(member.span(), ""),
            Some(_) => error.also(member.span(), ""),
        })
    }
}
