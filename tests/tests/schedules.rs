//! Schedules of every shipped model: what passes decide can be read off and applied again, what is
//! not stated has a default, and whatever is legal computes what the model computes.

use shardc_cost::machine::preset;
use shardc_cost::profile::Profile;
use shardc_cost::serving::Load;
use shardc_frontend::config::{Options, read};
use shardc_frontend::graph::{GraphOptions, build};
use shardc_ir::flow::{self, Assignment};
use shardc_ir::graph::{Func, Module};
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::rule::Rule;
use shardc_passes::absorb_latent_attention::absorb_latent_attention;
use shardc_passes::registry;
use shardc_passes::schedule::{Base, Batching, Decisions, Schedule, complete, stated};
use shardc_passes::search::{Evaluated, Evaluator};
use shardc_passes::strategy::Degrees;
use shardc_passes::strategy::megatron::{ExpertExchange, Phase};
use shardc_tests::Outcome;
use shardc_tests::random::Random;
use shardc_verify::{Program, Programs, verify};
use std::collections::BTreeMap;
use std::path::Path;

/// Degrees to plan with on eight devices; a model takes those that it admits.
const DEGREES: [&str; 4] = ["tp=8", "tp=4,dp=2,ep=8", "tp=2,cp=2,dp=2,ep=4", "tp=2,pp=2,dp=2"];

/// Random schedules of each model.
const DRAWN: u64 = 2;

/// Shipped models are large: memory is not what these tests are about.
const LOAD: (u64, u64) = (1024, 128);

/// The logical programs of both phases.
struct Model {
    prefill: Module,
    decode: Module,
}

impl Model {
    fn read(source: &str) -> Result<Model, String> {
        let spec = read(source, &Options::default()).map_err(|d| d.to_string())?.spec;
        let prefill = build(&spec, &GraphOptions::default()).map_err(|d| d.to_string())?;
        let mut decode = prefill.clone();
        absorb_latent_attention(&mut decode, &registry::Options::default())
            .map_err(|d| d.to_string())?;
        Ok(Model { prefill, decode })
    }

    /// Runs `ask` with an evaluator on eight devices.
    fn with<T>(&self, ask: impl FnOnce(&Evaluator<'_>) -> T) -> Result<T, String> {
        let cluster = preset("b200x8").map_err(|d| d.to_string())?;
        let profile = Profile::default();
        let load = Load { concurrency: Some(8), ..Load::new(LOAD.0, LOAD.1) };
        let (prefill, decode) = (&self.prefill, &self.decode);
        let max_len = LOAD.0 + LOAD.1;
        let evaluator =
            Evaluator::new(prefill, decode, &cluster, &profile, load, max_len, 1.0, None);
        Ok(ask(&evaluator))
    }
}

fn by_rule(evaluator: &Evaluator<'_>, degrees: Degrees, exchange: ExpertExchange) -> Decisions {
    let rule = shardc_passes::schedule::Rule { degrees, exchange, pins: Vec::new() };
    let mesh = Mesh::new("m", []);
    Decisions {
        stages: evaluator.stages(&degrees).unwrap_or_default(),
        batching: Batching::default(),
        base: Base::Rule(rule),
        stored: BTreeMap::new(),
        stated: [Schedule::empty(mesh.clone()), Schedule::empty(mesh)],
    }
}

/// Every program of a plan computes what the model computes.
fn holds(evaluator: &Evaluator<'_>, plan: &Evaluated) -> Result<(), String> {
    let mut lists: BTreeMap<Phase, Vec<Program>> = BTreeMap::new();
    evaluator
        .lower_plan(plan, &mut |phase, pass, module| {
            let program = Program { pass: pass.to_string(), module: module.clone() };
            lists.entry(phase).or_default().push(program);
        })
        .map_err(|d| d.to_string())?;
    let mut take = |phase| lists.remove(&phase).unwrap_or_default();
    let programs = Programs { prefill: take(Phase::Prefill), decode: take(Phase::Decode) };
    verify(&programs, 1).map(drop).map_err(|d| format!("{d} {:?}", d.notes))
}

/// What is stated of a plan's layouts says all of them.
fn restated(evaluator: &Evaluator<'_>, plan: &Evaluated) -> Result<(), String> {
    let decisions = evaluator.decisions_of(plan).map_err(|d| d.to_string())?;
    let again = evaluator.resolve(&decisions).map_err(|d| d.to_string())?;
    let Some(layouts) = &plan.layouts else { return Err("no layouts".to_string()) };
    let pairs = [
        (&layouts.prefill, &again.prefill, Phase::Prefill),
        (&layouts.decode, &again.decode, Phase::Decode),
    ];
    for (ours, theirs, phase) in pairs {
        let full = complete(evaluator.program(phase), ours).map_err(|d| d.to_string())?;
        for (name, func) in &full.funcs {
            let other = &theirs.funcs[name];
            let at = format!("{} @{name}", phase.name());
            if func.params != other.params {
                let odd = func.params.iter().filter(|(v, l)| other.params.get(v) != Some(l));
                let odd: Vec<_> = odd.map(|(v, l)| (v, l, other.params.get(v))).collect();
                return Err(format!("{at}: parameters differ: {odd:?}"));
            }
            if func.assignments != other.assignments {
                let odd = func.assignments.iter();
                let odd = odd.filter(|(i, a)| other.assignments.get(i) != Some(a));
                let odd: Vec<_> = odd.map(|(i, a)| (i, a, other.assignments.get(i))).collect();
                return Err(format!("{at}: assignments differ: {odd:?}"));
            }
        }
        let fewest = stated(evaluator.program(phase), theirs, None).map_err(|d| d.to_string())?;
        let back = complete(evaluator.program(phase), &fewest).map_err(|d| d.to_string())?;
        if back != *theirs {
            return Err(format!("{}: not all is stated", phase.name()));
        }
    }
    let replayed = evaluator.evaluate_decisions(&decisions).map_err(|d| d.to_string())?;
    let replayed = replayed.map_err(|r| format!("{r:?}"))?;
    let steps = |p: &Evaluated| (p.serving.prefill_step, p.serving.decode_step);
    match steps(&replayed) == steps(plan) && replayed.memory == plan.memory {
        true => Ok(()),
        false => Err(format!("{:?} became {:?}", plan.serving, replayed.serving)),
    }
}

/// What a rule decides is read off its programs, and costs the same applied again.
fn extracted(_path: &Path, source: String) -> Outcome {
    let model = Model::read(&source)?;
    let mut found = Vec::new();
    for degrees in DEGREES {
        let degrees = Degrees::parse(degrees).map_err(|d| d.message)?;
        let one = model.with(|evaluator| -> Result<(), String> {
            if degrees.check(evaluator.facts(), 8, 8).is_err() {
                return Ok(());
            }
            let decisions = by_rule(evaluator, degrees, ExpertExchange::AllToAll);
            let plain = evaluator.evaluate_decisions(&decisions).map_err(|d| d.to_string())?;
            let Ok(plain) = plain else { return Ok(()) };
            let layouts = evaluator.resolve(&decisions).map_err(|d| d.to_string())?;
            let again =
                evaluator.evaluate_layouts(&degrees, &layouts).map_err(|d| d.to_string())?;
            let again = again.map_err(|r| format!("{r:?}"))?;
            let ratio =
                |a: shardc_cost::time::Ns, b: shardc_cost::time::Ns| a.as_f64() / b.as_f64();
            let ratios = [
                ratio(again.serving.decode_step, plain.serving.decode_step),
                ratio(again.serving.prefill_step, plain.serving.prefill_step),
            ];
            if again.memory.weights != plain.memory.weights
                || ratios.iter().any(|r| (r - 1.0).abs() > 0.01)
            {
                return Err(format!("{ratios:?} {:?} {:?}", again.memory, plain.memory));
            }
            holds(evaluator, &again)?;
            restated(evaluator, &again)
        })?;
        if let Err(problem) = one {
            found.push(format!("{degrees}: {problem}"));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}

/// A legal assignment of random axes.
fn draw(rule: &Rule, mesh: &Mesh, random: &mut Random) -> Assignment {
    let mut out = Assignment { axes: vec![Vec::new(); rule.factors.len()] };
    for axis in mesh.whole_axes() {
        let mut next = out.clone();
        if rule.factors.is_empty() || random.once_in(3) {
            continue;
        }
        let factor = random.below(rule.factors.len());
        next.axes[factor].push(axis);
        let parts = mesh.size_of(&next.axes[factor]);
        let small = rule.factors[factor].size.as_fixed().is_some_and(|n| n < parts);
        if !small && flow::check(rule, mesh, &next).is_ok() {
            out = next;
        }
    }
    out
}

fn drawn(func: &Func, mesh: &Mesh, random: &mut Random) -> shardc_passes::schedule::FuncSchedule {
    let mut out = shardc_passes::schedule::FuncSchedule::default();
    for &inst in &func.body {
        let data = &func.insts[inst];
        let rule = func.rule(inst);
        if let (Some(rule), false, false) =
            (rule, matches!(data.op, Op::Repeat(_)), random.once_in(2))
        {
            out.assignments.insert(inst, draw(&rule, mesh, random));
        }
    }
    out
}

/// Any legal assignment of some operators gives a program that computes what the model computes.
fn random(path: &Path, source: String) -> Outcome {
    let model = Model::read(&source)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for variant in 0..DRAWN {
        let mut random = Random::of(&name, variant);
        let mesh = Mesh::new("m", [("a", 2), ("b", 2), ("c", 2)]);
        let mut draw = |module: &Module| {
            let funcs = module.funcs.values();
            let funcs = funcs.map(|f| (f.name.clone(), drawn(f, &mesh, &mut random)));
            Schedule { mesh: mesh.clone(), funcs: funcs.collect() }
        };
        let stated = [draw(&model.prefill), draw(&model.decode)];
        model.with(|evaluator| -> Result<(), String> {
            let layers = evaluator.facts().layers;
            let decisions = Decisions {
                stages: vec![layers],
                batching: Batching { batch: Some(4), ..Batching::default() },
                base: Base::Operands { mesh: mesh.clone(), replicas: 1 + variant },
                stored: BTreeMap::new(),
                stated,
            };
            let plan = evaluator
                .evaluate_decisions(&decisions)
                .map_err(|d| format!("{d} {:?}", d.notes))?;
            let Ok(plan) = plan else { return Ok(()) };
            holds(evaluator, &plan)?;
            restated(evaluator, &plan)
        })??;
    }
    Ok(())
}

datatest_stable::harness! {
    { test = extracted, root = "../examples/models", pattern = r"^[^/]*__[^/]*\.json$" },
    { test = random, root = "../examples/models", pattern = r"^[^/]*__[^/]*\.json$" },
}
