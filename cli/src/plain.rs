//! Diagnostics as plain text: message, place with its line, notes, help.

use crate::input::Source;
use shardc_ir::diag::{Diagnostic, Label};
use std::fmt::Write;

/// Longest part of a source line that is shown, in characters.
const WINDOW: usize = 88;

/// The text of a diagnostic, ending in a line break.
pub fn render(diagnostic: &Diagnostic, source: Option<&Source>) -> String {
    let mut out = format!("{diagnostic}\n");
    if let (Some(label), Some(source)) = (&diagnostic.primary, source) {
        place(&mut out, label, source);
    }
    for note in &diagnostic.notes {
        let _ = writeln!(out, "  = note: {note}");
    }
    if let Some(help) = &diagnostic.help {
        let _ = writeln!(out, "  = help: {help}");
    }
    out
}

fn place(out: &mut String, label: &Label, source: &Source) {
    let (start, end) = (label.span.start as usize, label.span.end as usize);
    let (number, column) = source.line_and_column(start);
    let _ = writeln!(out, "  --> {}:{number}:{column}", source.name);
    let line = source.text.lines().nth(number - 1).unwrap_or_default();
    let skip = (column - 1).saturating_sub(WINDOW / 2);
    let shown: String = line.chars().skip(skip).take(WINDOW).collect();
    let shown: String = shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let width =
        source.text.get(start..end).map_or(1, |t| t.lines().next().unwrap_or("").chars().count());
    let before = column - 1 - skip;
    let carets = width.clamp(1, shown.chars().count().saturating_sub(before).max(1));
    let gutter = number.to_string();
    let space = " ".repeat(gutter.len());
    let _ = writeln!(out, "{space} |\n{gutter} | {shown}");
    let mark = format!("{space} | {}{} {}", " ".repeat(before), "^".repeat(carets), label.message);
    let _ = writeln!(out, "{}", mark.trim_end());
}
