//! What the data-driven tests share: reading a case, and comparing it with its snapshot.
//!
//! Every kind of test has a harness in `tests/`, its cases in `files/KIND/` and its snapshots in
//! `snapshots/KIND/`. A case is a file, so that a new one needs no recompile. `README.md` says how
//! to add one and how to accept snapshots.

pub mod algebra;
pub mod checkpoint;
pub mod damage;
pub mod forge;
pub mod golden;
pub mod mistakes;
pub mod pins;
pub mod plan;
pub mod program;
pub mod random;
pub mod ranks;

use shardc_ir::diag::{Diagnostic, Span};
use shardc_ir::text::{Parsed, parse};
use shardc_ir::verify::verify_text;
use std::path::Path;

/// The result of a case; the error is what the test prints.
pub type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Compares `text` with the snapshot of the case at `path`, `snapshots/KIND/STEM.snap`.
pub fn snapshot(kind: &str, path: &Path, text: &str) {
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(format!("{}/snapshots/{kind}", env!("CARGO_MANIFEST_DIR")));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(stem, text));
}

/// Everything that reading and verifying a source reports, in order of place.
pub fn findings(source: &str) -> Vec<Diagnostic> {
    let Parsed { module, spans, diagnostics } = parse(source);
    if !diagnostics.is_empty() {
        return diagnostics;
    }
    let mut found = verify_text(&module, &spans).err().unwrap_or_default();
    found.sort_by_key(|d| place(d).start);
    found
}

/// Where a diagnostic points; the start of the source if it points nowhere.
pub fn place(diagnostic: &Diagnostic) -> Span {
    diagnostic.primary.as_ref().map(|label| label.span).unwrap_or_default()
}

/// The number of the line that holds the byte `at`, from 1.
pub fn line_of(source: &str, at: u32) -> usize {
    1 + source.bytes().take(at as usize).filter(|&b| b == b'\n').count()
}
