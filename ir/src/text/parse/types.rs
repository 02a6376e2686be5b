//! Reads types, extents and layouts.

use super::Parser;
use super::cursor::{Read, Reported};
use crate::diag::Span;
use crate::dim::Dim;
use crate::dtype::{BlockScale, DType, Elem};
use crate::layout::{DimAnnotation, Layout, Partial, ReduceKind, Sharding};
use crate::mesh::AxisRef;
use crate::nearest::nearest;
use crate::text::codes;
use crate::text::lexer::Token;
use crate::types::{Kind, Type};

/// A type with its layout and where both stand.
pub(super) struct Typed {
    pub(super) ty: Type,
    pub(super) sharding: Option<Sharding>,
    pub(super) span: Span,
}

impl Parser<'_> {
    /// `tensor<%B x 64 x bf16> @[{"x"}, {}]`.
    pub(super) fn typed(&mut self) -> Read<Typed> {
        let start = self.cur.here();
        let ty = self.ty()?;
        let sharding = if self.cur.eat(Token::At) { Some(self.sharding()?) } else { None };
        Ok(Typed { ty, sharding, span: self.cur.since(start) })
    }

    fn ty(&mut self) -> Read<Type> {
        const WANTED: &str = "a type: `tensor<…>`, `weight<…>`, `cache<…>` or `routed<…>`";
        let word = self.cur.text(self.cur.here());
        let kind = match word {
            "tensor" => Kind::Tensor,
            "weight" => Kind::Weight,
            "cache" => Kind::Cache,
            "routed" => Kind::Routed { top_k: 0 },
            _ => return Err(self.cur.unexpected(WANTED)),
        };
        self.cur.bump();
        self.cur.expect(Token::Less, "`<`")?;
        let kind = if kind == (Kind::Routed { top_k: 0 }) { self.routed()? } else { kind };
        let mut dims = Vec::new();
        while self.at_dim() {
            dims.push(self.dim()?);
            self.times()?;
        }
        let elem = self.elem()?;
        self.cur.expect(Token::Greater, "`>`")?;
        Ok(Type { kind, dims, elem })
    }

    /// `8 of`, before the extents of routed rows.
    fn routed(&mut self) -> Read<Kind> {
        let top_k =
            self.cur.number("the number of experts of one token, as in `routed<8 of 256`")?;
        self.cur.expect_word("of")?;
        Ok(Kind::Routed { top_k })
    }

    fn times(&mut self) -> Read<()> {
        if self.cur.eat_word("x") {
            return Ok(());
        }
        let text = self.cur.text(self.cur.here());
        if self.cur.peek() == Token::Word && text.starts_with('x') {
            let help = "write spaces around `x`: `tensor<4 x 8 x bf16>`";
            return Err(self.cur.error(codes::SYNTAX, self.cur.here(), "expected `x`", help));
        }
        Err(self.cur.unexpected("`x` and the next extent or the element type"))
    }

    fn at_dim(&self) -> bool {
        matches!(self.cur.peek(), Token::Int | Token::Percent) || self.cur.at_word("ceildiv")
    }

    /// `4096`, `%T`, `8*%T`, `ceildiv(%T, 8)`.
    pub(super) fn dim(&mut self) -> Read<Dim> {
        if !self.cur.eat_word("ceildiv") {
            return self.multiple(1);
        }
        self.cur.expect(Token::LParen, "`(`")?;
        let inner = self.cur.here();
        let whole = self.multiple(1)?;
        self.cur.expect(Token::Comma, "`,`")?;
        let at = self.cur.here();
        let div = self.cur.number("a divisor")?;
        self.cur.expect(Token::RParen, "`)`")?;
        let (coeff, sym, _) = whole.parts();
        Dim::from_parts(coeff, sym, div).ok_or_else(|| {
            let help = format!("write `{}` or a divisor of 1 or more", self.cur.text(inner));
            self.cur.error(codes::NUMBER, at, "an extent is divided by 0", &help)
        })
    }

    pub(super) fn multiple(&mut self, coeff: u64) -> Read<Dim> {
        if self.cur.peek() == Token::Percent {
            let (name, span) = self.cur.name(Token::Percent, "a symbol")?;
            let sym = self.sym(&name, span)?;
            return Ok(Dim::from_parts(coeff, Some(sym), 1).unwrap_or(Dim::sym(sym)));
        }
        let n = self.cur.number("an extent: a number, `%symbol` or `ceildiv(extent, parts)`")?;
        if self.cur.eat(Token::Star) {
            if self.cur.peek() != Token::Percent {
                return Err(self.cur.unexpected("a symbol"));
            }
            return self.multiple(n);
        }
        Ok(Dim::fixed(n))
    }

    fn sym(&mut self, name: &str, span: Span) -> Read<crate::dim::Sym> {
        if let Some(sym) = self.syms.get(name) {
            return Ok(*sym);
        }
        let known = nearest(name, self.module.syms.values().map(|s| s.name.as_str()));
        let help = match known {
            Some(near) => format!("did you mean `%{near}`?"),
            None => format!("declare it: `dim %{name} in 1..8192`"),
        };
        let message = format!("no symbol `%{name}` is declared");
        Err(self.cur.error(codes::UNKNOWN_SYMBOL, span, message, &help))
    }

    /// `bf16`, `f8e4m3/128x128:f32@0:1`, `i4/128x1:f16:i4@0:1`, `f4e2m1/16x1:f8e4m3:2@0:1`.
    fn elem(&mut self) -> Read<Elem> {
        let (word, span) = self.cur.word("an extent or an element type")?;
        let Some((name, block)) = word.split_once('/') else {
            return Ok(Elem::plain(self.dtype(word, span)?));
        };
        let dtype = self.dtype(name, span)?;
        let Some((rows, cols)) = block.split_once('x') else {
            let help = "blocks are written `f8e4m3/128x128:f32@0:1`";
            let message = format!("`{block}` is no block size");
            return Err(self.cur.error(codes::SYNTAX, span, message, help));
        };
        let (rows, cols) = (self.cur.number_in(span, rows)?, self.cur.number_in(span, cols)?);
        self.cur.expect(Token::Colon, "`:` and the format of the scales")?;
        let (word, span) = self.cur.word("the format of the scales")?;
        let scale = self.dtype(word, span)?;
        let (zero, singles) = self.beside_scales()?;
        let (batch, span) =
            self.cur.name(Token::Name, "`@` and the number of leading dimensions")?;
        let batch = self.cur.number_in(span, &batch)?;
        self.cur.expect(Token::Colon, "`:` and the first dimension of the columns")?;
        let span = self.cur.expect(Token::Int, "the first dimension of the columns")?;
        let split = self.cur.number_in(span, self.cur.text(span))?;
        let blocks = BlockScale { rows, cols, batch, split, scale, zero, singles };
        Ok(Elem { dtype, blocks: Some(blocks) })
    }

    /// The format of zero points and the count of single numbers, each after a `:`.
    fn beside_scales(&mut self) -> Read<(Option<DType>, u8)> {
        let (mut zero, mut more) = (None, self.cur.eat(Token::Colon));
        if more && self.cur.peek() != Token::Int {
            let (word, span) = self.cur.word("the format of zero points, or a count")?;
            zero = Some(self.dtype(word, span)?);
            more = self.cur.eat(Token::Colon);
        }
        let singles = match more {
            true => {
                let span =
                    self.cur.expect(Token::Int, "how many numbers each matrix has besides")?;
                self.cur.number_in(span, self.cur.text(span))?
            }
            false => 0,
        };
        Ok((zero, singles))
    }

    fn dtype(&mut self, name: &str, span: Span) -> Read<DType> {
        DType::from_name(name).ok_or_else(|| {
            let names = DType::TABLE.iter().map(|row| row.1);
            let help = match nearest(name, names.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the element types are {}", names.collect::<Vec<_>>().join(", ")),
            };
            let message = format!("`{name}` is no element type");
            self.cur.error(codes::UNKNOWN_DTYPE, span, message, &help)
        })
    }

    /// A layout after `@`.
    fn sharding(&mut self) -> Read<Sharding> {
        self.cur.expect(Token::LBracket, "`[`")?;
        let entries = self.cur_list(Token::RBracket, "]", Self::dim_sharding)?;
        let (axes, mut dims): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
        if dims.iter().all(|d| *d == DimAnnotation::default()) {
            dims.clear();
        }
        let replicated = if self.cur.eat_word("replicated") { self.axes()? } else { Vec::new() };
        let mut unreduced = Vec::new();
        if self.cur.eat_word("unreduced") {
            self.cur.expect(Token::LBracket, "`[`")?;
            unreduced = self.cur_list(Token::RBracket, "]", Self::partial)?;
        }
        Ok(Sharding { layout: Layout { dims: axes, unreduced }, dims, replicated })
    }

    /// `{"x", "y", ?}p1`.
    fn dim_sharding(&mut self) -> Read<(Vec<AxisRef>, DimAnnotation)> {
        self.cur.expect(Token::LBrace, "`{`")?;
        let mut open = false;
        let entries = self.cur_list(Token::RBrace, "}", |p| {
            if open {
                return Err(p.cur.unexpected("`}` after `?`"));
            }
            open = p.cur.eat(Token::Question);
            if open { Ok(None) } else { p.axis().map(Some) }
        })?;
        let axes = entries.into_iter().flatten().collect();
        Ok((axes, DimAnnotation { open, priority: self.priority()? }))
    }

    fn priority(&mut self) -> Read<Option<u32>> {
        let span = self.cur.here();
        let digits = self.cur.text(span).strip_prefix('p').unwrap_or_default();
        let found = self.cur.peek() == Token::Word
            && !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit());
        if !found {
            return Ok(None);
        }
        self.cur.bump();
        self.cur.number_in(span, digits).map(Some)
    }

    /// `sum {"x"}`.
    fn partial(&mut self) -> Read<Partial> {
        let kind = ReduceKind::from_name(self.cur.text(self.cur.here()));
        let Some(kind) = kind.filter(|_| self.cur.peek() == Token::Word) else {
            return Err(self.cur.unexpected("`sum`, `max`, `argmax` or `lse`"));
        };
        self.cur.bump();
        Ok(Partial { kind, axes: self.axes()? })
    }

    /// `{"x", "y":(2)4}`.
    pub(super) fn axes(&mut self) -> Read<Vec<AxisRef>> {
        self.cur.expect(Token::LBrace, "`{`")?;
        self.cur_list(Token::RBrace, "}", Self::axis)
    }

    fn axis(&mut self) -> Read<AxisRef> {
        let (name, span) = self.cur.string("the name of an axis in quotes")?;
        let axis = self.module.mesh.as_ref().and_then(|m| m.axis(&name));
        let Some(axis) = axis else { return Err(self.unknown_axis(&name, span)) };
        if !self.cur.eat(Token::Colon) {
            return Ok(AxisRef::whole(axis));
        }
        self.cur.expect(Token::LParen, "`(`")?;
        let pre = self.cur.number("the factor to skip")?;
        self.cur.expect(Token::RParen, "`)`")?;
        Ok(AxisRef::part(axis, pre, self.cur.number("the size of the part")?))
    }

    fn unknown_axis(&mut self, name: &str, span: Span) -> Reported {
        let Some(mesh) = &self.module.mesh else {
            let help = format!("declare one before its use: `mesh @m = <[\"{name}\"=8]>`");
            let message = "a layout is given, but no mesh is declared";
            return self.cur.error(codes::UNKNOWN_AXIS, span, message, &help);
        };
        let names: Vec<_> = mesh.axes.iter().map(|a| format!("\"{}\"", a.name)).collect();
        let help = format!("mesh @{} has {}", mesh.name, names.join(", "));
        let message = format!("the mesh has no axis \"{name}\"");
        self.cur.error(codes::UNKNOWN_AXIS, span, message, &help)
    }
}
