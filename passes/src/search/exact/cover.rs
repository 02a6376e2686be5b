//! Bounds of one sum of times from those of others.

use shardc_cost::serving::Slopes;

/// A sum of times, by its slopes, and what it is at least.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub slopes: Slopes,
    pub least: f64,
}

/// What a sum of times is at least, given what others are: two of them, each taken some times, that have
/// no larger slope anywhere and come to most, and as much of each other one as is left room for.
pub(super) fn cover(known: &[Known], asked: &Slopes, stages: u64) -> f64 {
    let asked = coordinates(asked, stages);
    let known: Vec<(Vec<f64>, f64)> =
        known.iter().map(|k| (coordinates(&k.slopes, stages), k.least)).collect();
    let mut best = (0.0, 0, 0, [0.0; 2]);
    for (i, a) in known.iter().enumerate() {
        for (j, b) in known.iter().enumerate().skip(i) {
            let (sum, times) = of_two(a, b, &asked);
            if sum > best.0 {
                best = (sum, i, j, times);
            }
        }
    }
    let (sum, i, j, [x, y]) = best;
    let Some(pair) = known.get(i).zip(known.get(j)) else { return 0.0 };
    let used = pair.0.0.iter().zip(&pair.1.0).map(|(a, b)| a * x + b * y);
    let mut left: Vec<f64> = asked.iter().zip(used).map(|(c, used)| c - used).collect();
    known.iter().fold(sum, |sum, (slopes, least)| sum + least * taken(slopes, &mut left))
}

/// How often slopes go into what is left; it is taken away.
fn taken(slopes: &[f64], left: &mut [f64]) -> f64 {
    let some = |(slope, left): (&f64, &f64)| (*slope > 0.0).then(|| left.max(0.0) / slope);
    let times = slopes.iter().zip(left.iter()).filter_map(some).reduce(f64::min).unwrap_or(0.0);
    left.iter_mut().zip(slopes).for_each(|(left, slope)| *left -= slope * times);
    times
}

/// The largest sum of two bounds, taken so many times that no coordinate exceeds what is asked: a linear
/// program of two variables, whose best is at a corner.
fn of_two(a: &(Vec<f64>, f64), b: &(Vec<f64>, f64), asked: &[f64]) -> (f64, [f64; 2]) {
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
    let sums = corners.into_iter().filter(allowed).map(|c| (c[0] * a.1 + c[1] * b.1, c));
    sums.fold((0.0, [0.0; 2]), |best, next| if next.0 > best.0 { next } else { best })
}

/// Slopes over times that are never negative: what latencies are beyond intervals, and intervals; both
/// are one where there is a single stage.
fn coordinates(slopes: &Slopes, stages: u64) -> Vec<f64> {
    let of = |(latency, interval): (f64, f64)| [latency, latency + interval];
    let beyond = usize::from(stages == 1);
    slopes.pairs().into_iter().flat_map(|pair| of(pair).into_iter().skip(beyond)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slopes(decode: f64, mixed: f64) -> Slopes {
        Slopes { decode: (decode, 0.0), mixed: (mixed, 0.0), ..Slopes::default() }
    }

    #[test]
    fn sums_between_two_known_ones_are_covered() {
        let known = [
            Known { slopes: slopes(1.0, 0.0), least: 5.0 },
            Known { slopes: slopes(1.0, 1.0), least: 9.0 },
        ];
        let near = |asked: Slopes, least: f64| {
            let found = cover(&known, &asked, 1);
            assert!((found - least).abs() < 1e-9, "{found} instead of {least}");
        };
        near(slopes(1.0, 0.0), 5.0);
        near(slopes(1.0, 0.5), 7.0);
        near(slopes(2.0, 1.0), 14.0);
        // Decoding counts for half as much as in either, whatever mixed steps count.
        near(slopes(0.5, 1.0), 4.5);
        near(slopes(0.0, 1.0), 0.0);
    }

    #[test]
    fn what_is_left_is_covered_by_others() {
        let only = |decode: f64, prefill: f64, mixed: f64, least: f64| {
            let of = |slope: f64| (slope, 0.0);
            let (decode, prefill, mixed) = (of(decode), of(prefill), of(mixed));
            Known { slopes: Slopes { decode, prefill, mixed, crowded: 0.0 }, least }
        };
        let known = [only(1.0, 0.0, 0.0, 2.0), only(0.0, 1.0, 0.0, 3.0), only(0.0, 0.0, 1.0, 5.0)];
        let asked = only(1.0, 2.0, 3.0, 0.0).slopes;
        assert!((cover(&known, &asked, 1) - 23.0).abs() < 1e-9);
        assert!((cover(&known, &asked, 4) - 23.0).abs() < 1e-9);
    }

    #[test]
    fn intervals_are_a_part_of_latencies() {
        let of = |latency: f64, interval: f64| Slopes {
            decode: (latency, interval),
            ..Slopes::default()
        };
        let known = [Known { slopes: of(1.0, 0.0), least: 4.0 }];
        // A latency is never less than an interval, and the other way round it may be.
        assert_eq!(cover(&known, &of(1.0, 1.0), 2), 4.0);
        assert_eq!(cover(&known, &of(0.0, 1.0), 2), 0.0);
        assert_eq!(cover(&known, &of(0.0, 1.0), 1), 4.0);
    }
}
