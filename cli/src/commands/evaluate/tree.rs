//! A schedule in JSON as the tree that a schedule in TOML is.

use serde_json::Value;
use shardc_passes::schedule::tree::{Key, Node, Tree};

/// The tree of a JSON value.
pub fn from_json(value: &Value) -> Node {
    let tree = match value {
        Value::String(text) => Tree::Text(text.clone()),
        Value::Number(n) => match n.as_u64() {
            Some(n) => Tree::Whole(n),
            None => Tree::Other(format!("the number {n}")),
        },
        Value::Array(items) => Tree::List(items.iter().map(from_json).collect()),
        Value::Object(map) => {
            // `null` counts as absent, as everywhere in a question.
            let rows = map.iter().filter(|(_, value)| !value.is_null());
            Tree::Table(rows.map(|(k, v)| (Key::from(k.as_str()), from_json(v))).collect())
        }
        Value::Null => Tree::Other("null".to_string()),
        Value::Bool(b) => Tree::Other(format!("the value {b}")),
    };
    tree.into()
}
