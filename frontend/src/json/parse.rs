//! Text to [`Node`]: one pass, bounded in bytes, depth and values.

use super::{Member, Node, Value};
use crate::codes;
use shardc_ir::diag::{Code, Diagnostic, Result, Span};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Deepest nesting read. Published configurations nest to 6.
pub const MAX_DEPTH: usize = 64;

/// How much is read before giving up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest text, in bytes.
    pub bytes: usize,
    /// Most values.
    pub values: usize,
}

impl Limits {
    /// For `config.json`: published ones stay under 3 MB and 50,000 values. Bounds memory to about
    /// 100 MB.
    pub const CONFIG: Limits = Limits { bytes: 16 << 20, values: 500_000 };
    /// For an index: one entry per tensor, of which a trillion-parameter model has some 200,000.
    pub const INDEX: Limits = Limits { bytes: 256 << 20, values: 4_000_000 };
}

/// Bytes as text.
///
/// # Errors
/// `F005` naming the first offset that is not UTF-8.
pub fn decode(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|e| {
        let at = e.valid_up_to();
        Box::new(
            Diagnostic::error(codes::NOT_UTF8, format!("byte {at} is not UTF-8"))
                .at(Span::new(at, at + 1), "")
                .help("config.json must be UTF-8 text; is this a weight file?"),
        )
    })
}

/// Reads a configuration's text.
///
/// # Errors
/// As [`parse_within`].
pub fn parse(text: &str) -> Result<Node> {
    parse_within(text, Limits::CONFIG)
}

/// Reads a JSON text.
///
/// # Errors
/// `F001` where the text is no JSON, `F002` beyond the limits, `F004` on a duplicate key.
pub fn parse_within(text: &str, limits: Limits) -> Result<Node> {
    if text.len() > limits.bytes {
        let message = format!("the text has {} bytes; the limit is {}", text.len(), limits.bytes);
        return Err(Box::new(
            Diagnostic::error(codes::TOO_LARGE, message)
                .help("pass the model's config.json, not its weights or tokenizer"),
        ));
    }
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut parser = Parser { text, at: start, depth: 0, values: 0, limits };
    parser.skip_space();
    if parser.peek().is_none() {
        return Err(Box::new(
            Diagnostic::error(codes::SYNTAX, "the file is empty")
                .help("pass the model's config.json; an interrupted download leaves an empty file"),
        ));
    }
    let node = parser.value()?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.unexpected("the end of the file")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    values: usize,
    limits: Limits,
}

impl Parser<'_> {
    fn value(&mut self) -> Result<Node> {
        self.values += 1;
        if self.values > self.limits.values {
            return Err(self.limit(format!("more than {} values", self.limits.values)));
        }
        self.skip_space();
        let start = self.at;
        let value = match self.peek() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::array)?,
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'a'..=b'z' | b'A'..=b'Z') => self.word()?,
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Node { span: Span::new(start, self.at), value })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value>) -> Result<Value> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.limit(format!("nesting deeper than {MAX_DEPTH}")));
        }
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn array(&mut self) -> Result<Value> {
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            items.push(self.value()?);
            if self.take(b']') {
                return Ok(Value::Array(items));
            }
            if !self.take(b',') {
                return Err(self.unexpected("`,` or `]`"));
            }
        }
    }

    fn object(&mut self) -> Result<Value> {
        let mut members = BTreeMap::new();
        if self.take(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.member(&mut members)?;
            if self.take(b'}') {
                return Ok(Value::Object(members));
            }
            if !self.take(b',') {
                return Err(self.unexpected("`,` or `}`"));
            }
        }
    }

    fn member(&mut self, members: &mut BTreeMap<String, Member>) -> Result<()> {
        self.skip_space();
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a key in double quotes"));
        }
        let key = self.string()?;
        let key_span = Span::new(start, self.at);
        if !self.take(b':') {
            return Err(self.unexpected("`:` after the key"));
        }
        let node = self.value()?;
        match members.entry(key) {
            Entry::Vacant(slot) => {
                slot.insert(Member { key_span, node });
                Ok(())
            }
            Entry::Occupied(first) => Err(Box::new(
                Diagnostic::error(codes::DUPLICATE_KEY, format!("duplicate key {:?}", first.key()))
                    .at(key_span, "again here")
                    .also(first.get().key_span, "first here")
                    .help("keep one of the two"),
            )),
        }
    }

    /// A string token; `at` stands on the opening quote.
    fn string(&mut self) -> Result<String> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
                None => return Err(self.broken(start, start + 1, "this string never ends")),
            }
        }
        self.at = end + 1;
        let token = &self.text[start..self.at];
        if !token.contains('\\') && !token.bytes().any(|b| b < 0x20) {
            return Ok(token[1..token.len() - 1].to_string());
        }
        serde_json::from_str(token)
            .map_err(|_| self.broken(start, end + 1, "this string holds a bad escape"))
    }

    fn number(&mut self) -> Result<Value> {
        let start = self.at;
        if self.text[start..].starts_with("-Infinity") {
            self.at += "-Infinity".len();
            return Ok(Value::Float(f64::NEG_INFINITY));
        }
        let part = |b: u8| matches!(b, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
        while self.peek().is_some_and(part) {
            self.at += 1;
        }
        let token = &self.text[start..self.at];
        let float = token.parse::<f64>().unwrap_or(f64::NAN);
        if serde_json::from_str::<serde_json::Number>(token).is_err() && !float.is_infinite() {
            return Err(self.broken(start, self.at, "this is not a JSON number"));
        }
        Ok(token.parse().map_or(Value::Float(float), Value::Int))
    }

    fn word(&mut self) -> Result<Value> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') {
            self.at += 1;
        }
        match &self.text[start..self.at] {
            "null" => Ok(Value::Null),
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            "NaN" => Ok(Value::Float(f64::NAN)),
            "Infinity" => Ok(Value::Float(f64::INFINITY)),
            word => {
                let error = self.broken(start, self.at, "this word is no JSON value");
                Err(match word {
                    "True" | "False" | "None" => Box::new(
                        error.help("this is Python; JSON writes `true`, `false` and `null`"),
                    ),
                    _ => error,
                })
            }
        }
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Takes `byte` if it comes next after white space.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let hit = self.peek() == Some(byte);
        self.at += usize::from(hit);
        hit
    }

    fn unexpected(&self, wanted: &str) -> Box<Diagnostic> {
        let found = self.text.get(self.at..).and_then(|rest| rest.chars().next());
        let (len, message) = match found {
            Some(c) => (c.len_utf8(), format!("expected {wanted}, found {c:?}")),
            None => (0, format!("expected {wanted}, found the end of the file")),
        };
        let end = (self.at + len).min(self.text.len());
        let error = self.error(codes::SYNTAX, message, self.at.min(end), end);
        Box::new(error.help("the file must be standard JSON: no comments, no trailing commas"))
    }

    fn broken(&self, start: usize, end: usize, message: &str) -> Box<Diagnostic> {
        Box::new(self.error(codes::SYNTAX, message.into(), start, end))
    }

    fn limit(&self, what: String) -> Box<Diagnostic> {
        let error = self.error(codes::TOO_LARGE, what, self.at, self.at + 1);
        Box::new(error.help("no published config.json comes near this limit; check the file"))
    }

    fn error(&self, code: Code, message: String, start: usize, end: usize) -> Diagnostic {
        Diagnostic::error(code, message).at(Span::new(start, end), "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> &'static str {
        parse(text).map_or_else(|e| e.code.id, |_| "ok")
    }

    #[test]
    fn reads_values_and_places() {
        let node = parse(r#"{"a": [1, -2.5e3, "x\ny", NaN, -Infinity, null]}"#).unwrap();
        let Value::Object(top) = &node.value else { panic!("not an object") };
        let Value::Array(items) = &top["a"].node.value else { panic!("not an array") };
        assert_eq!(items[0].value, Value::Int(1));
        assert_eq!(items[1].value, Value::Float(-2500.0));
        assert_eq!(items[2].value, Value::String("x\ny".into()));
        assert_eq!(items[0].span, Span::new(7, 8));
        assert_eq!(top["a"].key_span, Span::new(1, 4));
    }

    #[test]
    fn refuses_what_is_not_json() {
        for text in
            ["", " ", "{", "{]", "[1,]", "{\"a\" 1}", "\"abc", "01", "1 2", "nul", "\"\\q\""]
        {
            assert_eq!(code(text), "F001", "{text:?}");
        }
        assert_eq!(code("{\"a\":1,\"a\":2}"), "F004");
        assert_eq!(code(&"[".repeat(5_000_000)), "F002");
        assert_eq!(code(&format!("[{}1]", "1,".repeat(Limits::CONFIG.values))), "F002");
        assert_eq!(decode(b"{\"a\xff\": 1}").unwrap_err().code.id, "F005");
        assert_eq!(code("\u{feff}{}"), "ok");
    }
}
