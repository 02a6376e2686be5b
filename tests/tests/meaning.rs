//! Every pass keeps what a program computes.
//!
//! A case is a small logical program. Simplified, it gives the same numbers. Then it is pinned at
//! random, on random meshes, and lowered: what every pass leaves is verified, holds what the pass
//! establishes, and gives the same numbers on the simulated mesh, down to the programs of pipeline
//! stages.

use shardc_interp::{Inputs, Options as How, Outputs, run_on_mesh, run_whole};
use shardc_ir::graph::{Level, Module};
use shardc_ir::layout::{DimAnnotation, Layout, Sharding, axes};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;
use shardc_ir::text::print;
use shardc_ir::verify::verify;
use shardc_passes::registry::{Options, Pass, Run, resolve};
use shardc_tests::Outcome;
use shardc_tests::program::Program;
use shardc_tests::random::Random;
use std::path::Path;

/// Random pins tried per case.
const VARIANTS: u64 = 100;

/// Largest relative distance of equal numbers: sums in another order, in f64.
const TOLERANCE: f64 = 1e-9;

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

/// What of two outputs differs.
fn differ(wanted: &Outputs, got: &Outputs) -> Option<String> {
    let pairs = wanted.results.iter().zip(&got.results).enumerate();
    let results = pairs.map(|(i, (a, b))| (format!("result {i}"), a, b));
    let caches = wanted
        .caches
        .iter()
        .filter_map(|(name, a)| Some((format!("cache {name}"), a, got.caches.get(name)?)));
    if wanted.results.len() != got.results.len() || wanted.caches.len() != got.caches.len() {
        return Some("another number of results".to_string());
    }
    results.chain(caches).find_map(|(name, a, b)| {
        let far = |(x, y): (&f64, &f64)| {
            let close = (x - y).abs() <= TOLERANCE * (1.0 + x.abs());
            let alike = close || (x.is_nan() && y.is_nan());
            !alike
        };
        let same = a.shape() == b.shape() && !a.data().iter().zip(b.data()).any(far);
        (!same).then(|| format!("{name} differs"))
    })
}

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
fn pinned(module: &Module, random: &mut Random) -> Module {
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

/// Layers per stage: one stage, or two where there are layers enough.
fn stages(module: &Module, random: &mut Random) -> Vec<u64> {
    let insts = module.funcs.values().flat_map(|f| f.insts.values());
    let counts: Vec<u64> = insts
        .filter_map(|i| if let Op::Repeat(repeat) = &i.op { Some(repeat.count()) } else { None })
        .collect();
    match counts[..] {
        [layers] if layers > 1 && random.once_in(2) => {
            let first = 1 + random.below(layers as usize - 1) as u64;
            vec![first, layers - first]
        }
        _ => Vec::new(),
    }
}

/// Runs passes one by one; every program that can run gives what is wanted.
fn check(
    module: &Module,
    passes: &[&'static Pass],
    run: &Run,
    (inputs, wanted): (&Inputs, &Outputs),
) -> Result<(), String> {
    let mut module = module.clone();
    for pass in passes {
        let before = module.clone();
        let context = |what: String| format!("after {}: {what}\n{}", pass.name, print(&before));
        pass.apply_checked(&mut module, &run.options)
            .map_err(|d| context(format!("{d} {:?}", d.notes)))?;
        let how = How::default();
        let got = match module.level {
            Level::Logical => run_whole(&module, inputs, &how),
            _ => run_on_mesh(&module, inputs, &how),
        };
        let got = got.map_err(|d| context(format!("{d} {:?}\n{}", d.notes, print(&module))))?;
        if let Some(what) = differ(wanted, &got) {
            return Err(context(format!("{what}\n{}", print(&module))));
        }
    }
    Ok(())
}

fn keeps(path: &Path, source: String) -> Outcome {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let program = Program::read(&source)?;
    let module = &program.module;
    let mut random = Random::of(&name, 0);
    let bind = program.bind(&mut random);
    let main = module.func("main").ok_or("there is no @main")?;
    let inputs = program.inputs(&module.funcs[main], &bind, &mut random)?;
    let sizes = module.syms.iter().map(|(sym, data)| (data.name.clone(), bind.get(sym))).collect();
    let wanted = run_whole(module, &inputs, &How::default()).map_err(|d| d.to_string())?;
    let mut run = Run { options: Options { sizes, ..Options::default() }, verify_each: true };
    let simplify = resolve("absorb-latent-attention,simplify").map_err(|d| d.to_string())?;
    check(module, &simplify, &run, (&inputs, &wanted))?;
    let lower = resolve("default").map_err(|d| d.to_string())?;
    for variant in 1..=VARIANTS {
        let mut random = Random::of(&name, variant);
        let pinned = pinned(module, &mut random);
        run.options.stage_layers = stages(module, &mut random);
        let checked = check(&pinned, &lower, &run, (&inputs, &wanted));
        if let Err(e) = checked
            && !e.contains("cut into pipeline stages")
        {
            return Err(format!("variant {variant}: {e}").into());
        }
    }
    Ok(())
}

datatest_stable::harness! {
    { test = keeps, root = "files/meaning", pattern = r"\.sir$" },
}
