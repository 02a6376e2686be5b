//! Reads instructions: `%a, %b = op %x, %y {…} : type, type`.

use super::attrs::Attr;
use super::cursor::{Read, Reported};
use super::func::{Forward, FuncReader, sentinel};
use super::types::Typed;
use super::{Parser, codes};
use crate::diag::{Diagnostic, Span};
use crate::entity::EntityId;
use crate::graph::{Def, InstData, Value};
use crate::nearest::nearest;
use crate::ops::{Inferred, OPS, Op};
use crate::text::lexer::Token;

type Named = (String, Span);

impl Parser<'_> {
    /// One instruction; if it cannot be read, its results are noted as lost.
    pub(super) fn inst(&mut self, reader: &mut FuncReader) -> Read<()> {
        let start = self.cur.here();
        let mut results = Vec::new();
        let read = self.inst_parts(reader, start, &mut results);
        if read.is_err() {
            reader.lose(&results);
        }
        read
    }

    fn inst_parts(
        &mut self,
        reader: &mut FuncReader,
        start: Span,
        results: &mut Vec<Named>,
    ) -> Read<()> {
        if self.cur.peek() == Token::Percent {
            *results = self.names()?;
            self.cur.expect(Token::Equals, "`=`")?;
        }
        let (name, name_span) = self.cur.word("the name of an operator")?;
        let operands = self.operands()?;
        let attrs = self.attrs()?;
        let typed = if self.cur.eat(Token::Colon) { Some(self.types()?) } else { None };
        let span = self.cur.since(start);
        let op = self.op(name, name_span, &attrs)?;
        let typed = match typed {
            Some(typed) => typed,
            None if results.is_empty() => Vec::new(),
            None => match self.infer(reader, &op, name_span, &operands)? {
                Some(typed) => typed,
                None => {
                    reader.lose(results);
                    return Ok(());
                }
            },
        };
        self.result_count(results.len(), typed.len(), span)?;
        self.build(reader, span, op, operands, results, typed);
        Ok(())
    }

    /// `%a, %b`, where the first stands on the line of the word before; a `%` that opens a line
    /// begins the next instruction.
    pub(super) fn operands(&mut self) -> Read<Vec<Named>> {
        if self.cur.peek() == Token::Percent && !self.cur.opens_line() {
            self.names()
        } else {
            Ok(Vec::new())
        }
    }

    fn names(&mut self) -> Read<Vec<Named>> {
        let mut names = vec![self.cur.name(Token::Percent, "a value, as in `%x`")?];
        while self.cur.eat(Token::Comma) {
            names.push(self.cur.name(Token::Percent, "a value, as in `%x`")?);
        }
        Ok(names)
    }

    fn types(&mut self) -> Read<Vec<Typed>> {
        let mut types = vec![self.typed()?];
        while self.cur.eat(Token::Comma) {
            types.push(self.typed()?);
        }
        Ok(types)
    }

    fn op(&mut self, name: &str, span: Span, attrs: &[Attr]) -> Read<Op> {
        let Some(info) = OPS.iter().find(|row| row.name == name) else {
            let help = match nearest(name, OPS.iter().map(|row| row.name)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`shardc ops` lists the operators".to_string(),
            };
            let message = format!("there is no operator `{name}`");
            return Err(self.cur.error(codes::UNKNOWN_OP, span, message, &help));
        };
        if let Some(attr) = attrs.iter().find(|a| !info.keys.contains(&a.key.as_str())) {
            let help = match (nearest(&attr.key, info.keys.iter().copied()), info.keys) {
                (Some(near), _) => format!("did you mean `{near}`?"),
                (None, []) => format!("`{name}` has no attributes"),
                (None, keys) => format!("its attributes are {}", keys.join(", ")),
            };
            let message = format!("`{name}` has no attribute `{}`", attr.key);
            return Err(self.cur.error(codes::ATTRIBUTE, attr.span, message, &help));
        }
        let get = |key: &str| attrs.iter().find(|a| a.key == key).map(|a| a.value.clone());
        match Op::from_text(name, &get) {
            Some(Ok(op)) => Ok(op),
            Some(Err(cause)) => {
                let guilty = attrs.iter().find(|a| cause.contains(&format!("`{}`", a.key)));
                let span = guilty.map_or(span, |a| a.span);
                let message = format!("`{name}`: {cause}");
                let help = format!("`shardc ops {name}` shows its attributes");
                Err(self.cur.error(codes::ATTRIBUTE, span, message, &help))
            }
            None => Err(self.cur.unexpected("an operator")),
        }
    }

    /// The result types where the text leaves them out; `None` if an operand could not be read.
    fn infer(
        &mut self,
        reader: &FuncReader,
        op: &Op,
        span: Span,
        operands: &[Named],
    ) -> Read<Option<Vec<Typed>>> {
        let mut values = Vec::new();
        for (name, at) in operands {
            match reader.scope.get(name) {
                Some(Some(value)) => values.push(*value),
                Some(None) => return Ok(None),
                None => {
                    self.unknown_value(reader, name, *at, "before its use");
                    return Ok(None);
                }
            }
        }
        let types: Vec<_> = values.iter().map(|&v| reader.func.ty(v)).collect();
        let name = op.info().name;
        match op.infer(&types) {
            Ok(Inferred::Types(types)) => {
                let typed = |ty| Typed { ty, sharding: None, span: Span::default() };
                Ok(Some(types.into_iter().map(typed).collect()))
            }
            Ok(Inferred::Declared(_)) => {
                let message = format!("the result types of `{name}` cannot be inferred");
                let help = "give them after a `:` at the end of the instruction";
                Err(self.cur.error(codes::NEEDS_TYPE, span, message, help))
            }
            Err(cause) => {
                let cause = self.module.name_symbols(&cause);
                let message = format!("`{name}` does not fit its operands: {cause}");
                Err(self.cur.report(Diagnostic::error(codes::NEEDS_TYPE, message).at(span, "")))
            }
        }
    }

    fn result_count(&mut self, named: usize, typed: usize, span: Span) -> Result<(), Reported> {
        if named == typed {
            return Ok(());
        }
        let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let message = format!(
            "the instruction names {} and has {}",
            plural(named, "result"),
            plural(typed, "result type")
        );
        let help = "name every result: `%w, %ids = router …`";
        Err(self.cur.error(codes::RESULT_COUNT, span, message, help))
    }

    fn build(
        &mut self,
        reader: &mut FuncReader,
        span: Span,
        op: Op,
        operands: Vec<Named>,
        results: &[Named],
        typed: Vec<Typed>,
    ) {
        let inst = reader.func.insts.push(InstData { op, operands: Vec::new(), results: vec![] });
        reader.spans.insts[inst] = span;
        reader.func.body.push(inst);
        for (operand, (name, span)) in operands.into_iter().enumerate() {
            let value = match reader.scope.get(&name) {
                Some(Some(value)) => *value,
                Some(None) => sentinel(),
                None => {
                    reader.forward.push(Forward { inst, operand, name, span });
                    sentinel()
                }
            };
            reader.func.insts[inst].operands.push(value);
        }
        for (i, ((name, span), typed)) in results.iter().zip(typed).enumerate() {
            let value = Value::from_index(reader.func.values.len());
            self.define(reader, name, typed, *span, Def::Result(inst, i));
            reader.func.insts[inst].results.push(value);
        }
    }
}
