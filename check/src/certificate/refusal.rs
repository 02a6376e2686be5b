//! Why a certificate does not hold, before it has a place.

use shardc_ir::diag::{Code, Diagnostic};

/// A condition that does not hold.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) code: Code,
    pub(super) message: String,
    pub(super) notes: Vec<String>,
}

/// What a condition gives.
pub(super) type Outcome<T = ()> = Result<T, Refusal>;

/// A refusal.
pub(super) fn refuse<T>(code: Code, message: impl Into<String>) -> Outcome<T> {
    Err(Refusal { code, message: message.into(), notes: Vec::new() })
}

impl Refusal {
    /// Adds a fact.
    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The diagnostic, with the place in front.
    pub(super) fn at(self, place: &str) -> Diagnostic {
        let message = format!("{place}: {}", self.message);
        let mut diagnostic = Diagnostic::error(self.code, message);
        diagnostic.notes = self.notes;
        diagnostic.help("compile the model again with `shardc compile MODEL -o DIR`; if that does not help, this is a bug in the compiler")
    }
}
