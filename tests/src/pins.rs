//! Random meshes and random pins on the values of a program.

use crate::random::Random;
use shardc_ir::graph::Module;
use shardc_ir::layout::{DimAnnotation, Layout, Sharding, axes};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::verify::verify;

/// Meshes, as axes with sizes.
const MESHES: [&[(&str, u64)]; 8] = [
    &[("x", 4)],
    &[("x", 2), ("y", 2)],
    &[("x", 2), ("y", 3)],
    &[("x", 6)],
    &[("x", 2), ("y", 2), ("z", 2)],
    &[("x", 1), ("y", 2)],
    &[("x", 8)],
    &[("x", 1)],
];

/// Some axes of a mesh, or parts of them, in random order.
fn some_axes(mesh: &Mesh, random: &mut Random) -> Vec<AxisRef> {
    let mut out = Vec::new();
    for axis in mesh.whole_axes() {
        let size = axis.size(mesh);
        let part = match (size, random.below(6)) {
            (4 | 8, 0) => AxisRef::part(axis.axis, 1, 2),
            (4 | 8, 1) => AxisRef::part(axis.axis, 2, size / 2),
            (6, 0) => AxisRef::part(axis.axis, 1, 3),
            (6, 1) => AxisRef::part(axis.axis, 2, 3),
            _ => axis,
        };
        if !random.once_in(3) {
            let at = random.below(out.len() + 1);
            out.insert(at, part);
        }
    }
    out
}

/// A random annotation of a value.
fn annotation(mesh: &Mesh, rank: usize, random: &mut Random) -> Sharding {
    let mut layout = Layout::replicated(rank);
    for axis in some_axes(mesh, random).into_iter().filter(|_| rank > 0) {
        layout.dims[random.below(rank)].push(axis);
    }
    let mut sharding = Sharding::decided(layout);
    if random.once_in(3) {
        let dim = |_| DimAnnotation {
            open: random.once_in(2),
            priority: random.once_in(3).then(|| random.below(3) as u32),
        };
        sharding.dims = (0..rank).map(dim).collect();
        let used = sharding.layout.axes_used();
        sharding.replicated = axes::free(mesh, &used).into_iter().take(1).collect();
    }
    sharding
}

/// The program with a random mesh and as many random pins as are legal.
pub fn pinned(module: &Module, random: &mut Random) -> Module {
    let mut module = module.clone();
    let mesh = Mesh::new("m", MESHES[random.below(MESHES.len())].iter().copied());
    module.mesh = Some(mesh.clone());
    let density = 2 + random.below(6);
    for id in module.funcs.keys().collect::<Vec<_>>() {
        let values: Vec<_> = module.funcs[id].values.keys().collect();
        for value in values {
            if !random.once_in(density) {
                continue;
            }
            let before = module.clone();
            let rank = module.funcs[id].ty(value).rank();
            module.funcs[id].values[value].sharding = Some(annotation(&mesh, rank, random));
            if verify(&module).is_err() {
                module = before;
            }
        }
    }
    module
}
