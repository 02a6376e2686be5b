//! Points of the search one by one, for measurements: what one costs, and what it comes to.

use super::cell::{Cell, Scene};
use super::phase::Objective;
use super::scene;
use crate::search::Evaluator;

/// The cells of a model on a cluster: stages, replicas, and whether replicas work apart.
pub struct Points<'a> {
    scene: Scene<'a>,
    cells: Vec<Cell>,
}

/// What a point comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Pipeline stages.
    pub stages: u64,
    /// Replicas.
    pub replicas: u64,
    /// Whether replicas exchange nothing.
    pub apart: bool,
    /// Least times of a prefill micro-batch and of a decode micro-batch through all stages, without the
    /// host and without regard to memory, ns.
    pub least: [f64; 2],
}

impl<'a> Points<'a> {
    /// Reads a model.
    ///
    /// # Errors
    /// What stands in the way of searching it.
    pub fn of(evaluator: &'a Evaluator<'a>) -> Result<Self, String> {
        Ok(Points { scene: scene(evaluator)?, cells: Cell::all(evaluator) })
    }

    /// Cells.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Prices every choice and every way of a cell at a batch, or at the largest one that fits if that
    /// is smaller, and solves both phases by themselves; `None` where nothing fits.
    pub fn solve(&self, cell: usize, batch: u64) -> Option<Point> {
        let cell = &self.cells[cell];
        let size = self.scene.service(cell).size(batch);
        let decode = self.scene.decode_planes(cell, size);
        let most = self.scene.largest_batch(cell, &decode);
        if most == 0 {
            return None;
        }
        let prefill = self.scene.prefill_planes(cell, batch.min(most));
        let all = Objective::default();
        let least = [prefill.solve(&all)?.cost, decode.solve(&all)?.cost];
        let Cell { stages, replicas, apart, .. } = *cell;
        Some(Point { stages, replicas, apart, least })
    }
}
