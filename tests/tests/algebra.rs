//! Every rule of the table keeps what a program computes, and adds something.
//!
//! A case `RULE.sir` or `RULE.WHAT.sir` is a program at collective level in which the rule holds. The
//! rule alone, or with those of a line `; with: NAME, …`, must add to its graph, a program that uses
//! what it added must come out, and every program that comes out gives the same numbers.
//!
//! A case of `files/meaning` is pinned at random and lowered; then the whole table works on it.

use shardc_interp::run_on_mesh;
use shardc_ir::algebra::{Pattern, Rule, rules};
use shardc_passes::egraph::Budget;
use shardc_passes::registry::{Options, resolve};
use shardc_tests::Outcome;
use shardc_tests::algebra::check;
use shardc_tests::pins::pinned;
use shardc_tests::program::Program;
use shardc_tests::random::Random;
use std::path::Path;

/// Programs taken out of each graph.
const DRAWS: u64 = 12;

/// Random pins tried for each program of `files/meaning`.
const VARIANTS: u64 = 12;

/// The rules of a case: its own first.
fn of_case(name: &str, source: &str) -> Result<Vec<Rule>, String> {
    let with = source.lines().find_map(|l| l.strip_prefix("; with: ")).unwrap_or_default();
    let names = [name].into_iter().chain(with.split(',').map(str::trim).filter(|n| !n.is_empty()));
    let find = |n: &str| Rule::named(n).cloned().ok_or_else(|| format!("no rule is called {n}"));
    names.map(find).collect()
}

fn rule(path: &Path, source: String) -> Outcome {
    let file = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let name = file.split('.').next().unwrap_or_default();
    let rules = of_case(name, &source)?;
    let program = Program::read(&source)?;
    let mut random = Random::of(&file, 0);
    let bind = program.bind(&mut random);
    let main = program.module.func("main").ok_or("there is no @main")?;
    let inputs = program.inputs(&program.module.funcs[main], &bind, &mut random)?;
    let checked = check(&program.module, &rules, Budget::default(), DRAWS, &inputs)?;
    if !checked.found.contains(name) {
        return Err(format!("{name} is not found").into());
    }
    // That two views of a value in one layout are equal is so by construction.
    let builds = !matches!(rules[0].rhs, Pattern::Var(_));
    if builds && !checked.fired.contains(name) {
        return Err(format!("{name} adds nothing").into());
    }
    if builds && !checked.used.contains(name) {
        return Err(format!("no program uses what {name} adds").into());
    }
    Ok(())
}

fn table(path: &Path, source: String) -> Outcome {
    let file = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let program = Program::read(&source)?;
    let mut random = Random::of(&file, 0);
    let bind = program.bind(&mut random);
    let module = &program.module;
    let main = module.func("main").ok_or("there is no @main")?;
    let inputs = program.inputs(&module.funcs[main], &bind, &mut random)?;
    let sizes = module.syms.iter().map(|(sym, data)| (data.name.clone(), bind.get(sym))).collect();
    let options = Options { sizes, ..Options::default() };
    let lower = "propagate-shardings,insert-reshards,reshard-to-collectives,optimize-collectives";
    let lower = resolve(lower).map_err(|d| d.to_string())?;
    for variant in 1..=VARIANTS {
        let mut random = Random::of(&file, variant);
        let mut module = pinned(module, &mut random);
        for pass in &lower {
            pass.apply(&mut module, &options).map_err(|d| format!("variant {variant}: {d}"))?;
        }
        if run_on_mesh(&module, &inputs, &shardc_interp::Options::default()).is_err() {
            return Err(format!("variant {variant} does not run").into());
        }
        let budget = Budget { nodes: 1_500, rounds: 12 };
        let checked = check(&module, rules(), budget, 3, &inputs);
        checked.map_err(|e| format!("variant {variant}: {e}"))?;
    }
    Ok(())
}

datatest_stable::harness! {
    { test = rule, root = "files/algebra", pattern = r"\.sir$" },
    { test = table, root = "files/meaning", pattern = r"\.sir$" },
}
