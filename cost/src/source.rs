//! What a predicted time rests on.

use std::fmt;

/// How a time was obtained; ordered from firm to loose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// A point of the shipped measurements.
    Measured,
    /// Between points of the shipped measurements.
    Interpolated,
    /// A formula, or a measurement carried over to another machine or size.
    Modelled,
}

impl Source {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Source::Measured => "measured",
            Source::Interpolated => "interpolated",
            Source::Modelled => "modelled",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
