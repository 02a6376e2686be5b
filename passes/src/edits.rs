//! Counting edits, so that a miscompile can be bisected: a pass asks before each edit.

use crate::registry::Options;

/// Grants edits up to a limit and counts them.
#[derive(Clone, Copy, Debug)]
pub struct Edits {
    made: u64,
    limit: u64,
}

impl Edits {
    /// As many as the options allow.
    pub fn new(options: &Options) -> Self {
        Edits { made: 0, limit: options.max_edits.unwrap_or(u64::MAX) }
    }

    /// Whether one more edit may be made; if so, it counts as made.
    pub fn grant(&mut self) -> bool {
        let granted = self.made < self.limit;
        self.made += u64::from(granted);
        granted
    }

    /// How many were made.
    pub fn made(self) -> u64 {
        self.made
    }
}
