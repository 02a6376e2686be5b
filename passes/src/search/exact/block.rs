//! Costs in blocks: a row for each choice, a lane for each beginning, so that one pass over the ways
//! of values serves every beginning.

use super::solve::INF;

/// What times count in the sum that is minimised: of a step of the phase by itself, and of its part of
/// a step in which prompts ride.
pub(super) type Weights = [f64; 2];

/// The time of a step of the phase by itself, and of its part of a step in which prompts ride, ns.
pub(super) type Times = [f64; 2];

/// The weighted sum; infinite where the step is impossible.
pub(super) fn weigh(weights: Weights, times: Times) -> f64 {
    if times[0].is_finite() { weights[0] * times[0] + weights[1] * times[1] } else { INF }
}

/// Both sums.
pub(super) fn add(a: Times, b: Times) -> Times {
    [a[0] + b[0], a[1] + b[1]]
}

/// Costs by choice, from each of several beginnings.
#[derive(Clone, Debug)]
pub(super) struct Block {
    rows: usize,
    lanes: usize,
    costs: Vec<f64>,
}

impl Block {
    /// So many rows in which nothing is possible yet.
    pub fn new(rows: usize, lanes: usize) -> Self {
        Block { rows, lanes, costs: vec![INF; rows * lanes] }
    }

    /// One beginning.
    pub fn of_lane(costs: &[f64]) -> Self {
        Block { rows: costs.len(), lanes: 1, costs: costs.to_vec() }
    }

    /// Beginnings.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Choices.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The costs of a choice by beginning.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.costs[row * self.lanes..(row + 1) * self.lanes]
    }

    /// The same, to change.
    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.costs[row * self.lanes..(row + 1) * self.lanes]
    }

    /// All costs, row after row, to change.
    pub fn all_mut(&mut self) -> &mut [f64] {
        &mut self.costs
    }

    /// A row to read and another one to change.
    pub fn pair(&mut self, from: usize, to: usize) -> (&[f64], &mut [f64]) {
        let n = self.lanes;
        if from < to {
            let (low, high) = self.costs.split_at_mut(to * n);
            (&low[from * n..(from + 1) * n], &mut high[..n])
        } else {
            let (low, high) = self.costs.split_at_mut(from * n);
            (&high[..n], &mut low[to * n..(to + 1) * n])
        }
    }

    /// The costs by choice from one beginning.
    pub fn lane(&self, lane: usize) -> Vec<f64> {
        self.costs.iter().skip(lane).step_by(self.lanes.max(1)).copied().collect()
    }

    /// Adds to every choice what it costs by itself.
    pub fn add(&mut self, own: &[f64]) {
        for (row, own) in self.costs.chunks_exact_mut(self.lanes.max(1)).zip(own) {
            row.iter_mut().for_each(|cost| *cost += own);
        }
    }
}

/// Lowers costs to those of another row and a step from it.
pub(super) fn lower(to: &mut [f64], from: &[f64], step: f64) {
    for (to, from) in to.iter_mut().zip(from) {
        let through = from + step;
        *to = if through < *to { through } else { *to };
    }
}
