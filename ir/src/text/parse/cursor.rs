//! One token of lookahead, expectations, and the diagnostics reported so far.

use crate::diag::{Code, Diagnostic, Span};
use crate::text::codes;
use crate::text::lexer::{Lexeme, Lexer, Token};

/// Reading stops after this many errors.
pub(super) const MAX_ERRORS: usize = 64;

/// An error has been reported; the caller skips to a place where reading can go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported;

/// What reading a part of the text gives.
pub(super) type Read<T> = Result<T, Reported>;

/// The parser's view of the source.
pub(super) struct Cursor<'s> {
    pub(super) source: &'s str,
    lexer: Lexer<'s>,
    next: Lexeme,
    last_end: u32,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl<'s> Cursor<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        let mut lexer = Lexer::new(source);
        let next = lexer.next();
        Cursor { source, lexer, next, last_end: 0, diagnostics: Vec::new() }
    }

    /// The next token, not taken.
    pub(super) fn peek(&self) -> Token {
        self.next.token
    }

    /// Where the next token stands.
    pub(super) fn here(&self) -> Span {
        self.next.span
    }

    /// Whether the next token is the first of its line.
    pub(super) fn opens_line(&self) -> bool {
        self.next.opens_line
    }

    /// From `start` to the end of the last token taken.
    pub(super) fn since(&self, start: Span) -> Span {
        Span { start: start.start, end: self.last_end.max(start.start) }
    }

    /// Takes the next token.
    pub(super) fn bump(&mut self) -> Span {
        let span = self.next.span;
        self.last_end = span.end;
        self.next = self.lexer.next();
        span
    }

    /// The text of a span.
    pub(super) fn text(&self, span: Span) -> &'s str {
        self.source.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    /// Whether the next token is this word.
    pub(super) fn at_word(&self, word: &str) -> bool {
        self.peek() == Token::Word && self.text(self.here()) == word
    }

    /// Takes the next token if it is of this kind.
    pub(super) fn eat(&mut self, token: Token) -> bool {
        let found = self.peek() == token;
        if found {
            self.bump();
        }
        found
    }

    /// Takes the next token if it is this word.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.bump();
        }
        found
    }

    /// Takes a token of this kind, or reports that `what` was expected.
    pub(super) fn expect(&mut self, token: Token, what: &str) -> Read<Span> {
        if self.peek() == token { Ok(self.bump()) } else { Err(self.unexpected(what)) }
    }

    /// Takes this word.
    pub(super) fn expect_word(&mut self, word: &str) -> Read<Span> {
        if self.at_word(word) {
            Ok(self.bump())
        } else {
            Err(self.unexpected(&format!("`{word}`")))
        }
    }

    /// Takes a word.
    pub(super) fn word(&mut self, what: &str) -> Read<(&'s str, Span)> {
        let span = self.expect(Token::Word, what)?;
        Ok((self.text(span), span))
    }

    /// Takes a whole number.
    pub(super) fn number(&mut self, what: &str) -> Read<u64> {
        let span = self.expect(Token::Int, what)?;
        self.number_in(span, self.text(span))
    }

    /// Reads a whole number from `digits`, which stand at `span`.
    pub(super) fn number_in<T: std::str::FromStr>(&mut self, span: Span, digits: &str) -> Read<T> {
        let message = "a number is out of range";
        digits.parse().map_err(|_| {
            let bits = 8 * size_of::<T>();
            self.error(codes::NUMBER, span, message, &format!("not a whole number of {bits} bits"))
        })
    }

    /// Takes a name after `%` or `@`, without its sign and quotes.
    pub(super) fn name(&mut self, token: Token, what: &str) -> Read<(String, Span)> {
        let span = self.expect(token, what)?;
        let body = self.text(span).get(1..).unwrap_or_default();
        if body.starts_with('"') {
            return Ok((self.unquote(body, span)?, span));
        }
        Ok((body.to_string(), span))
    }

    /// Takes a string.
    pub(super) fn string(&mut self, what: &str) -> Read<(String, Span)> {
        let span = self.expect(Token::Str, what)?;
        Ok((self.unquote(self.text(span), span)?, span))
    }

    fn unquote(&mut self, quoted: &str, span: Span) -> Read<String> {
        let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
        let mut out = String::with_capacity(inner.len());
        let mut chars = inner.chars();
        while let Some(c) = chars.next() {
            let plain = if c == '\\' { unescape(&mut chars) } else { Some(c) };
            let Some(plain) = plain else {
                let help = "the escapes are \\\\ \\\" \\n \\t \\r and \\u{hex}";
                return Err(self.error(codes::STRING, span, "unknown escape in a string", help));
            };
            out.push(plain);
        }
        Ok(out)
    }

    /// Reports that something else was expected here.
    pub(super) fn unexpected(&mut self, what: &str) -> Reported {
        let span = self.here();
        let text = self.text(span);
        if self.peek() == Token::Bad {
            return self.bad_token(span, text);
        }
        let found: String = text.chars().take(24).collect();
        let found = if self.peek() == Token::End { "the end".into() } else { format!("`{found}`") };
        let message = format!("expected {what}, found {found}");
        self.report(Diagnostic::error(codes::SYNTAX, message).at(span, ""))
    }

    fn bad_token(&mut self, span: Span, text: &str) -> Reported {
        if text.trim_start_matches(['%', '@']).starts_with('"') {
            let help = "write `\"` at its end, on the same line";
            return self.error(codes::STRING, span, "a string does not end on its line", help);
        }
        let shown: String = text.chars().take(8).collect();
        let message = format!("`{}` has no meaning here", shown.escape_debug());
        self.report(Diagnostic::error(codes::CHARACTER, message).at(span, ""))
    }

    /// Reports an error with a way out.
    pub(super) fn error(
        &mut self,
        code: Code,
        span: Span,
        message: impl Into<String>,
        help: &str,
    ) -> Reported {
        self.report(Diagnostic::error(code, message).at(span, "").help(help))
    }

    /// Keeps a diagnostic.
    pub(super) fn report(&mut self, diagnostic: Diagnostic) -> Reported {
        if self.diagnostics.len() < MAX_ERRORS {
            self.diagnostics.push(diagnostic);
        }
        Reported
    }

    /// Whether reading should stop: the end, or too many errors.
    pub(super) fn done(&self) -> bool {
        self.peek() == Token::End || self.diagnostics.len() >= MAX_ERRORS
    }
}

/// The character that an escape stands for; `chars` stand after the backslash.
fn unescape(chars: &mut std::str::Chars<'_>) -> Option<char> {
    Some(match chars.next()? {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        c @ ('"' | '\\') => c,
        'u' => {
            let (hex, rest) = chars.as_str().strip_prefix('{')?.split_once('}')?;
            *chars = rest.chars();
            u32::from_str_radix(hex, 16).ok().and_then(char::from_u32)?
        }
        _ => return None,
    })
}
