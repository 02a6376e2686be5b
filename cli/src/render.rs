//! Diagnostics as text for a person: the message, the place in the source, notes and the way out.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use shardc_ir::diag::{Diagnostic, Label, Severity};
use std::io::IsTerminal;
use std::ops::Range;

/// Whether the text carries colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Plain characters, for files and pipes.
    Plain,
    /// ANSI colours, for a terminal.
    Colour,
}

impl Style {
    /// Colours if standard error is a terminal and `NO_COLOR` is not set.
    pub fn of_stderr() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        if wanted && std::io::stderr().is_terminal() { Style::Colour } else { Style::Plain }
    }
}

/// Renders a diagnostic; `source` is the name and the text that its spans point into. Without a
/// source the places are left out.
///
/// The text does not end in a line break.
pub fn render(diagnostic: &Diagnostic, source: Option<(&str, &str)>, style: Style) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(&*diagnostic.message).id(diagnostic.code.id);
    let mut group = Group::with_title(title);
    if let (Some((name, text)), Some(primary)) = (source, &diagnostic.primary) {
        let mut snippet = Snippet::source(text).path(name);
        snippet = snippet.annotation(annotation(AnnotationKind::Primary, primary, text));
        for label in &diagnostic.secondary {
            snippet = snippet.annotation(annotation(AnnotationKind::Context, label, text));
        }
        group = group.element(snippet);
    }
    for note in &diagnostic.notes {
        group = group.element(Level::NOTE.message(&**note));
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(&**help));
    }
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Colour => Renderer::styled(),
    };
    renderer.render(&[group])
}

fn annotation<'a>(
    kind: AnnotationKind,
    label: &'a Label,
    text: &str,
) -> annotate_snippets::Annotation<'a> {
    let annotation = kind.span(within(label, text));
    if label.message.is_empty() { annotation } else { annotation.label(&*label.message) }
}

/// The span of a label, brought inside of the text and onto the bounds of characters.
fn within(label: &Label, text: &str) -> Range<usize> {
    let bound = |at: u32| {
        let at = (at as usize).min(text.len());
        (0..=at).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
    };
    let (start, end) = (bound(label.span.start), bound(label.span.end));
    start..end.max(start)
}
