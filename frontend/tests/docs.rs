//! The table of families in the documentation is the table in the source.
#![allow(clippy::unwrap_used, reason = "a test stops where a file is missing")]

use shardc_frontend::config::FAMILIES;
use std::fmt::Write;
use std::path::Path;

fn table() -> String {
    let mut text = String::from(
        "# Model families\n\n\
         What `shardc compile` reads from a `config.json`. `--assume NAME` reads a file as that \
         family whatever it says; [add-a-family.md](add-a-family.md) adds one.\n\n\
         | family | `model_type` | what sets it apart |\n|---|---|---|\n",
    );
    for family in FAMILIES {
        let types: Vec<String> = family.model_types.iter().map(|t| format!("`{t}`")).collect();
        let _ = writeln!(text, "| {} | {} | {} |", family.name, types.join(", "), family.summary);
    }
    text
}

#[test]
fn families_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/families.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, table()).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(current, table(), "run with UPDATE_DOCS=1 to rewrite docs/families.md");
}

#[test]
fn names_and_types_are_unique() {
    let mut names: Vec<&str> = FAMILIES.iter().map(|f| f.name).collect();
    let mut types: Vec<&str> = FAMILIES.iter().flat_map(|f| f.model_types).copied().collect();
    let (count, kinds) = (names.len(), types.len());
    names.sort_unstable();
    names.dedup();
    types.sort_unstable();
    types.dedup();
    assert_eq!((names.len(), types.len()), (count, kinds));
}
