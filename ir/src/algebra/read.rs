//! Reading patterns.

use super::pattern::{AttrPattern, Others, Pattern};
use crate::ops::OpInfo;

/// The pattern that `text` stands for: a variable `x`, an operator `all_reduce[k X](x)`, or any
/// operator `f(..slice x ..)`.
///
/// # Errors
/// Says what was expected where.
pub fn read(text: &str) -> Result<Pattern, String> {
    let mut reader = Reader { rest: text };
    let pattern = reader.pattern()?;
    match reader.rest.trim() {
        "" => Ok(pattern),
        rest => Err(format!("`{rest}` follows the pattern `{pattern}`")),
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        match rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        match self.take(token) {
            true => Ok(()),
            false => Err(format!("`{token}` was expected before `{}`", self.rest.trim())),
        }
    }

    fn word(&mut self) -> Result<&'a str, String> {
        let rest = self.rest.trim_start();
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| !legal(c)).unwrap_or(rest.len());
        if end == 0 {
            return Err(format!("a name was expected before `{rest}`"));
        }
        self.rest = &rest[end..];
        Ok(&rest[..end])
    }

    fn pattern(&mut self) -> Result<Pattern, String> {
        let name = self.word()?;
        let attrs = if self.take("[") { self.attrs()? } else { Vec::new() };
        if !self.take("(") {
            return match OpInfo::find(name) {
                Some(_) => Err(format!("the operator `{name}` lacks its operands")),
                None => Ok(Pattern::Var(name.to_string())),
            };
        }
        if name == "f" {
            return self.any();
        }
        let info = OpInfo::find(name).ok_or_else(|| format!("no operator is called `{name}`"))?;
        if attrs.len() > info.keys.len() {
            return Err(format!("`{name}` has {} attributes", info.keys.len()));
        }
        let args = self.args()?;
        let (least, most) = info.operands;
        if args.len() < least || args.len() > most {
            return Err(format!("`{name}` takes {} operands", info.arity()));
        }
        Ok(Pattern::Op { name: name.to_string(), attrs, args })
    }

    fn attrs(&mut self) -> Result<Vec<AttrPattern>, String> {
        let mut out = Vec::new();
        while !self.take("]") {
            let word = self.word()?.to_string();
            out.push(if word.len() == 1 {
                AttrPattern::Var(word)
            } else {
                AttrPattern::Word(word)
            });
        }
        Ok(out)
    }

    fn args(&mut self) -> Result<Vec<Pattern>, String> {
        let mut out = Vec::new();
        if self.take(")") {
            return Ok(out);
        }
        loop {
            out.push(self.pattern()?);
            if self.take(")") {
                return Ok(out);
            }
            self.expect(",")?;
        }
    }

    /// `..)` or `..slice x ..)` after `f(`.
    fn any(&mut self) -> Result<Pattern, String> {
        self.expect("..")?;
        // What becomes of the others follows at once: `..slice x`, and not `.. slice(x)`.
        let named = Others::NAMES.iter().skip(1);
        let others = named.copied().find(|(_, name)| self.rest.starts_with(name));
        let (others, name) = others.unwrap_or((Others::Same, ""));
        self.rest = &self.rest[name.len()..];
        if self.take(")") {
            return Ok(Pattern::Any { focus: None, others });
        }
        let focus = Some(Box::new(self.pattern()?));
        self.expect("..")?;
        self.expect(")")?;
        Ok(Pattern::Any { focus, others })
    }
}
