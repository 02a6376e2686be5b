//! How far a search is, for whoever waits.

/// How far a search is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    /// Evaluations done.
    pub done: u64,
    /// Evaluations allowed.
    pub budget: u64,
    /// Worth of the best plan so far, in the unit of a proof's bound; 0 or less where none is possible.
    pub best: f64,
    /// The most that any plan of the space can be worth, where the search knows.
    pub bound: Option<f64>,
}

impl State {
    /// The part by which some plan may be better than the best so far; none where no bound or no plan
    /// is known.
    pub fn gap(&self) -> Option<f64> {
        self.bound.filter(|_| self.best > 0.0).map(|bound| (bound / self.best - 1.0).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_needs_a_plan_and_a_bound() {
        let state = State { best: 80.0, bound: Some(100.0), ..State::default() };
        assert_eq!(state.gap(), Some(0.25));
        assert_eq!(State { best: 0.0, ..state }.gap(), None);
        assert_eq!(State { bound: None, ..state }.gap(), None);
        assert_eq!(State { bound: Some(79.9), ..state }.gap(), Some(0.0));
    }
}
