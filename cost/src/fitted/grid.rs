//! Multilinear interpolation on a grid.

/// Values at the knots of `N` axes, the last axis fastest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grid<const N: usize> {
    axes: [Vec<f64>; N],
    values: Vec<f64>,
}

impl<const N: usize> Grid<N> {
    /// A grid, if there is a value for each knot, at least one knot an axis, and growing axes.
    pub fn new(axes: [Vec<f64>; N], values: Vec<f64>) -> Option<Grid<N>> {
        let knots: usize = axes.iter().map(Vec::len).product();
        let grows = |axis: &Vec<f64>| axis.windows(2).all(|w| w[0] < w[1]);
        let sound = knots > 0 && knots == values.len() && axes.iter().all(grows);
        sound.then_some(Grid { axes, values })
    }

    /// The grid of one knot.
    pub fn single(value: f64) -> Grid<N> {
        Grid { axes: std::array::from_fn(|_| vec![1.0]), values: vec![value] }
    }

    /// Every value replaced by a function of its knot and itself.
    pub fn map(mut self, f: impl Fn([f64; N], f64) -> f64) -> Grid<N> {
        for i in 0..self.values.len() {
            let (mut rest, mut at) = (i, [0.0; N]);
            for (x, axis) in at.iter_mut().zip(&self.axes).rev() {
                *x = axis[rest % axis.len()];
                rest /= axis.len();
            }
            self.values[i] = f(at, self.values[i]);
        }
        self
    }

    /// The least grid above this one whose values never fall along an axis.
    pub fn growing(mut self) -> Grid<N> {
        let mut stride = 1;
        for axis in self.axes.iter().rev() {
            for i in 0..self.values.len() {
                if i / stride % axis.len() > 0 {
                    self.values[i] = self.values[i].max(self.values[i - stride]);
                }
            }
            stride *= axis.len();
        }
        self
    }

    /// The value at the lower ends of all axes, the least one of a growing grid.
    pub fn least(&self) -> f64 {
        self.values[0]
    }

    /// The nearest point of the grid.
    pub fn clamp(&self, at: [f64; N]) -> [f64; N] {
        std::array::from_fn(|i| {
            let axis = &self.axes[i];
            at[i].clamp(axis[0], axis[axis.len() - 1])
        })
    }

    /// The value at a point of the grid.
    pub fn at(&self, at: [f64; N]) -> f64 {
        let cells = std::array::from_fn(|i| cell(&self.axes[i], at[i]));
        self.between(&cells, 0, 0)
    }

    /// Interpolates over the axes from `axis` on; `start` numbers the knots chosen before.
    fn between(&self, cells: &[(usize, f64); N], axis: usize, start: usize) -> f64 {
        if axis == N {
            return self.values[start];
        }
        let (knot, share) = cells[axis];
        let start = start * self.axes[axis].len() + knot;
        let low = self.between(cells, axis + 1, start);
        if share == 0.0 {
            return low;
        }
        low + share * (self.between(cells, axis + 1, start + 1) - low)
    }
}

/// The knot at or below `x`, and how far `x` is on the way to the next one.
fn cell(axis: &[f64], x: f64) -> (usize, f64) {
    let knot = axis.partition_point(|k| *k <= x).saturating_sub(1);
    match axis.get(knot + 1) {
        Some(next) => (knot, ((x - axis[knot]) / (next - axis[knot])).clamp(0.0, 1.0)),
        None => (knot, 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid<2> {
        let axes = [vec![1.0, 2.0, 4.0], vec![10.0, 30.0]];
        Grid::new(axes, vec![0.0; 6]).unwrap().map(|[x, y], _| 5.0 + 3.0 * x + x * y)
    }

    #[test]
    fn products_of_sizes_come_back_exactly() {
        for [x, y] in [[1.0, 10.0], [3.0, 17.0], [4.0, 30.0], [1.5, 25.0]] {
            assert!((grid().at([x, y]) - (5.0 + 3.0 * x + x * y)).abs() < 1e-9);
        }
        assert_eq!(grid().clamp([0.0, 99.0]), [1.0, 30.0]);
        assert_eq!(grid().least(), 18.0);
    }

    #[test]
    fn growing_lifts_dents_only() {
        let dented = grid().map(|[x, y], v| if (x, y) == (2.0, 30.0) { 1.0 } else { v }).growing();
        assert_eq!(dented.at([2.0, 30.0]), grid().at([1.0, 30.0]));
        assert_eq!(dented.at([4.0, 30.0]), grid().at([4.0, 30.0]));
        assert_eq!(grid().growing(), grid());
    }

    #[test]
    fn unsound_grids_are_refused() {
        assert!(Grid::new([vec![1.0, 1.0]], vec![0.0, 0.0]).is_none());
        assert!(Grid::new([vec![1.0]], vec![]).is_none());
        assert!(Grid::<1>::new([vec![]], vec![]).is_none());
        assert_eq!(Grid::<3>::single(7.0).at([1.0; 3]), 7.0);
    }
}
