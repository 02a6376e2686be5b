//! Diagnostics as a person sees them: the snapshot is the rendered report, without colours.

use shardc_tests::{Outcome, findings, snapshot};
use std::path::Path;

fn diag(path: &Path, source: String) -> Outcome {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let found = findings(&source);
    let rendered: Vec<String> = found
        .iter()
        .map(|d| shardc::render::render(d, Some((&name, &source)), shardc::render::Style::Plain))
        .collect();
    snapshot("diag", path, &rendered.join("\n"));
    Ok(())
}

datatest_stable::harness! {
    { test = diag, root = "files/diag", pattern = r"\.sir$" },
}
