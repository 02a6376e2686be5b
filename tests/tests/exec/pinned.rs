//! Whatever layouts are asked for, the program still computes what it computes: random pins on any
//! values of a golden model, on random meshes and pipeline stages.

use super::case::Case;
use shardc_ir::graph::Module;
use shardc_ir::layout::Layout;
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::types::Type;
use shardc_passes::pipeline::{Lowering, lower};
use shardc_passes::strategy::{Groups, Pin};
use shardc_tests::Outcome;
use shardc_tests::golden::Golden;
use shardc_tests::random::Random;
use shardc_verify::Sizes;
use std::path::Path;

const SIZES: Sizes = Sizes { requests: 2, prompt: 5, more: 0, steps: 1 };

/// Programs per model.
const SAMPLES: u64 = 24;

/// Meshes to draw from.
const MESHES: [&[u64]; 7] = [&[2], &[3], &[4], &[2, 2], &[2, 3], &[3, 2], &[2, 2, 2]];

/// Splits dimensions by random axes, each axis at most once.
fn layout(ty: &Type, mesh: &Mesh, random: &mut Random) -> Layout {
    let mut layout = Layout::replicated(ty.rank());
    for axis in mesh.whole_axes().filter(|_| ty.rank() > 0) {
        let dim = random.below(ty.rank());
        let fits = |n: u64| n >= axis.size(mesh);
        if random.once_in(2) && ty.dims[dim].as_fixed().is_none_or(fits) {
            layout.dims[dim].push(axis);
        }
    }
    layout.normalise(mesh)
}

/// Pins of about one in `rarity` values.
fn pins(module: &Module, mesh: &Mesh, rarity: usize, random: &mut Random) -> Vec<Pin> {
    let mut out = Vec::new();
    for func in module.funcs.values() {
        for value in func.values.values() {
            if random.once_in(rarity) {
                let pattern = format!("{}/{}", func.name, value.name);
                let layout = layout(&value.ty, mesh, random);
                out.push(Pin { pattern, layout, span: None });
            }
        }
    }
    out
}

/// Layers of each stage: one stage, or the first layer and the rest.
fn stages(layers: u64, random: &mut Random) -> Vec<u64> {
    if layers > 1 && random.once_in(4) { vec![1, layers - 1] } else { vec![layers] }
}

fn check(case: &Case, seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let names = ["x", "y", "z"];
    let sizes = *random.pick(&MESHES);
    let mesh = Mesh::new("m", names.into_iter().zip(sizes.iter().copied()));
    let whole: Vec<AxisRef> = mesh.whole_axes().collect();
    let groups = Groups { mesh, named: vec![("all", whole)] };
    let stage_layers = stages(case.facts.layers, &mut random);
    let rarity = 2 + random.below(6);
    let mut local = |logical: &Module, new: usize| {
        let pins = pins(logical, &groups.mesh, rarity, &mut random);
        let sizes = case.runs.symbols(new);
        let lowering =
            Lowering { groups: &groups, pins: &pins, sizes: &sizes, stage_layers: &stage_layers };
        lower(logical, &lowering, &mut |_, _| {}).map(|l| l.0).map_err(|d| d.to_string())
    };
    match (local(&case.prefill, SIZES.prompt), local(&case.decode, 1)) {
        (Ok(prefill), Ok(decode)) => case.check([&prefill, &decode]),
        (Err(cause), _) | (_, Err(cause)) if refused(&cause, &stage_layers) => Ok(()),
        (Err(cause), _) | (_, Err(cause)) => Err(cause),
    }
}

/// Whether a pin moves a stack of layers on its way to them, which stages cannot cut.
fn refused(cause: &str, stage_layers: &[u64]) -> bool {
    stage_layers.len() > 1 && cause.contains("cannot be cut into pipeline stages")
}

/// Random pins of one model.
pub fn pinned(config: &Path, _text: String) -> Outcome {
    let case = Case::new(Golden::read(config)?, SIZES)?;
    let problem = |seed: u64| check(&case, seed).err().map(|cause| format!("seed {seed}: {cause}"));
    let found: Vec<String> = (0..SAMPLES).filter_map(problem).collect();
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}
