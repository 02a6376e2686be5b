//! How a command fails: diagnostics with the text they point into.

use crate::input::Source;
use crate::output;
use serde_json::{Value, json};
use shardc::render::{Style, render};
use shardc_ir::diag::{Diagnostic, Label};

/// What stopped a command.
#[derive(Debug)]
pub struct Failure {
    /// At least one.
    diagnostics: Vec<Diagnostic>,
    /// The text that they point into.
    source: Option<Source>,
}

/// What a command comes to.
pub type Outcome<T = ()> = Result<T, Failure>;

impl From<Box<Diagnostic>> for Failure {
    fn from(diagnostic: Box<Diagnostic>) -> Self {
        Failure { diagnostics: vec![*diagnostic], source: None }
    }
}

impl From<Vec<Diagnostic>> for Failure {
    /// Of at least one diagnostic.
    fn from(diagnostics: Vec<Diagnostic>) -> Self {
        Failure { diagnostics, source: None }
    }
}

/// Says which text the diagnostics of a result point into.
pub trait InSource<T> {
    /// The same result with its text.
    fn in_source(self, source: &Source) -> Outcome<T>;
}

impl<T> InSource<T> for shardc_ir::diag::Result<T> {
    fn in_source(self, source: &Source) -> Outcome<T> {
        self.map_err(|d| Failure::from(d).within(source))
    }
}

impl Failure {
    /// The same failure, pointing into a text.
    pub fn within(self, source: &Source) -> Self {
        Failure { source: Some(source.clone()), ..self }
    }

    /// This failure, then what else is wrong.
    pub fn and(mut self, other: Failure) -> Self {
        let same = self.source.as_ref().map(|s| &s.name) == other.source.as_ref().map(|s| &s.name);
        self.diagnostics.extend(other.diagnostics.into_iter().map(|d| match same {
            true => d,
            false => Diagnostic { primary: None, secondary: Vec::new(), ..d },
        }));
        self
    }

    /// What is wrong first.
    pub fn first(&self) -> Option<&Diagnostic> {
        self.diagnostics.first()
    }

    /// Renders the failure on standard error, with `json` as an object on standard output too, and
    /// says how the process exits.
    pub fn report(&self, json: bool) -> u8 {
        for diagnostic in &self.diagnostics {
            let source = self.source.as_ref().map(|s| (s.name.as_str(), s.text.as_str()));
            output::complain(&format!("{}\n", render(diagnostic, source, Style::of_stderr())));
        }
        if json {
            output::print(&self.to_json()).ok();
        }
        self.diagnostics.first().map_or(0, |d| d.code.class.exit_code())
    }

    /// `{"error": {"code", "message", "place", "notes", "help"}}` of the first diagnostic.
    pub fn to_json(&self) -> String {
        let error = self.diagnostics.first().map(|d| to_json(d, self.source.as_ref()));
        format!("{:#}\n", json!({ "error": error }))
    }
}

/// A diagnostic as an object; `place` and `help` only where there are any.
pub fn to_json(diagnostic: &Diagnostic, source: Option<&Source>) -> Value {
    let mut out = json!({"code": diagnostic.code.id, "message": diagnostic.message});
    if let (Some(label), Some(source)) = (&diagnostic.primary, source) {
        out["place"] = place(label, source);
    }
    out["notes"] = json!(diagnostic.notes);
    if let Some(help) = &diagnostic.help {
        out["help"] = json!(help);
    }
    out
}

fn place(label: &Label, source: &Source) -> Value {
    let (line, column) = source.line_and_column(label.span.start as usize);
    json!({"file": source.name, "line": line, "column": column, "remark": label.message})
}
