//! Reads attribute lists: `{top_k = 8, scoring = sigmoid}`.

use super::Parser;
use super::cursor::Read;
use crate::attr::{AttrValue, F64};
use crate::diag::Span;
use crate::text::codes;
use crate::text::lexer::Token;
use std::collections::HashSet;

/// Lists may hold lists to this depth.
const MAX_DEPTH: usize = 16;

/// One attribute and where it stands.
pub(super) struct Attr {
    pub(super) key: String,
    pub(super) value: AttrValue,
    pub(super) span: Span,
}

impl Parser<'_> {
    /// The attributes in braces that come next, if any do.
    pub(super) fn attrs(&mut self) -> Read<Vec<Attr>> {
        if !self.cur.eat(Token::LBrace) {
            return Ok(Vec::new());
        }
        let mut seen = HashSet::new();
        self.cur_list(Token::RBrace, "}", |p| {
            let start = p.cur.here();
            let (key, span) = p.cur.word("the name of an attribute")?;
            if !seen.insert(key) {
                let message = format!("attribute `{key}` is given twice");
                return Err(p.cur.error(codes::REDEFINED, span, message, "leave one of them out"));
            }
            p.cur.expect(Token::Equals, "`=`")?;
            let value = p.attr_value(0)?;
            Ok(Attr { key: key.to_string(), value, span: p.cur.since(start) })
        })
    }

    fn attr_value(&mut self, depth: usize) -> Read<AttrValue> {
        match self.cur.peek() {
            Token::Str => Ok(AttrValue::Str(self.cur.string("a string")?.0)),
            Token::Name => Ok(AttrValue::Func(self.cur.name(Token::Name, "a function")?.0)),
            Token::Float => self.float_value(),
            Token::Int => self.int_value(),
            Token::Percent => Ok(AttrValue::Dim(self.dim()?)),
            Token::Word => self.word_value(),
            Token::LBrace => Ok(AttrValue::Axes(self.axes()?)),
            Token::LBracket => self.list_value(depth),
            _ => Err(self.cur.unexpected("the value of an attribute")),
        }
    }

    /// `1e-6`; a number beyond the range of 64-bit floats is refused, not read as infinity.
    fn float_value(&mut self) -> Read<AttrValue> {
        let span = self.cur.bump();
        let text = self.cur.text(span);
        let value: f64 = self.cur.number_in(span, text)?;
        if value.is_infinite() && text != "-inf" {
            let help = "write `inf` or `-inf` if infinity is meant";
            return Err(self.cur.error(codes::NUMBER, span, "a number is out of range", help));
        }
        Ok(AttrValue::Float(F64(value)))
    }

    /// `61`, or the coefficient of `8*%T`.
    fn int_value(&mut self) -> Read<AttrValue> {
        let span = self.cur.bump();
        if !self.cur.eat(Token::Star) {
            return self.cur.number_in(span, self.cur.text(span)).map(AttrValue::Int);
        }
        let coeff = self.cur.number_in(span, self.cur.text(span))?;
        if self.cur.peek() != Token::Percent {
            return Err(self.cur.unexpected("a symbol"));
        }
        self.multiple(coeff).map(AttrValue::Dim)
    }

    fn word_value(&mut self) -> Read<AttrValue> {
        if self.cur.at_word("ceildiv") {
            return self.dim().map(AttrValue::Dim);
        }
        let span = self.cur.bump();
        Ok(match self.cur.text(span) {
            "inf" => AttrValue::Float(F64(f64::INFINITY)),
            "nan" => AttrValue::Float(F64(f64::NAN)),
            word => AttrValue::Word(word.to_string()),
        })
    }

    fn list_value(&mut self, depth: usize) -> Read<AttrValue> {
        let open = self.cur.bump();
        if depth >= MAX_DEPTH {
            let message = "attribute lists are nested too deeply";
            let help = format!("lists may hold lists {MAX_DEPTH} deep");
            return Err(self.cur.error(codes::DEPTH, open, message, &help));
        }
        self.cur_list(Token::RBracket, "]", |p| p.attr_value(depth + 1)).map(AttrValue::List)
    }
}
