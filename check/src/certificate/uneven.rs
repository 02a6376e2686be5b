//! Extents that do not divide: which parts runs make of them, and when parts lie inside others.
//!
//! A run stands for the prime factors of its size, largest first, which split one after another;
//! each gives the first parts what is left over. So the parts of a list of runs are known by its
//! [`digits`] alone.

use super::codes;
use super::place::{Run, parts};
use super::refusal::{Outcome, refuse};
use shardc_ir::dim::Dim;
use shardc_ir::layout::primes;
use shardc_ir::mesh::Mesh;

/// One prime factor of a run: the axis, the rung of the axis where it stands, the prime.
pub(super) type Digit = (usize, u64, u64);

/// The digits of a list of runs in normal form, in the order in which they split.
pub(super) fn digits(runs: &[Run]) -> Vec<Digit> {
    let mut out = Vec::new();
    for run in runs {
        let mut rung = run.from;
        for prime in primes(run.size()) {
            out.push((run.axis, rung, prime));
            rung *= prime;
        }
    }
    out
}

/// Whether the extent divides by `n`, whatever its symbol stands for.
pub(super) fn divides(extent: Dim, n: u64) -> bool {
    let (coefficient, _, shared) = extent.parts();
    n == 1 || shared == 1 && n > 0 && coefficient.is_multiple_of(n)
}

/// Refuses a run that splits an extent unevenly and is no run of the primes of its axis: where it
/// ends, other runs of the axis would begin elsewhere.
pub(super) fn parts_known(mesh: &Mesh, runs: &[Run], extent: Dim) -> Outcome {
    for (i, run) in runs.iter().enumerate() {
        if divides(extent, parts(&runs[..=i])) {
            continue;
        }
        let axis = mesh.axes.get(run.axis).map_or(1, |a| a.size);
        let mut rungs = vec![1];
        for prime in primes(axis) {
            rungs.push(rungs.last().copied().unwrap_or(1) * prime);
        }
        if !rungs.contains(&run.from) || !rungs.contains(&run.to) {
            let message = format!(
                "{} cuts its axis elsewhere than its prime factors do, and the extent does not divide",
                run.show(mesh)
            );
            return refuse(codes::PLACEMENT, message);
        }
    }
    Ok(())
}

/// Whether the parts of `fine`, of which `coarse` is the major part, lie inside those of `coarse`.
pub(super) fn nests(fine: &[Run], coarse: &[Run], extent: Dim) -> bool {
    divides(extent, parts(fine)) || digits(fine).starts_with(&digits(coarse))
}

/// Whether two lists cut the extent into the same parts, in the same order.
pub(super) fn same_parts(a: &[Run], b: &[Run], extent: Dim) -> bool {
    let primes = |runs: &[Run]| digits(runs).into_iter().map(|d| d.2).collect::<Vec<_>>();
    let (first, second) = (primes(a), primes(b));
    if parts(a) != parts(b) {
        return false;
    }
    if first == second || divides(extent, parts(a)) {
        return true;
    }
    let (n, symbol, shared) = extent.parts();
    symbol.is_none() && shared == 1 && sizes(n, &first) == sizes(n, &second)
}

/// The size of every part.
fn sizes(extent: u64, primes: &[u64]) -> Vec<u64> {
    primes.iter().fold(vec![extent], |parts, &p| {
        parts.iter().flat_map(|&n| (0..p).map(move |i| n / p + u64::from(i < n % p))).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(axis: usize, from: u64, to: u64) -> Run {
        Run { axis, from, to }
    }

    #[test]
    fn primes_split_largest_first() {
        assert_eq!(digits(&[run(0, 1, 12)]), [(0, 1, 3), (0, 3, 2), (0, 6, 2)]);
        assert_eq!(sizes(30, &[2, 2, 2]), [4, 4, 4, 3, 4, 4, 4, 3]);
    }

    #[test]
    fn uneven_parts_nest_where_the_primes_do() {
        let (whole, halves, thirds) = ([run(0, 1, 6)], [run(0, 1, 2)], [run(0, 1, 3)]);
        assert!(nests(&whole, &thirds, Dim::fixed(4)));
        assert!(!nests(&whole, &halves, Dim::fixed(4)));
        assert!(nests(&whole, &halves, Dim::fixed(12)));
        let mesh = Mesh::new("m", [("x", 6)]);
        assert!(parts_known(&mesh, &halves, Dim::fixed(4)).is_ok());
        assert!(parts_known(&mesh, &halves, Dim::fixed(5)).is_err());
        assert!(parts_known(&mesh, &thirds, Dim::fixed(5)).is_ok());
    }

    #[test]
    fn parts_are_compared_by_size() {
        let (two_three, three_two) = ([run(0, 1, 2), run(1, 1, 3)], [run(1, 1, 3), run(0, 1, 2)]);
        assert!(same_parts(&two_three, &three_two, Dim::fixed(6)));
        assert!(!same_parts(&two_three, &three_two, Dim::fixed(4)));
        assert!(!same_parts(&two_three, &[run(0, 1, 2)], Dim::fixed(6)));
    }
}
