//! Diagnostics as text for a person: the message, the place in the source, notes and the way out.

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
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

/// Longest line that is shown, in bytes; of a longer one only the place is given.
const LONGEST_LINE: usize = 4096;

/// Labels further apart than this many bytes are shown one by one.
const FAR: usize = 1 << 16;

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
    if let (Some(source), Some(primary)) = (source, &diagnostic.primary) {
        group = places(group, source, primary, &diagnostic.secondary);
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

/// Adds the lines that the labels point at.
fn places<'a>(
    mut group: Group<'a>,
    (name, text): (&'a str, &'a str),
    primary: &'a Label,
    secondary: &'a [Label],
) -> Group<'a> {
    let near = |label: &&Label| primary.span.start.abs_diff(label.span.start) as usize <= FAR;
    let (close, far): (Vec<&Label>, Vec<&Label>) = secondary.iter().partition(near);
    let mut together = vec![(AnnotationKind::Primary, primary)];
    together.extend(close.into_iter().map(|label| (AnnotationKind::Context, label)));
    group = place(group, name, text, &together);
    for label in far {
        group = place(group, name, text, &[(AnnotationKind::Context, label)]);
    }
    group
}

/// Adds the lines of some labels, or only where the first one is if they are too long to show.
fn place<'a>(
    group: Group<'a>,
    name: &'a str,
    text: &'a str,
    labels: &[(AnnotationKind, &'a Label)],
) -> Group<'a> {
    let lines: Vec<Range<usize>> =
        labels.iter().map(|(_, l)| lines(&within(l, text), text)).collect();
    let start = lines.iter().map(|r| r.start).min().unwrap_or(0);
    let end = lines.iter().map(|r| r.end).max().unwrap_or(0);
    let number = 1 + text[..start].bytes().filter(|&b| b == b'\n').count();
    if text[start..end].lines().any(|line| line.len() > LONGEST_LINE) {
        let Some((_, label)) = labels.first() else { return group };
        let at = within(label, text).start;
        let line = lines.first().map_or(start, |r| r.start);
        let skipped = text[start..line].bytes().filter(|&b| b == b'\n').count();
        let column = 1 + text[line..at].chars().count();
        return group.element(Origin::path(name).line(number + skipped).char_column(column));
    }
    let mut snippet = Snippet::source(&text[start..end]).path(name).line_start(number);
    for (kind, label) in labels {
        let span = within(label, text);
        let annotation = kind.span(span.start - start..span.end - start);
        snippet = snippet.annotation(match label.message.is_empty() {
            true => annotation,
            false => annotation.label(&*label.message),
        });
    }
    group.element(snippet)
}

/// The whole lines that a range touches, without the last line break.
fn lines(range: &Range<usize>, text: &str) -> Range<usize> {
    let start = text[..range.start].rfind('\n').map_or(0, |i| i + 1);
    let end = text[range.end..].find('\n').map_or(text.len(), |i| range.end + i);
    start..end
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

#[cfg(test)]
mod tests {
    use super::*;
    use shardc_ir::diag::{Code, Span};

    const CODE: Code = Code { id: "Z001", summary: "", class: shardc_ir::diag::Class::User };

    fn at(text: &str, spans: &[(usize, usize)]) -> String {
        let mut diagnostic = Diagnostic::error(CODE, "no");
        for (i, &(start, end)) in spans.iter().enumerate() {
            let span = Span::new(start, end);
            diagnostic = match i {
                0 => diagnostic.at(span, "here"),
                _ => diagnostic.also(span, "and here"),
            };
        }
        render(&diagnostic, Some(("f", text)), Style::Plain)
    }

    #[test]
    fn places_are_shown_with_their_lines() {
        let text = "one\ntwo\nthree\n";
        let shown = at(text, &[(8, 13), (0, 3)]);
        assert!(shown.contains("--> f:3:1"), "{shown}");
        assert!(shown.contains("3 | three\n  | ^^^^^ here"), "{shown}");
        assert!(shown.contains("1 | one\n  | --- and here"), "{shown}");
    }

    #[test]
    fn spans_outside_of_the_text_do_no_harm() {
        assert!(at("a\u{e9}b", &[(2, 90)]).contains("f:1:2"));
        assert!(at("", &[(7, 9), (1, 0)]).contains("f:1:1"));
    }

    #[test]
    fn long_lines_and_distances_stay_cheap() {
        let line = format!("x\n{}", "y".repeat(1 << 20));
        assert!(at(&line, &[(1 << 19, (1 << 19) + 1)]).contains("--> f:2:524287"));
        let apart = format!("first\n{}last", "\n".repeat(1 << 20));
        let shown = at(&apart, &[(apart.len() - 4, apart.len()), (0, 5)]);
        assert!(shown.contains("last") && shown.contains("first") && shown.len() < 400, "{shown}");
    }
}
