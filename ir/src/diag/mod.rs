//! Diagnostics as plain data: what is wrong, where, why, and the way out.
//!
//! Nothing here renders: the command line turns a [`Diagnostic`] into text or JSON at the last
//! moment, so every crate can report errors without knowing about terminals.

use std::fmt;

/// How a problem ends the command that met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The input or the usage is wrong (exit code 1).
    User,
    /// The request is well formed, but nothing satisfies it (exit code 2).
    Infeasible,
    /// A bug in the compiler (exit code 3).
    Internal,
    /// A device, library or tool is missing (exit code 4).
    Missing,
}

impl Class {
    /// The process exit code of this class.
    pub fn exit_code(self) -> u8 {
        match self {
            Class::User => 1,
            Class::Infeasible => 2,
            Class::Internal => 3,
            Class::Missing => 4,
        }
    }
}

/// A stable error code such as `F301`. Codes are declared by [`codes!`](crate::codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code {
    /// Letter of the owning area and a number; never reused.
    pub id: &'static str,
    /// One sentence saying when the code is reported, for the reference.
    pub summary: &'static str,
    /// How the command ends.
    pub class: Class,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

/// Declares a crate's error codes as constants and lists them in `ALL`.
///
/// ```
/// shardc_ir::codes! {
///     /// The demonstration failed.
///     DEMO = "Z001", User, "a demonstration failed";
/// }
/// assert_eq!(ALL[0].id, "Z001");
/// ```
#[macro_export]
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $class:ident, $summary:literal;)*) => {
        $($(#[$doc])* pub const $name: $crate::diag::Code = $crate::diag::Code {
            id: $id, summary: $summary, class: $crate::diag::Class::$class,
        };)*
        /// Every code declared here, in order.
        pub const ALL: &[$crate::diag::Code] = &[$($name),*];
    };
}

/// A half-open byte range of a source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The range `start..end`; positions beyond 4 GiB saturate.
    pub fn new(start: usize, end: usize) -> Self {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span { start: clamp(start), end: clamp(end) }
    }

    /// The smallest range that covers both.
    pub fn join(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// Whether a diagnostic stops the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The command fails.
    Error,
    /// The command goes on; the reader should know.
    Warning,
}

/// A place in the source text with a short remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What the reader should see there; may be empty.
    pub message: String,
}

/// One problem, as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable code.
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// One terse sentence, without a full stop.
    pub message: String,
    /// The guilty place, if the input is a text that the reader can open.
    pub primary: Option<Label>,
    /// Related places.
    pub secondary: Vec<Label>,
    /// Facts that explain the cause.
    pub notes: Vec<String>,
    /// The way out.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error without a place.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            primary: None,
            secondary: Vec::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// A warning without a place.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, message) }
    }

    /// Points at the guilty place.
    pub fn at(mut self, span: Span, message: impl Into<String>) -> Self {
        self.primary = Some(Label { span, message: message.into() });
        self
    }

    /// Points at a related place.
    pub fn also(mut self, span: Span, message: impl Into<String>) -> Self {
        self.secondary.push(Label { span, message: message.into() });
        self
    }

    /// Adds an explaining fact.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Says how to get out.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Whether the command must fail.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Diagnostic {
    /// One line: `error[F301]: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}[{}]: {}", self.code, self.message)
    }
}

impl std::error::Error for Diagnostic {}

/// The result of an operation that a user's input can make fail.
pub type Result<T, E = Box<Diagnostic>> = std::result::Result<T, E>;
