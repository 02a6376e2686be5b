//! Programs that can be read: printing and reading them changes nothing.
//!
//! The snapshot of a case is its canonical text; shipped programs have none.

use shardc_ir::text::{parse, print};
use shardc_tests::{Outcome, snapshot};
use std::path::Path;

fn roundtrip(path: &Path, source: String) -> Outcome {
    let parsed = parse(&source);
    if let Some(problem) = parsed.diagnostics.first() {
        return Err(format!("{problem}").into());
    }
    let text = print(&parsed.module);
    let again = parse(&text);
    assert_eq!(again.diagnostics, [], "the printed text cannot be read");
    assert_eq!(again.module, parsed.module, "reading the printed text gives another module");
    assert_eq!(print(&again.module), text, "printing is no fixed point");
    if path.starts_with("files") {
        snapshot("roundtrip", path, &text);
    }
    Ok(())
}

datatest_stable::harness! {
    { test = roundtrip, root = "files/roundtrip", pattern = r"\.sir$" },
    { test = roundtrip, root = "../examples/programs", pattern = r"\.sir$" },
}
