//! Error codes of verification.

use shardc_ir::codes;
use shardc_ir::diag::Diagnostic;

codes! {
    /// A plan's programs are not those that the compiler writes.
    PROGRAMS = "C001", User, "the programs of a plan do not belong together";
    /// A program computes something else than the model.
    DIFFERS = "C002", Internal, "a program of a plan computes something else than the model";
    /// A program breaks when it runs at reduced sizes.
    BREAKS = "C003", Internal, "a program of a plan does not run";
    /// The local program is not what its passes make of the one before.
    STALE = "C004", User, "a local program is not what the program before it lowers to";
}

/// `C001` with a cause.
pub(crate) fn unrelated(cause: impl Into<String>) -> Box<Diagnostic> {
    let help = "compile the model again with `shardc compile MODEL -o DIR`";
    Box::new(Diagnostic::error(PROGRAMS, cause.into()).help(help))
}
