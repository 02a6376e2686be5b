//! Patterns: terms with variables.

use std::fmt;

/// A term with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Any term: `x`.
    Var(String),
    /// An operator by name: `all_gather[g](x)`.
    Op {
        /// Name of the operator.
        name: String,
        /// Attributes in the order of its table row; fewer stand for the first ones.
        attrs: Vec<AttrPattern>,
        /// Operands.
        args: Vec<Pattern>,
    },
    /// Any operator that has a sharding rule, seen through one operand: `f(.. x ..)`; or through
    /// none in particular: `f(..)`.
    Any {
        /// The operand in question, at any position.
        focus: Option<Box<Pattern>>,
        /// What becomes of the other operands, on a right side.
        others: Others,
    },
}

/// What becomes of the operands that a pattern `f(.. x ..)` does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Others {
    /// They stay: `..`.
    Same,
    /// They are sliced to what `f` needs: `..slice`.
    Slice,
    /// They are gathered to what `f` needs: `..gather`.
    Gather,
    /// Complete values become partial sums like the operand shown: `..partial`.
    Partial,
    /// Partial sums are completed like the operand shown: `..reduce`.
    Reduce,
}

impl Others {
    /// Every choice with its text.
    pub const NAMES: [(Others, &'static str); 5] = [
        (Others::Same, ""),
        (Others::Slice, "slice"),
        (Others::Gather, "gather"),
        (Others::Partial, "partial"),
        (Others::Reduce, "reduce"),
    ];
}

/// An attribute of an operator in a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttrPattern {
    /// One letter: any value, the same wherever it stands.
    Var(String),
    /// A word: that value.
    Word(String),
}

impl fmt::Display for Pattern {
    /// The text that reads back to the pattern.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Var(name) => f.write_str(name),
            Pattern::Op { name, attrs, args } => {
                f.write_str(name)?;
                if !attrs.is_empty() {
                    let attrs: Vec<&str> = attrs.iter().map(AttrPattern::text).collect();
                    write!(f, "[{}]", attrs.join(" "))?;
                }
                let args: Vec<String> = args.iter().map(Pattern::to_string).collect();
                write!(f, "({})", args.join(", "))
            }
            Pattern::Any { focus, others } => {
                let others = Others::NAMES[*others as usize].1;
                match focus {
                    None => write!(f, "f(..{others})"),
                    Some(focus) => write!(f, "f(..{others} {focus} ..)"),
                }
            }
        }
    }
}

impl AttrPattern {
    /// Variable or word.
    pub fn text(&self) -> &str {
        match self {
            AttrPattern::Var(text) | AttrPattern::Word(text) => text,
        }
    }
}

impl Pattern {
    /// Whether the operator variable `f` occurs.
    pub fn is_generic(&self) -> bool {
        match self {
            Pattern::Var(_) => false,
            Pattern::Any { .. } => true,
            Pattern::Op { args, .. } => args.iter().any(Pattern::is_generic),
        }
    }

    /// The variables that stand for terms, in order of appearance, each once.
    pub fn terms(&self) -> Vec<&str> {
        let mut out = Vec::new();
        self.visit(&mut |p| {
            if let Pattern::Var(name) = p
                && !out.contains(&name.as_str())
            {
                out.push(name.as_str());
            }
        });
        out
    }

    /// The variables that stand for attributes, in order of appearance, each once.
    pub fn attrs(&self) -> Vec<&str> {
        let mut out = Vec::new();
        self.visit(&mut |p| {
            let Pattern::Op { attrs, .. } = p else { return };
            for attr in attrs {
                if let AttrPattern::Var(name) = attr
                    && !out.contains(&name.as_str())
                {
                    out.push(name.as_str());
                }
            }
        });
        out
    }

    fn visit<'a>(&'a self, f: &mut impl FnMut(&'a Pattern)) {
        f(self);
        match self {
            Pattern::Var(_) => {}
            Pattern::Op { args, .. } => args.iter().for_each(|a| a.visit(f)),
            Pattern::Any { focus, .. } => focus.iter().for_each(|p| p.visit(f)),
        }
    }
}
