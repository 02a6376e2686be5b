//! Choosing the next token from logits.

use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};
use std::ops::Range;

/// How tokens are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Divisor of the logits; 0 takes the most likely token.
    pub temperature: f64,
    /// How many of the most likely tokens are looked at; 0 for all.
    pub top_k: usize,
    /// Of those, the fewest whose probabilities add up to this much.
    pub top_p: f64,
    /// Equal seeds give equal tokens.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Sampling { temperature: 0.0, top_k: 0, top_p: 1.0, seed: 0 }
    }
}

impl Sampling {
    /// Whether the most likely token is taken.
    pub fn is_greedy(&self) -> bool {
        self.temperature == 0.0 || self.top_k == 1
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// `W108` where they make no sense.
    pub fn check(&self) -> Result<()> {
        let wrong = |cause: String| Err(Box::new(Diagnostic::error(codes::REQUEST, cause)));
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return wrong(format!("a temperature of {} makes no sense", self.temperature));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return wrong(format!("top-p is {}, outside 0 to 1", self.top_p));
        }
        Ok(())
    }

    /// Token number `step` of each of some requests, from their logits.
    pub fn draw(&self, requests: Range<usize>, logits: &[Vec<f32>], step: usize) -> Vec<i64> {
        let one = |(request, row): (usize, &Vec<f32>)| {
            self.choose(row, request as u64, step as u64) as i64
        };
        requests.zip(logits).map(one).collect()
    }

    /// The token that follows, number `step` of request `request`.
    ///
    /// Which token it is follows from the logits, the seed and those two numbers alone.
    pub fn choose(&self, logits: &[f32], request: u64, step: u64) -> usize {
        let order = |&a: &usize, &b: &usize| logits[b].total_cmp(&logits[a]).then(a.cmp(&b));
        if self.is_greedy() {
            return (0..logits.len()).min_by(order).unwrap_or(0);
        }
        let mut tokens: Vec<usize> = (0..logits.len()).collect();
        if self.top_k > 0 && self.top_k < tokens.len() {
            tokens.select_nth_unstable_by(self.top_k - 1, order);
            tokens.truncate(self.top_k);
        }
        tokens.sort_unstable_by(order);
        let best = tokens.first().map_or(0.0, |&t| f64::from(logits[t]));
        let weight = |&t: &usize| ((f64::from(logits[t]) - best) / self.temperature).exp();
        let weights: Vec<f64> = tokens.iter().map(weight).collect();
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let enough = |w: &f64| {
            sum += w;
            sum >= self.top_p * total
        };
        let kept = weights.iter().position(enough).map_or(weights.len(), |last| last + 1);
        let kept_total: f64 = weights[..kept].iter().sum();
        let mut rest = uniform(self.seed, request, step) * kept_total;
        for (token, weight) in tokens.iter().zip(&weights[..kept]) {
            rest -= weight;
            if rest < 0.0 {
                return *token;
            }
        }
        tokens[..kept].last().copied().unwrap_or(0)
    }
}

/// How far apart the states of SplitMix64 are.
pub(crate) const GAMMA: u64 = 0x9e3779b97f4a7c15;

/// What SplitMix64 (Steele, Lea and Flood 2014) gives after state `n`.
pub(crate) fn mix(n: u64) -> u64 {
    let z = n.wrapping_add(GAMMA);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
    z ^ (z >> 31)
}

/// A number of 0 to 1 for each place of a run.
fn uniform(seed: u64, request: u64, step: u64) -> f64 {
    let bits = mix(mix(mix(seed) ^ request) ^ step);
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [0.0, 3.0, 1.0, 3.0, -2.0];

    fn counts(sampling: Sampling) -> [usize; 5] {
        let mut out = [0; 5];
        (0..4000).for_each(|step| out[sampling.choose(&LOGITS, 0, step)] += 1);
        out
    }

    #[test]
    fn greedy_takes_the_lowest_of_the_best() {
        assert_eq!(Sampling::default().choose(&LOGITS, 3, 4), 1);
    }

    #[test]
    fn tokens_come_as_often_as_they_are_likely() {
        let sampling = Sampling { temperature: 1.0, ..Sampling::default() };
        let total: f64 = LOGITS.iter().map(|&x| f64::from(x).exp()).sum();
        for (count, x) in counts(sampling).iter().zip(LOGITS) {
            let wanted = f64::from(x).exp() / total * 4000.0;
            assert!((*count as f64 - wanted).abs() < 4.0 * wanted.sqrt() + 4.0, "{count} {wanted}");
        }
        assert_eq!(counts(sampling), counts(sampling));
        assert_ne!(counts(sampling), counts(Sampling { seed: 1, ..sampling }));
    }

    #[test]
    fn few_tokens_are_looked_at() {
        let sampling = Sampling { temperature: 2.0, ..Sampling::default() };
        let [a, b, c, d, e] = counts(Sampling { top_k: 3, ..sampling });
        assert!((a, e) == (0, 0) && b > 0 && c > 0 && d > 0);
        let [a, b, c, d, e] = counts(Sampling { top_p: 0.5, ..sampling });
        assert!((a, c, e) == (0, 0, 0) && b > 0 && d > 0);
        assert!(Sampling { top_p: 0.0, ..sampling }.check().is_err());
        assert!(Sampling { temperature: f64::NAN, ..sampling }.check().is_err());
    }
}
