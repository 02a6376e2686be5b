//! Reads functions: signature, body, `return`.

use super::cursor::Read;
use super::types::Typed;
use super::{Parser, codes};
use crate::diag::{Diagnostic, Span};
use crate::entity::EntityId;
use crate::graph::{Def, Func, FuncKind, Inst, Value, ValueData};
use crate::nearest::nearest;
use crate::text::lexer::Token;
use crate::text::spans::FuncSpans;
use std::collections::HashMap;

/// A function while its body is read.
pub(super) struct FuncReader {
    pub(super) func: Func,
    pub(super) spans: FuncSpans,
    /// Values by name; `None` for results of instructions that could not be read.
    pub(super) scope: HashMap<String, Option<Value>>,
    /// Operands that were not defined when they were read.
    pub(super) forward: Vec<Forward>,
}

/// An operand that was not defined when it was read; a sentinel stands in its place.
pub(super) struct Forward {
    pub(super) inst: Inst,
    pub(super) operand: usize,
    pub(super) name: String,
    pub(super) span: Span,
}

/// Stands for an operand that is not known yet.
pub(super) fn sentinel() -> Value {
    Value::from_index(u32::MAX as usize)
}

impl FuncReader {
    /// Adds a value; a second one of the same name is reported by the caller, with the first.
    pub(super) fn define(
        &mut self,
        name: &str,
        typed: Typed,
        span: Span,
        def: Def,
    ) -> Option<Value> {
        let Typed { ty, sharding, span: type_span } = typed;
        let name = name.to_string();
        let value = self.func.values.push(ValueData { name: name.clone(), ty, sharding, def });
        self.spans.values[value] = span;
        self.spans.types[value] = type_span;
        self.scope.insert(name, Some(value)).flatten()
    }

    /// Notes that results could not be read, so that their uses are no errors.
    pub(super) fn lose(&mut self, names: &[(String, Span)]) {
        for (name, _) in names {
            self.scope.entry(name.clone()).or_insert(None);
        }
    }
}

impl Parser<'_> {
    /// `func @name(…) -> … { … }`.
    pub(super) fn func(&mut self) -> Read<()> {
        let keyword = self.cur.bump();
        let kind = match self.cur.text(keyword) {
            "program" => FuncKind::Program,
            _ => FuncKind::Func,
        };
        let (name, span) = self.cur.name(Token::Name, "the name of the function, as in `@main`")?;
        if let Some(&first) = self.funcs.get(&name) {
            let first = self.spans.funcs[first].name;
            self.redefined(&format!("function `@{name}`"), span, first);
        }
        let mut reader = FuncReader {
            func: Func::new(&name, kind),
            spans: FuncSpans { name: span, ..FuncSpans::default() },
            scope: HashMap::new(),
            forward: Vec::new(),
        };
        self.params(&mut reader)?;
        let declared = self.signature_results()?;
        self.cur.expect(Token::LBrace, "`{`")?;
        self.body(&mut reader);
        self.resolve(&mut reader);
        self.check_signature(&reader, declared);
        let id = self.module.funcs.push(reader.func);
        self.spans.funcs.push(reader.spans);
        self.funcs.entry(name).or_insert(id);
        Ok(())
    }

    fn params(&mut self, reader: &mut FuncReader) -> Read<()> {
        self.cur.expect(Token::LParen, "`(`")?;
        self.cur_list(Token::RParen, ")", |p| {
            let (name, span) = p.cur.name(Token::Percent, "a parameter, as in `%x`")?;
            p.cur.expect(Token::Colon, "`:` and the type of the parameter")?;
            let typed = p.typed()?;
            let def = Def::Param(reader.func.params.len());
            reader.func.params.push(Value::from_index(reader.func.values.len()));
            p.define(reader, &name, typed, span, def);
            Ok(())
        })?;
        Ok(())
    }

    /// Defines a value and reports a name taken twice.
    pub(super) fn define(
        &mut self,
        reader: &mut FuncReader,
        name: &str,
        typed: Typed,
        span: Span,
        def: Def,
    ) {
        if let Some(first) = reader.define(name, typed, span, def) {
            self.redefined(&format!("`%{name}`"), span, reader.spans.values[first]);
        }
    }

    /// `-> type` or `-> (type, …)`; `None` where it is left out.
    fn signature_results(&mut self) -> Read<Option<Vec<Typed>>> {
        if !self.cur.eat(Token::Arrow) {
            return Ok(None);
        }
        if self.cur.eat(Token::LParen) {
            return self.cur_list(Token::RParen, ")", Self::typed).map(Some);
        }
        Ok(Some(vec![self.typed()?]))
    }

    /// The instructions up to the closing brace.
    fn body(&mut self, reader: &mut FuncReader) {
        while !self.cur.done() {
            if self.cur.at_word("return") {
                if self.returns(reader).is_ok() {
                    return;
                }
                self.skip_to_inst();
                self.cur.eat(Token::RBrace);
                return;
            }
            if self.cur.peek() == Token::RBrace || self.at_item() {
                let name = &reader.func.name;
                let message = format!("function `@{name}` does not end in `return`");
                let here = self.cur.here();
                self.cur.error(codes::SYNTAX, here, message, "write `return` before the `}`");
                self.cur.eat(Token::RBrace);
                return;
            }
            let start = self.cur.here();
            if self.inst(reader).is_err() {
                if self.cur.here() == start {
                    self.cur.bump();
                }
                self.skip_to_inst();
            }
        }
        if self.cur.peek() == Token::End {
            let _ = self.cur.unexpected("`return` and the `}` of the function");
        }
    }

    fn at_item(&self) -> bool {
        let next = self.cur.text(self.cur.here());
        self.cur.opens_line() && matches!(next, "func" | "program" | "mesh" | "dim" | "module")
    }

    /// Leaves out everything up to the next line that can begin an instruction or end the function.
    fn skip_to_inst(&mut self) {
        let can_begin = |token| matches!(token, Token::Percent | Token::Word | Token::RBrace);
        while !(self.cur.done() || self.cur.opens_line() && can_begin(self.cur.peek())) {
            self.cur.bump();
        }
    }

    /// `return %a, %b }`.
    fn returns(&mut self, reader: &mut FuncReader) -> Read<()> {
        let start = self.cur.bump();
        for (name, span) in self.operands()? {
            match reader.scope.get(&name) {
                Some(Some(value)) => reader.func.returns.push(*value),
                Some(None) => {}
                None => self.unknown_value(reader, &name, span, "in its function"),
            }
        }
        reader.spans.returns = self.cur.since(start);
        self.cur.expect(Token::RBrace, "`}` after `return`")?;
        Ok(())
    }

    /// Fills in the operands that were used before their definition, and reports those that have
    /// none.
    fn resolve(&mut self, reader: &mut FuncReader) {
        for Forward { inst, operand, name, span } in std::mem::take(&mut reader.forward) {
            match reader.scope.get(&name) {
                Some(Some(value)) => reader.func.insts[inst].operands[operand] = *value,
                Some(None) => {}
                None => self.unknown_value(reader, &name, span, "in its function"),
            }
        }
        for inst in reader.func.insts.values_mut() {
            inst.operands.retain(|&v| v != sentinel());
        }
    }

    /// Reports a use of `%name`, which is not defined `whence`.
    pub(super) fn unknown_value(
        &mut self,
        reader: &FuncReader,
        name: &str,
        span: Span,
        whence: &str,
    ) {
        let names = reader.func.values.values().map(|v| v.name.as_str());
        let message = format!("`%{name}` is not defined {whence}");
        let mut diagnostic = Diagnostic::error(codes::UNKNOWN_VALUE, message).at(span, "");
        if let Some(near) = nearest(name, names) {
            diagnostic = diagnostic.help(format!("did you mean `%{near}`?"));
        }
        self.cur.report(diagnostic);
    }

    /// Checks that the declared result types are those of the returned values.
    fn check_signature(&mut self, reader: &FuncReader, declared: Option<Vec<Typed>>) {
        let Some(declared) = declared else { return };
        let func = &reader.func;
        let whole = reader.scope.values().all(Option::is_some);
        if declared.len() != func.returns.len() {
            if whole {
                let (says, returns) = (declared.len(), func.returns.len());
                let message = format!(
                    "`@{}` declares {says} result types but returns {returns} values",
                    func.name
                );
                let span = reader.spans.returns;
                let help = "leave the result types out, or make them agree";
                self.cur.error(codes::SIGNATURE, span, message, help);
            }
            return;
        }
        for (typed, &value) in declared.iter().zip(&func.returns) {
            let data = &func.values[value];
            if typed.ty != data.ty || typed.sharding != data.sharding {
                let name = &data.name;
                let message = format!("the declared result type is not that of `%{name}`");
                let diagnostic = Diagnostic::error(codes::SIGNATURE, message)
                    .at(typed.span, "declared here")
                    .also(reader.spans.types[value], "returned here")
                    .help("leave the result types out, or make them agree");
                self.cur.report(diagnostic);
            }
        }
    }
}
