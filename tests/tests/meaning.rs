//! Every pass keeps what a program computes.
//!
//! A case is a small logical program. Simplified, it gives the same numbers. Then it is pinned at
//! random, on random meshes, and lowered: what every pass leaves is verified, holds what the pass
//! establishes, and gives the same numbers on the simulated mesh, down to the programs of pipeline
//! stages.

use shardc_interp::{Inputs, Options as How, Outputs, run_on_mesh, run_whole};
use shardc_ir::graph::{Level, Module};
use shardc_ir::ops::Op;
use shardc_ir::text::print;
use shardc_passes::registry::{Options, Pass, Run, resolve};
use shardc_tests::Outcome;
use shardc_tests::algebra::differ;
use shardc_tests::pins::pinned;
use shardc_tests::program::Program;
use shardc_tests::random::Random;
use std::path::Path;

/// Random pins tried per case.
const VARIANTS: u64 = 100;

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
