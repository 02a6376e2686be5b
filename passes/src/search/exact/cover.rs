//! Bounds of one sum of times from those of others.

use shardc_cost::serving::Slopes;

/// A sum of times, by its slopes, and what it is at least.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub slopes: Slopes,
    pub least: f64,
}

/// What a sum of times is at least, given what others are: the best of sums of two of them, each taken
/// some times, that have no larger slope anywhere. Holds at all steps of which a lone request's is the
/// shortest.
pub(super) fn cover(known: &[Known], asked: &Slopes, stages: u64) -> f64 {
    let asked = coordinates(asked, stages);
    let known: Vec<(Vec<f64>, f64)> =
        known.iter().map(|k| (coordinates(&k.slopes, stages), k.least)).collect();
    let mut best: f64 = 0.0;
    for (i, a) in known.iter().enumerate() {
        for b in &known[i..] {
            best = best.max(of_two(a, b, &asked));
        }
    }
    best
}

/// The largest sum of two bounds, taken so many times that no coordinate exceeds what is asked: a linear
/// program of two variables, whose best is at a corner.
fn of_two(a: &(Vec<f64>, f64), b: &(Vec<f64>, f64), asked: &[f64]) -> f64 {
    /// A part of the largest slope below which one is rounding.
    const NOTHING: f64 = 1e-12;
    let rows: Vec<[f64; 3]> =
        (a.0.iter().zip(&b.0).zip(asked)).map(|((a, b), c)| [*a, *b, *c]).collect();
    let most = rows.iter().flatten().fold(0.0, |m: f64, s| m.max(s.abs()));
    let mut corners: Vec<[f64; 2]> = Vec::new();
    for (i, [a, b, c]) in rows.iter().enumerate() {
        corners.extend([[c / a, 0.0], [0.0, c / b]]);
        for [d, e, f] in &rows[i + 1..] {
            let det = a * e - b * d;
            corners.push([(c * e - b * f) / det, (a * f - c * d) / det]);
        }
    }
    let allowed = |[x, y]: &[f64; 2]| {
        let usable = x.is_finite() && y.is_finite() && *x >= 0.0 && *y >= 0.0;
        usable && rows.iter().all(|[a, b, c]| a * x + b * y <= c + NOTHING * most)
    };
    let sums = corners.iter().filter(|c| allowed(c)).map(|[x, y]| x * a.1 + y * b.1);
    sums.fold(0.0, f64::max)
}

/// Slopes over times that are never negative: how much longer decoding is than a lone request's step,
/// that step itself, prefill; latency and interval are one where there is a single stage.
fn coordinates(s: &Slopes, stages: u64) -> Vec<f64> {
    let [rest, interval] = lone(s);
    if stages == 1 {
        return vec![s.decode.0 + s.decode.1, interval, s.prefill + s.prefill_interval];
    }
    vec![s.decode.0, s.decode.1, rest, interval, s.prefill, s.prefill_interval]
}

/// Slopes over what a lone request's step takes beyond its interval, and over that interval, where
/// decoding takes as much longer as it does.
pub(super) fn lone(s: &Slopes) -> [f64; 2] {
    let rest = s.decode.0 + s.alone.0;
    [rest, rest + s.decode.1 + s.alone.1]
}

/// Between two slopes.
pub(super) fn mix(a: &Slopes, b: &Slopes, t: f64) -> Slopes {
    let of = |a: f64, b: f64| a + (b - a) * t;
    Slopes {
        decode: (of(a.decode.0, b.decode.0), of(a.decode.1, b.decode.1)),
        alone: (of(a.alone.0, b.alone.0), of(a.alone.1, b.alone.1)),
        prefill: of(a.prefill, b.prefill),
        prefill_interval: of(a.prefill_interval, b.prefill_interval),
        crowded: of(a.crowded, b.crowded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slopes(decode: f64, alone: f64, prefill: f64) -> Slopes {
        Slopes { decode: (decode, 0.0), alone: (alone, 0.0), prefill, ..Slopes::default() }
    }

    #[test]
    fn sums_between_two_known_ones_are_covered() {
        let known = [
            Known { slopes: slopes(1.0, 0.0, 0.0), least: 5.0 },
            Known { slopes: slopes(1.0, -1.0, 1.0), least: 9.0 },
        ];
        let near = |asked: Slopes, least: f64| {
            let found = cover(&known, &asked, 1);
            assert!((found - least).abs() < 1e-9, "{found} instead of {least}");
        };
        near(slopes(1.0, 0.0, 0.0), 5.0);
        near(slopes(1.0, -0.5, 0.5), 7.0);
        near(slopes(2.0, -1.0, 1.0), 14.0);
        // A lone request's step counts for nothing here, so only the second one is of use.
        near(slopes(0.5, -0.5, 0.5), 4.5);
        near(slopes(0.5, -0.5, 0.0), 0.0);
    }
}
