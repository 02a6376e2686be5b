//! Reads the short text of a layout: `[{y}, {}, {x:(2)2}] unreduced [sum {z}]`, names quoted or not.

use super::{Layout, Partial, ReduceKind, codes};
use crate::diag::{Diagnostic, Result, Span};
use crate::mesh::{AxisRef, Mesh};

impl Layout {
    /// Reads a decided layout over `mesh`, as [`show`](Self::show) prints it or without quotes.
    ///
    /// Errors: malformed text or an unknown axis, with the span in `text`. Whether the axes fit
    /// together is for [`check`](Self::check).
    pub fn parse(text: &str, mesh: &Mesh) -> Result<Layout> {
        let mut reader = Reader { text, at: 0, mesh };
        let dims = reader.list('[', ']', Reader::axis_set)?;
        let unreduced = match reader.word() {
            "" => Vec::new(),
            "unreduced" => reader.list('[', ']', Reader::partial)?,
            _ => return Err(reader.expected("`unreduced [kind {axes}]` or the end")),
        };
        reader.end()?;
        Ok(Layout { dims, unreduced })
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    mesh: &'a Mesh,
}

impl<'a> Reader<'a> {
    fn axis_set(&mut self) -> Result<Vec<AxisRef>> {
        self.list('{', '}', Self::axis)
    }

    fn partial(&mut self) -> Result<Partial> {
        let start = self.at;
        let Some(kind) = ReduceKind::from_name(self.word()) else {
            self.at = start;
            return Err(self.expected("a kind: `sum`, `max`, `argmax` or `lse`"));
        };
        Ok(Partial { kind, axes: self.axis_set()? })
    }

    fn axis(&mut self) -> Result<AxisRef> {
        let start = self.skip_space();
        let name = self.axis_name()?;
        let Some(axis) = self.mesh.axis(name) else {
            let known: Vec<_> = self.mesh.axes.iter().map(|a| format!("`{}`", a.name)).collect();
            let problem = Diagnostic::error(codes::UNKNOWN_AXIS, format!("no axis `{name}`"))
                .at(Span::new(start, self.at), "not in the mesh")
                .help(format!("the mesh has {}", known.join(", ")));
            return Err(Box::new(problem));
        };
        if !self.eat(':') {
            return Ok(AxisRef::whole(axis));
        }
        self.require('(')?;
        let pre = self.number()?;
        self.require(')')?;
        Ok(AxisRef::part(axis, pre, self.number()?))
    }

    fn axis_name(&mut self) -> Result<&'a str> {
        if !self.eat('"') {
            return match self.word() {
                "" => Err(self.expected("the name of an axis")),
                name => Ok(name),
            };
        }
        let rest = &self.text[self.at..];
        let Some(len) = rest.find('"') else { return Err(self.expected("a closing `\"`")) };
        self.at += len + 1;
        Ok(&rest[..len])
    }

    fn list<T>(
        &mut self,
        open: char,
        close: char,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.require(open)?;
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(close) {
                return Ok(items);
            }
            if !self.eat(',') {
                return Err(self.expected(&format!("`,` or `{close}`")));
            }
        }
    }

    fn number(&mut self) -> Result<u64> {
        let start = self.at;
        let word = self.word();
        word.parse().map_err(|_| {
            self.at = start;
            self.expected("a number")
        })
    }

    /// The letters, digits, `_`, `.` and `-` that come next.
    fn word(&mut self) -> &'a str {
        let rest = &self.text[self.skip_space()..];
        let legal = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
        let len = rest.find(|c| !legal(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn skip_space(&mut self) -> usize {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.at
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.text[self.skip_space()..].starts_with(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    fn require(&mut self, wanted: char) -> Result<()> {
        if self.eat(wanted) { Ok(()) } else { Err(self.expected(&format!("`{wanted}`"))) }
    }

    fn end(&mut self) -> Result<()> {
        if self.skip_space() == self.text.len() { Ok(()) } else { Err(self.expected("the end")) }
    }

    fn expected(&mut self, what: &str) -> Box<Diagnostic> {
        let at = self.skip_space();
        let column = self.text[..at].chars().count() + 1;
        let found: String = self.text[at..].chars().take(12).collect();
        let found = if found.is_empty() { "the end".into() } else { format!("`{found}`") };
        let message = format!("expected {what} at column {column} of a layout, found {found}");
        let problem = Diagnostic::error(codes::LAYOUT_SYNTAX, message)
            .at(Span::new(at, self.text.len().min(at + 1)), "here")
            .help("write one `{axes}` per dimension: `[{x, y:(1)2}, {}] unreduced [sum {z}]`");
        Box::new(problem)
    }
}
