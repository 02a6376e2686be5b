//! The parser: one pass over the tokens, with recovery at the next instruction or item.
//!
//! Whatever the source holds, the result is a module of what could be read, the places of its
//! entities, and diagnostics for the rest. An instruction that cannot be read is left out; uses of
//! its results are left out without a further error.

mod attrs;
mod cursor;
mod func;
mod inst;
mod types;

use super::codes;
use super::lexer::Token;
use super::spans::Spans;
use crate::diag::{Diagnostic, Span};
use crate::dim::{Sym, SymDim};
use crate::graph::{FuncId, Level, Module};
use crate::mesh::{Axis, Mesh};
use cursor::{Cursor, Read};
use std::collections::HashMap;

/// The largest source that is read, in bytes.
pub const MAX_SOURCE: usize = 1 << 28;

/// What a source says.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The module; of a source with errors, what could be read of it.
    pub module: Module,
    /// Where its entities stand in the source.
    pub spans: Spans,
    /// The errors, in order of their place; empty when the whole source was read.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    /// The module with its spans, or the diagnostics.
    ///
    /// # Errors
    /// The source had errors.
    pub fn into_result(self) -> Result<(Module, Spans), Vec<Diagnostic>> {
        if self.diagnostics.iter().any(Diagnostic::is_error) {
            return Err(self.diagnostics);
        }
        Ok((self.module, self.spans))
    }
}

/// Reads a module, in time linear in the source. Never fails: see [`Parsed`].
pub fn parse(source: &str) -> Parsed {
    if source.len() > MAX_SOURCE {
        let message = format!("the source has {} bytes", source.len());
        let help = format!("the reader accepts up to {MAX_SOURCE}");
        let diagnostics = vec![Diagnostic::error(codes::TOO_LARGE, message).help(help)];
        let module = Module::new(DEFAULT_NAME, Level::Logical);
        return Parsed { module, spans: Spans::default(), diagnostics };
    }
    let mut parser = Parser {
        cur: Cursor::new(source),
        module: Module::new(DEFAULT_NAME, Level::Logical),
        spans: Spans::default(),
        syms: HashMap::new(),
        funcs: HashMap::new(),
    };
    parser.module();
    let Parser { cur, module, spans, .. } = parser;
    let mut diagnostics = cur.diagnostics;
    diagnostics.sort_by_key(|d| d.primary.as_ref().map(|label| label.span));
    Parsed { module, spans, diagnostics }
}

/// The name of a module whose text has no header.
const DEFAULT_NAME: &str = "main";

/// The words that begin an item.
const ITEMS: [&str; 5] = ["module", "mesh", "dim", "func", "program"];

struct Parser<'s> {
    cur: Cursor<'s>,
    module: Module,
    spans: Spans,
    syms: HashMap<String, Sym>,
    funcs: HashMap<String, FuncId>,
}

impl Parser<'_> {
    fn module(&mut self) {
        if self.cur.at_word("module") && self.header().is_err() {
            self.skip_to_item();
        }
        while !self.cur.done() {
            let start = self.cur.here();
            if self.item().is_err() {
                if self.cur.here() == start {
                    self.cur.bump();
                }
                self.skip_to_item();
            }
        }
    }

    /// `module @name level logical {…}`.
    fn header(&mut self) -> Read<()> {
        self.cur.bump();
        let (name, span) = self.cur.name(Token::Name, "the name of the module, as in `@model`")?;
        (self.module.name, self.spans.module) = (name, span);
        if self.cur.eat_word("level") {
            let (word, span) = self.cur.word("a level")?;
            self.module.level = Level::from_name(word).ok_or_else(|| {
                let names = Level::NAMES.map(|(_, name)| name).join(", ");
                let message = format!("there is no level `{word}`");
                let help = format!("the levels are {names}");
                self.cur.error(codes::UNKNOWN_LEVEL, span, message, &help)
            })?;
        }
        let attrs = self.attrs()?;
        self.module.attrs = attrs.into_iter().map(|a| (a.key, a.value)).collect();
        Ok(())
    }

    fn item(&mut self) -> Read<()> {
        match self.cur.text(self.cur.here()) {
            "mesh" => self.mesh(),
            "dim" => self.dim_item(),
            "func" | "program" => self.func(),
            "module" => {
                let help = "a text holds one module; put the header first";
                let here = self.cur.here();
                Err(self.cur.error(codes::SYNTAX, here, "`module` must come first", help))
            }
            _ => Err(self.cur.unexpected("`mesh`, `dim`, `func` or `program`")),
        }
    }

    /// Leaves out everything up to the next line that begins an item.
    fn skip_to_item(&mut self) {
        while !self.cur.done() {
            let word = self.cur.text(self.cur.here());
            if self.cur.opens_line() && ITEMS.contains(&word) {
                return;
            }
            self.cur.bump();
        }
    }

    /// `mesh @m = <["node"=2, "gpu"=8]>`.
    fn mesh(&mut self) -> Read<()> {
        let start = self.cur.bump();
        let (name, span) = self.cur.name(Token::Name, "the name of the mesh, as in `@m`")?;
        if self.module.mesh.is_some() {
            let help = "a module has one mesh; give its axes to it";
            return Err(self.cur.error(codes::REDEFINED, span, "there is a mesh already", help));
        }
        self.cur.expect(Token::Equals, "`=`")?;
        self.cur.expect(Token::Less, "`<`")?;
        self.cur.expect(Token::LBracket, "`[`")?;
        let axes = self.cur_list(Token::RBracket, "]", Self::mesh_axis)?;
        self.cur.expect(Token::Greater, "`>`")?;
        self.spans.mesh = self.cur.since(start);
        let mesh = Mesh { name, axes };
        if let Err(problem) = mesh.check() {
            return Err(self.cur.report(problem.at(self.spans.mesh, "")));
        }
        self.module.mesh = Some(mesh);
        Ok(())
    }

    fn mesh_axis(&mut self) -> Read<Axis> {
        let (name, _) = self.cur.string("the name of an axis in quotes")?;
        self.cur.expect(Token::Equals, "`=` and the size of the axis")?;
        Ok(Axis { name, size: self.cur.number("the size of the axis")? })
    }

    /// `dim %T in 1..8192`.
    fn dim_item(&mut self) -> Read<()> {
        let start = self.cur.bump();
        let (name, span) = self.cur.name(Token::Percent, "a symbol, as in `%T`")?;
        self.cur.expect_word("in")?;
        let lo = self.cur.number("the smallest value")?;
        self.cur.expect(Token::DotDot, "`..`")?;
        let hi = self.cur.number("the largest value")?;
        if self.syms.contains_key(&name) {
            let message = format!("symbol `%{name}` is declared twice");
            return Err(self.cur.error(codes::REDEFINED, span, message, "leave one of them out"));
        }
        let sym = self.module.syms.push(SymDim { name: name.clone(), lo, hi });
        self.spans.syms[sym] = self.cur.since(start);
        self.syms.insert(name, sym);
        Ok(())
    }

    /// Reads `item, item close`; a comma may end the list.
    fn cur_list<T>(
        &mut self,
        close: Token,
        shown: &str,
        mut item: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Vec<T>> {
        let mut items = Vec::new();
        while !self.cur.eat(close) {
            items.push(item(self)?);
            if !self.cur.eat(Token::Comma) {
                self.cur.expect(close, &format!("`,` or `{shown}`"))?;
                break;
            }
        }
        Ok(items)
    }

    /// Reports a second declaration of something named.
    fn redefined(&mut self, what: &str, span: Span, first: Span) {
        let diagnostic = Diagnostic::error(codes::REDEFINED, format!("{what} is defined twice"));
        self.cur.report(diagnostic.at(span, "").also(first, "first here").help("rename one"));
    }
}
