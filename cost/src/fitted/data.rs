//! The file of surfaces: lines `name;error near the floor,error above;axis;axis;…`, an empty line,
//! then the times as 16-bit numbers, log2 of ns in steps of 1/1024 octave.

use super::Grid;

const FILE: &[u8] = include_bytes!("../../data/h100.surfaces");

/// Steps of an octave.
const STEPS: f64 = 1024.0;

/// A surface as measured.
#[derive(Debug)]
pub(super) struct Table<const N: usize> {
    pub grid: Grid<N>,
    /// Mean relative error of held-back rows: under twice the least time, and above.
    pub errors: (f64, f64),
}

/// The surface of a name. A name or shape that the file lacks gives no time at all; a test reads
/// every surface that the crate asks for.
pub(super) fn table<const N: usize>(name: &str) -> Table<N> {
    find(name).unwrap_or_else(|| Table { grid: Grid::single(0.0), errors: (1.0, 1.0) })
}

fn find<const N: usize>(name: &str) -> Option<Table<N>> {
    let split = FILE.windows(2).position(|w| w == b"\n\n")?;
    let header = std::str::from_utf8(&FILE[..split]).ok()?;
    let mut skipped = 0;
    for line in header.lines() {
        let (found, rest) = line.split_once(';')?;
        let (errors, axes) = rest.split_once(';')?;
        let axes: Vec<Vec<f64>> = axes.split(';').map(numbers).collect::<Option<_>>()?;
        let knots: usize = axes.iter().map(Vec::len).product();
        if found != name {
            skipped += knots;
            continue;
        }
        let body = FILE.get(split + 2 + 2 * skipped..)?.get(..2 * knots)?;
        let times = body.chunks_exact(2).map(|b| time(i16::from_le_bytes([b[0], b[1]])));
        let [low, high] = numbers(errors)?[..] else { return None };
        let grid = Grid::new(axes.try_into().ok()?, times.collect())?;
        return Some(Table { grid, errors: (low, high) });
    }
    None
}

fn time(steps: i16) -> f64 {
    (f64::from(steps) / STEPS).exp2()
}

fn numbers(cell: &str) -> Option<Vec<f64>> {
    cell.split(',').map(|n| n.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_holds_exactly_what_its_header_says() {
        let split = FILE.windows(2).position(|w| w == b"\n\n").unwrap();
        let header = std::str::from_utf8(&FILE[..split]).unwrap();
        let knots = |line: &str| -> usize {
            line.split(';').skip(2).map(|a| a.split(',').count()).product()
        };
        assert_eq!(FILE.len(), split + 2 + 2 * header.lines().map(knots).sum::<usize>());
        assert!(FILE.len() < 1 << 20);
    }

    #[test]
    fn measured_surfaces_grow() {
        let gemm = find::<3>("gemm_16").unwrap();
        assert_eq!(gemm.grid.clone().growing(), gemm.grid);
        assert!((2000.0..4000.0).contains(&gemm.grid.least()));
        assert!(find::<2>("gemm_16").is_none());
        assert!(find::<3>("gemm_17").is_none());
    }
}
