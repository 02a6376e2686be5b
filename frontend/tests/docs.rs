//! The table of families in the documentation is the table in the source.
#![allow(clippy::unwrap_used, reason = "a test stops where a file is missing")]

use shardc_frontend::config::{FAMILIES, REFUSED};
use std::fmt::Write;
use std::path::Path;

fn table() -> String {
    let mut text = String::from(
        "# Model families\n\n\
         What `shardc compile` reads from a `config.json`. `--assume NAME` reads a file as that \
         family whatever it says; [add-a-family.md](add-a-family.md) adds one.\n\n\
         | family | `model_type` | what sets it apart |\n|---|---|---|\n",
    );
    let types = |types: &[&str]| -> String {
        types.iter().map(|t| format!("`{t}`")).collect::<Vec<_>>().join(", ")
    };
    for family in FAMILIES {
        let (name, summary) = (family.name, family.summary);
        let _ = writeln!(text, "| {name} | {} | {summary} |", types(family.model_types));
    }
    text.push_str(
        "\n## Known, and refused\n\n\
         A model with a block that has no operator is refused: the error names the block, the \
         layers that hold it and the key that says so, and of Qwen 3 Next, Qwen 3.5, Nemotron-H, \
         Nemotron 3, Granite 4 and Bamba what the model weighs. Models of a type that stands above too are read \
         when none of their layers holds the block.\n\n\
         | `model_type` | block |\n|---|---|\n",
    );
    for row in REFUSED {
        let _ = writeln!(text, "| {} | {} |", types(row.model_types), row.block);
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
