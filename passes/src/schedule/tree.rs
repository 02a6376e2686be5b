//! The text of a schedule as a tree: TOML in files, JSON in requests, one reader for both.

use crate::codes;
use shardc_ir::diag::{Diagnostic, Result, Span};
use std::fmt::Write;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value, and where it stands in a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    /// What it is.
    pub tree: Tree,
    /// Where it stands.
    pub span: Option<Span>,
    /// What a reader of the text is told beside it.
    pub comment: Option<String>,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tree {
    /// A text.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// Values in order.
    List(Vec<Node>),
    /// Values by name, in order.
    Table(Vec<(Key, Node)>),
    /// Something that no schedule holds, in words.
    Other(String),
}

/// A name, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The name.
    pub name: String,
    /// Where it stands.
    pub span: Option<Span>,
}

/// Longest schedule that is read, bytes.
const MAX_TEXT: usize = 4 << 20;

impl From<Tree> for Node {
    fn from(tree: Tree) -> Node {
        Node { tree, span: None, comment: None }
    }
}

impl From<&str> for Key {
    fn from(name: &str) -> Key {
        Key { name: name.to_string(), span: None }
    }
}

impl Tree {
    /// What the value is, in words.
    pub fn kind(&self) -> &str {
        match self {
            Tree::Text(_) => "a text",
            Tree::Whole(_) => "a whole number",
            Tree::List(_) => "a list",
            Tree::Table(_) => "a table",
            Tree::Other(what) => what,
        }
    }
}

impl Node {
    /// Reads TOML.
    ///
    /// # Errors
    /// `S120` where the text is none, or too long.
    pub fn parse(text: &str) -> Result<Node> {
        if text.len() > MAX_TEXT {
            let message = format!("a schedule of {} bytes is too large", text.len());
            let help = format!("keep it under {MAX_TEXT} bytes");
            return Err(Box::new(Diagnostic::error(codes::SCHEDULE_TEXT, message).help(help)));
        }
        let root = DeTable::parse(text).map_err(|error| {
            let message = format!("not valid TOML: {}", error.message().trim());
            let problem = Diagnostic::error(codes::SCHEDULE_TEXT, message);
            Box::new(match error.span() {
                Some(range) => problem.at(span(range), "here"),
                None => problem,
            })
        })?;
        let at = Some(span(root.span()));
        Ok(Node { tree: table(root.get_ref()), span: at, comment: None })
    }

    /// The value of a name, where this is a table that has it.
    pub fn get(&self, name: &str) -> Option<&Node> {
        let Tree::Table(rows) = &self.tree else { return None };
        rows.iter().find(|(key, _)| key.name == name).map(|(_, node)| node)
    }

    /// The text of a table as TOML: values first, then tables of tables, innermost tables in one
    /// line.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        let Tree::Table(rows) = &self.tree else { return out };
        let (tables, values): (Vec<_>, Vec<_>) =
            rows.iter().partition(|(_, node)| matches!(node.tree, Tree::Table(_)));
        write_rows(&mut out, &values);
        for (key, node) in tables {
            write_table(&mut out, &show_key(&key.name), node);
        }
        out
    }
}

fn span(range: Range<usize>) -> Span {
    Span::new(range.start, range.end)
}

/// Rows in the order of the text.
fn table(rows: &DeTable<'_>) -> Tree {
    let mut out: Vec<(Key, Node)> = rows
        .iter()
        .map(|(name, value)| {
            let key = Key { name: name.get_ref().to_string(), span: Some(span(name.span())) };
            (key, node(value))
        })
        .collect();
    out.sort_by_key(|(key, _)| key.span);
    Tree::Table(out)
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    let tree = match value.get_ref() {
        DeValue::String(text) => Tree::Text(text.to_string()),
        DeValue::Integer(n) => match u64::from_str_radix(n.as_str(), n.radix()) {
            Ok(n) => Tree::Whole(n),
            Err(_) => Tree::Other(format!("the number {}", n.as_str())),
        },
        DeValue::Array(items) => Tree::List(items.iter().map(node).collect()),
        DeValue::Table(rows) => table(rows),
        other => Tree::Other(format!("a {}", other.type_str())),
    };
    Node { tree, span: Some(span(value.span())), comment: None }
}

fn write_table(out: &mut String, path: &str, node: &Node) {
    let Tree::Table(rows) = &node.tree else { return };
    let sections = rows.iter().all(|(_, n)| matches!(n.tree, Tree::Table(_)));
    if sections && !path.contains('.') {
        for (key, node) in rows {
            write_table(out, &format!("{path}.{}", show_key(&key.name)), node);
        }
        return;
    }
    let comment = node.comment.as_ref().map_or(String::new(), |c| format!("  # {c}"));
    let _ = writeln!(out, "\n[{path}]{comment}");
    write_rows(out, &rows.iter().collect::<Vec<_>>());
}

/// Rows with their comments below each other.
fn write_rows(out: &mut String, rows: &[&(Key, Node)]) {
    let lines: Vec<(String, &Option<String>)> = rows
        .iter()
        .map(|(key, node)| (format!("{} = {}", show_key(&key.name), inline(node)), &node.comment))
        .collect();
    let short = lines.iter().map(|(line, _)| line.chars().count()).filter(|n| *n <= 48);
    let width = short.max().unwrap_or(0);
    for (line, comment) in lines {
        let _ = match comment.as_ref().filter(|c| !c.is_empty()) {
            Some(comment) => writeln!(out, "{line:width$}  # {comment}"),
            None => writeln!(out, "{line}"),
        };
    }
}

fn inline(node: &Node) -> String {
    match &node.tree {
        Tree::Text(text) | Tree::Other(text) => quoted(text),
        Tree::Whole(n) => n.to_string(),
        Tree::List(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Tree::Table(rows) if rows.is_empty() => "{}".to_string(),
        Tree::Table(rows) => {
            let row =
                |(key, node): &(Key, Node)| format!("{} = {}", show_key(&key.name), inline(node));
            let rows: Vec<String> = rows.iter().map(row).collect();
            format!("{{ {} }}", rows.join(", "))
        }
    }
}

/// A key as TOML writes it: bare where it can.
fn show_key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_string() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops where a text is none")]
mod tests {
    use super::*;

    fn strip(node: &Node) -> Node {
        let tree = match &node.tree {
            Tree::List(items) => Tree::List(items.iter().map(strip).collect()),
            Tree::Table(rows) => Tree::Table(
                rows.iter().map(|(k, n)| (Key::from(k.name.as_str()), strip(n))).collect(),
            ),
            other => other.clone(),
        };
        tree.into()
    }

    #[test]
    fn texts_and_trees_are_the_same() {
        let text = "degrees = \"tp=2\"\nstages = [3, 4]\n\n[both.layer]\n\
                    \"a.b\" = { k = \"x\", via = { 0 = [\"[{}]\"] } }\n\"odd \\\" key\" = {}\n";
        let tree = strip(&Node::parse(text).unwrap());
        assert_eq!(strip(&Node::parse(&tree.to_toml()).unwrap()), tree);
    }

    #[test]
    fn places_are_those_of_the_text() {
        let text = "a = 1\n[b.c]\nd = -1\n";
        let tree = Node::parse(text).unwrap();
        let d = tree.get("b").unwrap().get("c").unwrap().get("d").unwrap();
        let at = d.span.unwrap();
        assert_eq!(&text[at.start as usize..at.end as usize], "-1");
        assert_eq!(d.tree, Tree::Other("the number -1".to_string()));
        assert!(Node::parse("a = ").unwrap_err().primary.is_some());
    }
}
