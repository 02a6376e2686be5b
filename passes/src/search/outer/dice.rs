//! Random numbers of searches: a seeded generator, the same on every machine.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A seeded source of random numbers.
#[derive(Clone, Debug)]
pub struct Dice(Pcg64Mcg);

impl Dice {
    /// Dice of a seed.
    pub fn new(seed: u64) -> Self {
        Dice(Pcg64Mcg::seed_from_u64(seed))
    }

    /// A number below `n`; 0 where `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        // The high half of a product: biased by less than n / 2^64.
        ((u128::from(self.0.next_u64()) * n as u128) >> 64) as usize
    }

    /// A number from 0 up to, not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A place in a list of weights, drawn in proportion to them; 0 where none is above 0.
    pub fn weighted(&mut self, weights: &[f64]) -> usize {
        let sum: f64 = weights.iter().sum();
        let mut left = self.unit() * sum;
        for (i, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return i;
            }
        }
        weights.len().saturating_sub(1).min(weights.iter().rposition(|w| *w > 0.0).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_range_and_fall_everywhere() {
        let mut dice = Dice::new(3);
        let mut seen = [0; 7];
        (0..7000).for_each(|_| seen[dice.below(7)] += 1);
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
        assert_eq!(dice.below(0), 0);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&dice.unit())));
    }

    #[test]
    fn weights_are_kept() {
        let mut dice = Dice::new(5);
        let mut seen = [0; 3];
        (0..9000).for_each(|_| seen[dice.weighted(&[1.0, 0.0, 2.0])] += 1);
        assert_eq!(seen[1], 0);
        assert!((2800..3200).contains(&seen[0]), "{seen:?}");
        assert_eq!(dice.weighted(&[0.0, 0.0]), 0);
    }
}
