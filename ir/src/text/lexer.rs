//! Tokens of the text, and the one-token window through which the parser sees them.

use crate::diag::Span;
use logos::Logos;

/// A kind of token.
#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(skip r"[ \t\r\n\f\u{FEFF}]+")]
#[logos(skip r";[^\n]*")]
pub(crate) enum Token {
    /// `func`, `dot`, `bf16`, `f8e4m3/128x128`.
    #[regex(r"[A-Za-z_][A-Za-z0-9_./-]*")]
    Word,
    /// `%x`, `%0`, `%"two words"`.
    #[regex(r"%[A-Za-z0-9_][A-Za-z0-9_./-]*")]
    #[regex(r#"%"([^"\\\n]|\\[^\n])*""#)]
    Percent,
    /// `@layer`, `@"two words"`.
    #[regex(r"@[A-Za-z0-9_][A-Za-z0-9_./-]*")]
    #[regex(r#"@"([^"\\\n]|\\[^\n])*""#)]
    Name,
    /// `"gpu"`.
    #[regex(r#""([^"\\\n]|\\[^\n])*""#)]
    Str,
    /// `61`, `-1`.
    #[regex(r"-?[0-9]+")]
    Int,
    /// `0.5`, `1e-6`, `-inf`.
    #[regex(r"-?[0-9]+\.[0-9]+([eE][+-]?[0-9]+)?")]
    #[regex(r"-?[0-9]+[eE][+-]?[0-9]+")]
    #[token("-inf")]
    Float,
    /// `@` before a layout.
    #[token("@")]
    At,
    #[token("->")]
    Arrow,
    #[token("..")]
    DotDot,
    #[token("=")]
    Equals,
    #[token(",")]
    Comma,
    #[token(":")]
    Colon,
    #[token("*")]
    Star,
    #[token("?")]
    Question,
    #[token("(")]
    LParen,
    #[token(")")]
    RParen,
    #[token("[")]
    LBracket,
    #[token("]")]
    RBracket,
    #[token("{")]
    LBrace,
    #[token("}")]
    RBrace,
    #[token("<")]
    Less,
    #[token(">")]
    Greater,
    /// Text that is no token.
    Bad,
    /// The end of the source.
    End,
}

/// The next token and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) span: Span,
    /// Whether it is the first of its line; errors are skipped up to such a token.
    pub(crate) opens_line: bool,
}

/// Hands out tokens one by one, in time linear in the source.
pub(crate) struct Lexer<'s> {
    inner: logos::Lexer<'s, Token>,
}

impl<'s> Lexer<'s> {
    pub(crate) fn new(source: &'s str) -> Self {
        Lexer { inner: Token::lexer(source) }
    }

    /// The next token; after the last one, `End` forever.
    pub(crate) fn next(&mut self) -> Lexeme {
        let source = self.inner.source();
        let before = self.inner.span().end;
        let token = match self.inner.next() {
            None => Token::End,
            Some(Ok(token)) => token,
            Some(Err(())) => {
                self.skip_open_string();
                Token::Bad
            }
        };
        let span = self.inner.span();
        let (start, end) =
            if token == Token::End { (source.len(), source.len()) } else { (span.start, span.end) };
        let gap = source.get(before..start).unwrap_or_default();
        let opens_line = before == 0 || gap.contains('\n');
        Lexeme { token, span: Span::new(start, end), opens_line }
    }

    /// Takes a string that does not end to the end of its line, so that it is read once only.
    fn skip_open_string(&mut self) {
        if self.inner.slice().trim_start_matches(['%', '@']).starts_with('"') {
            let rest = self.inner.remainder();
            self.inner.bump(rest.find('\n').unwrap_or(rest.len()));
        }
    }
}

/// Whether a name can be written after `%` or `@` without quotes.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(first) && name.chars().all(|c| first(c) || matches!(c, '.' | '/' | '-'))
}

/// Whether a text is a word of the grammar.
pub(crate) fn is_word(text: &str) -> bool {
    is_plain_name(text) && !text.starts_with(|c: char| c.is_ascii_digit())
}
