//! Synthetic arrivals: requests of given lengths at random times.

use rand_distr::{Distribution, Gamma};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;

use super::Arrival;

/// Times between arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Process {
    /// Requests a second on average.
    pub rate: f64,
    /// Standard deviation of the time between arrivals over its mean: 0 for regular arrivals, 1
    /// for a Poisson process, more for bursts.
    pub cv: f64,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Process {
    /// Gives requests their times of arrival, in their order. The gaps are gamma-distributed with
    /// shape 1/cv² and mean 1/rate.
    pub fn schedule(&self, requests: &mut [Arrival]) {
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let mean = 1e9 / self.rate;
        let variance = self.cv * self.cv;
        let gaps = Gamma::new(1.0 / variance, mean * variance).ok();
        let gaps = gaps.filter(|_| variance.is_normal());
        let mut now = 0u64;
        for request in requests {
            let gap = gaps.as_ref().map_or(mean, |gaps| gaps.sample(&mut random));
            // A cast saturates, and infinity is as late as a time can be.
            now = now.saturating_add(gap.round() as u64);
            request.at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(cv: f64, seed: u64) -> Vec<u64> {
        let mut requests = vec![Arrival { at: 0, isl: 1, osl: 1 }; 100_000];
        Process { rate: 50.0, cv, seed }.schedule(&mut requests);
        requests.iter().map(|r| r.at).collect()
    }

    #[test]
    fn gaps_have_the_mean_and_deviation_asked_for() {
        for cv in [0.0, 0.5, 1.0, 2.0] {
            let times = times(cv, 7);
            let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64 / 20e6).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            assert!((mean - 1.0).abs() < 0.02, "mean {mean} at cv {cv}");
            assert!((variance.sqrt() - cv).abs() < 0.03 * cv.max(1e-9), "{variance} at cv {cv}");
        }
    }

    #[test]
    fn a_seed_decides() {
        assert_eq!(times(1.0, 3), times(1.0, 3));
        assert_ne!(times(1.0, 3), times(1.0, 4));
    }
}
