//! One model, written by `transformers` 4 and by 5, is one [`ModelSpec`].

mod common;

use common::{configs, read};
use std::path::Path;

#[test]
fn both_spellings_read_to_one_model() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/spellings");
    let files = configs(&folder);
    let v4: Vec<_> = files.iter().filter(|(name, _)| name.ends_with(".v4")).collect();
    assert_eq!(v4.len(), 9);
    for (name, text) in v4 {
        let newer = name.replace(".v4", ".v5");
        let (_, other) = files.iter().find(|(name, _)| *name == newer).unwrap();
        assert_eq!(read(text), read(other), "{name}");
    }
}
