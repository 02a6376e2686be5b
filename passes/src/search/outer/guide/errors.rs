//! How far evaluations come out above guesses: what is expected of a plan, and how sure that is.
//!
//! A guess is right until something like it was not: errors are drawn from a Gaussian process around 0
//! (Rasmussen and Williams 2006, algorithm 2.1). Two plans err alike where they are guessed to be good
//! alike, as much as single choices agree, and once more where most of them do. Choices are compared by
//! their marks, so plans of other models and clusters tell something, too.

use crate::search::outer::space::{Mark, choice};

/// Weights of what makes two plans err alike: a trend over guesses, single choices, all of them; and of
/// what no plan shares with any other. Their sum but for the trend is 1.
const TREND: f64 = 0.3;
const SINGLE: f64 = 0.5;
const ALL: f64 = 0.45;
const OWN: f64 = 0.05;
/// Choices that differ over which likeness of all falls to 1/e.
const REACH: f64 = 1.5;
/// How far errors of other models and clusters tell of those here, as a correlation.
const ELSEWHERE: f64 = 0.6;
/// Least standard deviation of errors that is believed.
const LEAST_SPREAD: f64 = 0.1;

/// A plan as this model sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// Marks of its choices by gene; none where another space has no such gene.
    pub marks: Vec<Option<Mark>>,
    /// Logarithm of its guess as a part of the best.
    pub guess: f64,
    /// Whether it was evaluated for another model, cluster or load.
    pub elsewhere: bool,
}

/// What is known of errors, and a factor `L` of the covariance `L Lᵀ` of the points that they are of.
#[derive(Debug)]
pub(super) struct Errors {
    points: Vec<Point>,
    factor: Vec<Vec<f64>>,
    /// `L⁻¹` times the errors, as parts of their spread.
    whitened: Vec<f64>,
    spread: f64,
}

/// What is expected of a plan, kept in step with what is known.
#[derive(Clone, Debug)]
pub(super) struct Outlook {
    point: Point,
    /// `L⁻¹` times the covariance with the points known.
    row: Vec<f64>,
    mean: f64,
    /// As a part of the variance of errors.
    variance: f64,
}

impl Errors {
    /// Of some points and how far above their guesses they came out, as logarithms.
    pub fn of(known: Vec<(Point, f64)>) -> Self {
        let squares: f64 = known.iter().map(|(_, error)| error.powi(2)).sum();
        let spread = (squares / known.len().max(1) as f64).sqrt().max(LEAST_SPREAD);
        let (points, factor, whitened) = (Vec::new(), Vec::new(), Vec::new());
        let mut errors = Errors { points, factor, whitened, spread };
        for (point, error) in known {
            let outlook = errors.outlook(point);
            errors.add(&outlook, error / spread);
        }
        errors
    }

    /// What is expected of a plan.
    pub fn outlook(&self, point: Point) -> Outlook {
        let variance = covariance(&point, &point) + OWN;
        let mut outlook = Outlook { point, row: Vec::new(), mean: 0.0, variance };
        self.update(&mut outlook);
        outlook
    }

    /// Brings an outlook in step with what has become known since.
    pub fn update(&self, outlook: &mut Outlook) {
        for at in outlook.row.len()..self.points.len() {
            let factor = &self.factor[at];
            let known: f64 = factor.iter().zip(&outlook.row).map(|(a, b)| a * b).sum();
            let rest = covariance(&self.points[at], &outlook.point) - known;
            let next = rest / factor[at];
            outlook.row.push(next);
            outlook.mean += next * self.whitened[at];
            outlook.variance -= next * next;
        }
    }

    /// Takes a plan as if it had come out a standard deviation below what is expected, so that what is
    /// like it promises less.
    pub fn doubt(&mut self, outlook: &Outlook) {
        self.add(outlook, outlook.mean - outlook.variance.max(0.0).sqrt());
    }

    /// How far above its guess a plan is expected to come out, and the standard deviation of that.
    pub fn expected(&self, outlook: &Outlook) -> (f64, f64) {
        let deviation = self.spread * outlook.variance.max(0.0).sqrt();
        (self.spread * outlook.mean, deviation)
    }

    fn add(&mut self, outlook: &Outlook, deviation: f64) {
        let root = outlook.variance.max(OWN).sqrt();
        let mut factor = outlook.row.clone();
        factor.push(root);
        self.factor.push(factor);
        self.whitened.push((deviation - outlook.mean) / root);
        self.points.push(outlook.point.clone());
    }
}

/// How alike the errors of two plans are, but for what each has of its own.
fn covariance(a: &Point, b: &Point) -> f64 {
    let pairs = a.marks.iter().zip(&b.marks).map(|(a, b)| likeness(*a, *b));
    let (mut same, mut count) = (0.0, 0.0);
    for likeness in pairs {
        same += likeness;
        count += 1.0;
    }
    let alike = SINGLE * same / f64::max(count, 1.0) + ALL * ((same - count) / REACH).exp();
    let alike = alike + TREND * a.guess * b.guess;
    if a.elsewhere == b.elsewhere { alike } else { ELSEWHERE * alike }
}

/// How alike two choices are: numbers less with every step between them.
fn likeness(a: Option<Mark>, b: Option<Mark>) -> f64 {
    match (a, b) {
        (a, b) if a == b => 1.0,
        (Some(a), Some(b)) if a.min(b) >= choice::NUMBER => (-f64::from(a.abs_diff(b))).exp(),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(marks: [Mark; 3], guess: f64, elsewhere: bool) -> Point {
        Point { marks: marks.map(Some).to_vec(), guess, elsewhere }
    }

    /// Errors of -1 where the first choice is 1, and none where it is 2.
    fn known(elsewhere: bool) -> Vec<(Point, f64)> {
        let of = |first: Mark, rest: Mark| {
            let error = if first == 1 { -1.0 } else { 0.0 };
            (point([first, rest, rest], -0.5, elsewhere), error)
        };
        (10..14).flat_map(|rest| [of(1, rest), of(2, rest)]).collect()
    }

    fn expected(errors: &Errors, marks: [Mark; 3]) -> (f64, f64) {
        errors.expected(&errors.outlook(point(marks, -0.5, false)))
    }

    #[test]
    fn what_a_choice_does_is_learned() {
        let errors = Errors::of(known(false));
        let (bad, _) = expected(&errors, [1, 30, 20]);
        let (good, _) = expected(&errors, [2, 30, 20]);
        assert!(good - bad > 0.3, "{good} and {bad}");
    }

    #[test]
    fn other_models_tell_less() {
        let (here, there) = (Errors::of(known(false)), Errors::of(known(true)));
        let gap =
            |errors: &Errors| expected(errors, [2, 11, 11]).0 - expected(errors, [1, 11, 11]).0;
        assert!(gap(&there) > 0.2 && gap(&here) > gap(&there), "{} {}", gap(&here), gap(&there));
    }

    #[test]
    fn what_is_near_is_sure() {
        let errors = Errors::of(known(false));
        let (_, near) = expected(&errors, [1, 10, 10]);
        let (_, far) = expected(&errors, [3, 30, 20]);
        assert!(near < far, "{near} and {far}");
        let mut later = errors;
        let mut outlook = later.outlook(point([3, 30, 20], -0.5, false));
        let before = later.expected(&outlook);
        later.doubt(&later.outlook(point([3, 31, 20], -0.5, false)));
        later.update(&mut outlook);
        let after = later.expected(&outlook);
        assert!(after.0 < before.0 && after.1 < before.1, "{before:?} {after:?}");
    }
}
