//! The devices of a cluster as axes of prime size, innermost first; stages take the outermost.

use shardc_ir::layout::primes;
use shardc_ir::mesh::{Axis, Mesh};

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Atom {
    /// Devices along it: a prime.
    pub size: u64,
    /// Whether neighbours along it stand in different nodes.
    pub across: bool,
    /// Distance of neighbours along it, in devices.
    pub stride: u64,
}

/// The axes of all devices in nodes of `node`.
pub(super) fn atoms(devices: u64, node: u64) -> Vec<Atom> {
    let inside = devices.min(node.max(1));
    let mut out = Vec::new();
    let mut stride = 1;
    for (devices, across) in [(inside, false), (devices / inside.max(1), true)] {
        for size in primes(devices) {
            out.push(Atom { size, across, stride });
            stride *= size;
        }
    }
    out
}

/// Numbers of pipeline stages, each with the number of axes that a stage has.
pub(super) fn stages(atoms: &[Atom], layers: u64) -> Vec<(u64, usize)> {
    let product = |atoms: &[Atom]| atoms.iter().map(|a| a.size).product::<u64>();
    let counts = (0..=atoms.len()).rev().map(|n| (product(&atoms[n..]), n));
    counts.filter(|(stages, _)| *stages <= layers.max(1)).collect()
}

/// A mesh in which neighbouring axes that are `alike` are one, and the axis of the mesh that each of
/// `atoms` became part of.
pub(super) fn mesh(atoms: &[Atom], alike: &dyn Fn(usize, usize) -> bool) -> (Mesh, Vec<u16>) {
    // From the outermost on, as meshes are written.
    let mut runs: Vec<(u64, bool, Vec<usize>)> = Vec::new();
    for at in (0..atoms.len()).rev() {
        let Atom { size, across, .. } = atoms[at];
        match runs.last_mut() {
            Some((total, far, run)) if *far == across && alike(run[0], at) => {
                *total *= size;
                run.push(at);
            }
            _ => runs.push((size, across, vec![at])),
        }
    }
    let count = |across: bool| runs.iter().filter(|r| r.1 == across).count();
    let many = [count(false) > 1, count(true) > 1];
    let mut numbers = [0, 0];
    let mut axes = Vec::new();
    let mut of = vec![0; atoms.len()];
    for (i, (size, across, run)) in runs.iter().enumerate() {
        let level = usize::from(*across);
        let stem = if *across { "node" } else { "gpu" };
        let number = numbers[level];
        numbers[level] += 1;
        let name = if many[level] { format!("{stem}{number}") } else { stem.to_string() };
        axes.push(Axis { name, size: *size });
        run.iter().for_each(|&atom| of[atom] = i as u16);
    }
    (Mesh { name: "m".to_string(), axes }, of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_take_the_outermost_axes() {
        let atoms = atoms(48, 8);
        let shown: Vec<_> = atoms.iter().map(|a| (a.size, a.across, a.stride)).collect();
        let outer = [(3, true, 8), (2, true, 24)];
        assert_eq!(&shown[..3], &[(2, false, 1), (2, false, 2), (2, false, 4)]);
        assert_eq!(shown.len(), 5);
        assert!(shown[3..] == outer || shown[3..] == [(2, true, 8), (3, true, 16)]);
        let stages = stages(&atoms, 7);
        assert!(stages.contains(&(1, 5)) && stages.contains(&(6, 3)), "{stages:?}");
        assert!(stages.iter().all(|(n, _)| *n <= 7));
    }

    #[test]
    fn axes_that_are_alike_are_one() {
        let atoms = atoms(32, 8);
        let (mesh, of) = mesh(&atoms, &|a, b| (a < 2) == (b < 2));
        assert_eq!(mesh.to_string(), r#"mesh @m = <["node"=4, "gpu0"=2, "gpu1"=4]>"#);
        assert_eq!(of, [2, 2, 1, 0, 0]);
    }
}
