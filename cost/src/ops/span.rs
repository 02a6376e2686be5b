//! Which cached positions a query sees.

/// Which earlier positions a position sees, itself included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Span {
    /// All earlier ones.
    Causal,
    /// All, later ones too.
    Full,
    /// The last so many.
    Window(u64),
    /// Those of its own chunk of so many positions.
    Chunk(u64),
}

impl Span {
    /// Number of (query, key) pairs of the queries at positions `past..past + new`.
    pub fn pairs(self, past: u64, new: u64) -> f64 {
        match self {
            Span::Full => new as f64 * (past as f64 + new as f64),
            Span::Causal => rising(past, new),
            Span::Window(w) => {
                let growing = new.min(w.saturating_sub(past));
                rising(past, growing) + (new - growing) as f64 * w as f64
            }
            Span::Chunk(c) => {
                let c = c.max(1);
                let first = new.min(c - past % c);
                let rest = new - first;
                rising(past % c, first) + (rest / c) as f64 * rising(0, c) + rising(0, rest % c)
            }
        }
    }

    /// Keys that the queries at `past..past + new` see in the mean. For chunks it is the mean up to
    /// the end of the first one, an upper bound that never falls as `new` grows.
    pub fn mean_keys(self, past: u64, new: u64) -> f64 {
        let first = |past: u64, new: u64| past as f64 + (new as f64 + 1.0) / 2.0;
        match self {
            Span::Full => past as f64 + new as f64,
            Span::Causal => first(past, new),
            Span::Window(w) if new <= w.saturating_sub(past) => first(past, new),
            Span::Window(w) => {
                let growing = w.saturating_sub(past) as f64;
                w as f64 - growing * (growing - 1.0).max(0.0) / 2.0 / new as f64
            }
            Span::Chunk(c) => {
                let (c, start) = (c.max(1), past % c.max(1));
                first(start, new.min(c - start))
            }
        }
    }

    /// Cached positions that a query at the end of `context` positions reads at most.
    pub fn reach(self, context: u64) -> u64 {
        match self {
            Span::Causal | Span::Full => context,
            Span::Window(w) | Span::Chunk(w) => context.min(w),
        }
    }
}

/// Sum of `past + 1, past + 2, …, past + new`.
fn rising(past: u64, new: u64) -> f64 {
    let (past, new) = (past as f64, new as f64);
    new * past + new * (new + 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs by counting.
    fn counted(span: Span, past: u64, new: u64) -> f64 {
        let seen = |i: u64| match span {
            Span::Full => past + new,
            Span::Causal => i + 1,
            Span::Window(w) => (i + 1).min(w),
            Span::Chunk(c) => i % c + 1,
        };
        (past..past + new).map(seen).sum::<u64>() as f64
    }

    #[test]
    fn pairs_match_a_count() {
        for span in [Span::Causal, Span::Full, Span::Window(5), Span::Window(1), Span::Chunk(7)] {
            for (past, new) in [(0, 1), (0, 20), (3, 9), (6, 1), (30, 2)] {
                assert_eq!(
                    span.pairs(past, new),
                    counted(span, past, new),
                    "{span:?} {past} {new}"
                );
                let mean = counted(span, past, new) / new as f64;
                let bounded = span.mean_keys(past, new);
                match span {
                    Span::Chunk(_) => assert!(bounded >= mean - 1e-9, "{span:?} {past} {new}"),
                    _ => assert!((bounded - mean).abs() < 1e-9, "{span:?} {past} {new}"),
                }
            }
        }
    }
}
