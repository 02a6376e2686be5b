//! What is wrong with a schedule: a diagnostic, and its parts for programs.

use shardc_ir::diag::Diagnostic;

/// A diagnostic about a decision, with what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// For people.
    pub diagnostic: Box<Diagnostic>,
    /// Phase or `both`, function and operator: `decode/layer/attn.q`.
    pub operator: Option<String>,
    /// A factor with the dimensions that carry it, or a dimension.
    pub dim: Option<String>,
    /// The axes that were asked for.
    pub axis: Option<String>,
    /// What could stand there instead.
    pub legal: Vec<String>,
}

/// What was read, or what is wrong with it.
pub type Checked<T> = std::result::Result<T, Box<Fault>>;

impl From<Box<Diagnostic>> for Box<Fault> {
    fn from(diagnostic: Box<Diagnostic>) -> Self {
        Box::new(Fault { diagnostic, operator: None, dim: None, axis: None, legal: Vec::new() })
    }
}

impl From<Diagnostic> for Box<Fault> {
    fn from(diagnostic: Diagnostic) -> Self {
        Box::new(diagnostic).into()
    }
}
