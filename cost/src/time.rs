//! The one cost type: whole nanoseconds that saturate, with a reserved infinity.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul};

/// A duration in nanoseconds. Arithmetic saturates; [`Ns::INFINITE`] absorbs everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ns(u64);

impl Ns {
    /// No time.
    pub const ZERO: Ns = Ns(0);
    /// The cost of what cannot be done; larger than every finite time.
    pub const INFINITE: Ns = Ns(u64::MAX);
    /// The largest finite time, 584 years.
    pub const MAX: Ns = Ns(u64::MAX - 1);

    /// A finite number of nanoseconds; `u64::MAX` becomes [`Ns::MAX`].
    pub const fn new(ns: u64) -> Ns {
        if ns == u64::MAX { Ns::MAX } else { Ns(ns) }
    }

    /// Nanoseconds from a real number, rounded to nearest with halves up. Negative values are
    /// zero, values beyond range [`Ns::MAX`]; infinity and NaN are [`Ns::INFINITE`].
    pub fn from_ns(ns: f64) -> Ns {
        if ns.is_nan() || ns == f64::INFINITY {
            return Ns::INFINITE;
        }
        // Float-to-integer casts saturate, and a negative value becomes zero.
        Ns::new((ns + 0.5).floor() as u64)
    }

    /// Nanoseconds from seconds, as [`Ns::from_ns`].
    pub fn from_seconds(seconds: f64) -> Ns {
        Ns::from_ns(seconds * 1e9)
    }

    /// Nanoseconds as an integer; infinity is `u64::MAX`.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Nanoseconds as a real number; infinity stays infinite.
    pub fn as_f64(self) -> f64 {
        if self.is_infinite() { f64::INFINITY } else { self.0 as f64 }
    }

    /// Milliseconds; infinity stays infinite.
    pub fn as_ms(self) -> f64 {
        self.as_f64() / 1e6
    }

    /// Seconds; infinity stays infinite.
    pub fn as_seconds(self) -> f64 {
        self.as_f64() / 1e9
    }

    /// Whether this is the reserved infinity.
    pub const fn is_infinite(self) -> bool {
        self.0 == u64::MAX
    }

    /// Difference, zero where it would be negative. Infinity minus anything finite is infinite.
    pub fn saturating_sub(self, other: Ns) -> Ns {
        if self.is_infinite() && !other.is_infinite() {
            return Ns::INFINITE;
        }
        Ns(self.0.saturating_sub(other.0))
    }
}

impl Add for Ns {
    type Output = Ns;

    fn add(self, other: Ns) -> Ns {
        if self.is_infinite() || other.is_infinite() {
            return Ns::INFINITE;
        }
        Ns::new(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Ns {
    fn add_assign(&mut self, other: Ns) {
        *self = *self + other;
    }
}

impl Mul<u64> for Ns {
    type Output = Ns;

    /// Repetition. Zero repetitions take no time, even of an infinite cost.
    fn mul(self, times: u64) -> Ns {
        match (self.is_infinite(), times) {
            (_, 0) => Ns::ZERO,
            (true, _) => Ns::INFINITE,
            _ => Ns::new(self.0.saturating_mul(times)),
        }
    }
}

impl Sum for Ns {
    fn sum<I: Iterator<Item = Ns>>(times: I) -> Ns {
        times.fold(Ns::ZERO, Add::add)
    }
}

impl fmt::Display for Ns {
    /// Three significant digits in ns, us, ms or s: `847 ns`, `12.3 us`, `1.20 ms`, `inf`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_infinite() {
            return f.pad("inf");
        }
        let (value, unit) = match self.0 {
            0..1_000 => return f.pad(&format!("{} ns", self.0)),
            // Each bound is where three digits round up to the next unit.
            1_000..999_500 => (self.0 as f64 / 1e3, "us"),
            999_500..999_500_000 => (self.0 as f64 / 1e6, "ms"),
            _ => (self.0 as f64 / 1e9, "s"),
        };
        let digits = match value {
            v if v < 9.995 => 2,
            v if v < 99.95 => 1,
            _ => 0,
        };
        f.pad(&format!("{value:.digits$} {unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounds_and_saturates() {
        assert_eq!(Ns::from_ns(1.5), Ns::new(2));
        assert_eq!(Ns::from_ns(1.49), Ns::new(1));
        assert_eq!(Ns::from_ns(-3.0), Ns::ZERO);
        assert_eq!(Ns::from_ns(1e300), Ns::MAX);
        assert!(Ns::from_ns(f64::NAN).is_infinite());
        assert!(Ns::from_ns(f64::INFINITY).is_infinite());
        assert_eq!(Ns::from_seconds(1e-6), Ns::new(1000));
    }

    #[test]
    fn infinity_absorbs() {
        assert!((Ns::INFINITE + Ns::new(1)).is_infinite());
        assert_eq!(Ns::MAX + Ns::MAX, Ns::MAX);
        assert!(Ns::MAX < Ns::INFINITE);
        let none = 0;
        assert_eq!(Ns::INFINITE * none, Ns::ZERO);
        assert!((Ns::INFINITE * 2).is_infinite());
        assert!(Ns::INFINITE.saturating_sub(Ns::MAX).is_infinite());
        assert_eq!(Ns::new(1).saturating_sub(Ns::new(2)), Ns::ZERO);
    }

    #[test]
    fn displays_in_sensible_units() {
        for (ns, text) in [
            (0, "0 ns"),
            (847, "847 ns"),
            (1_000, "1.00 us"),
            (12_340, "12.3 us"),
            (999_499, "999 us"),
            (999_500, "1.00 ms"),
            (123_000_000, "123 ms"),
            (2_000_000_000, "2.00 s"),
            (86_400_000_000_000, "86400 s"),
        ] {
            assert_eq!(Ns::new(ns).to_string(), text);
        }
        assert_eq!(Ns::INFINITE.to_string(), "inf");
    }

    proptest! {
        #[test]
        fn addition_is_a_commutative_monoid(a: u64, b: u64, c: u64) {
            let (a, b, c) = (Ns(a), Ns(b), Ns(c));
            prop_assert_eq!(a + b, b + a);
            prop_assert_eq!((a + b) + c, a + (b + c));
            prop_assert_eq!(a + Ns::ZERO, a);
            prop_assert!(a + b >= a);
        }

        #[test]
        fn rounding_is_monotone(a in 0.0f64..1e20, b in 0.0f64..1e20) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(Ns::from_ns(low) <= Ns::from_ns(high));
        }
    }
}
