//! What the checks find, up to a limit.

use shardc_ir::diag::{Code, Diagnostic};

/// Most findings that are reported; one damage may be seen in many places.
pub(crate) const MAX: usize = 64;

/// Problems in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: Vec<Diagnostic>,
}

impl Findings {
    /// Reports a problem with a way out.
    pub(crate) fn add(&mut self, code: Code, message: impl Into<String>, help: &str) {
        if self.found.len() < MAX {
            self.found.push(Diagnostic::error(code, message.into()).help(help));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// `Ok` where nothing was found.
    pub(crate) fn into_result(self) -> Result<(), Vec<Diagnostic>> {
        if self.found.is_empty() { Ok(()) } else { Err(self.found) }
    }
}
