//! Extraction against `exact`: a graph that begins with a plain program and with the one that `exact`
//! chose, of the same model on the same devices, gives a program that costs no more than the latter.

#![allow(clippy::unwrap_used, reason = "a test stops where the compiler is wrong")]

use shardc::facade::{ModelRequest, Programs, Request, read_model};
use shardc_cost::machine;
use shardc_cost::serving::Load;
use shardc_ir::algebra::rules;
use shardc_ir::dim::Bindings;
use shardc_ir::graph::Module;
use shardc_passes::egraph::module::{Alternative, Change, Terms, explore, extract};
use shardc_passes::egraph::{Budget, Room};
use shardc_passes::evaluate::Pricing;
use shardc_passes::registry::{Options, resolve};
use shardc_passes::search::outer::Recall;
use shardc_passes::search::{Method, search_recalling, step_bindings};
use shardc_passes::strategy::megatron::Phase;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

/// Models on at most 16 devices.
const CASES: [(&str, &str); 3] = [
    ("meta-llama__Meta-Llama-3.1-70B", "h100x8"),
    ("mistralai__Mixtral-8x7B-v0.1", "h100x8"),
    ("Qwen__Qwen3-30B-A3B", "h100x8"),
];

/// A phase of the plan that `exact` found.
struct Found {
    logical: Module,
    collective: Module,
    bind: Bindings,
}

/// The phases of the best plan of `exact`, and what judges them.
fn with_exact(name: &str, cluster: &str, check: impl Fn(&Found, Pricing<'_>)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/models");
    let config = std::fs::read_to_string(path.join(format!("{name}.json"))).unwrap();
    let cluster = machine::preset(cluster).unwrap();
    let request = Request { load: Load::new(2048, 512), ..Request::new(&config, cluster) };
    let model = read_model(&ModelRequest { config, ..ModelRequest::default() }).unwrap();
    let programs = Programs::of(&model).unwrap();
    let evaluator = programs.evaluator(&request, &request.cluster, None);
    let found = search_recalling(&evaluator, Method::Exact, None, Recall::default(), &mut |_| {});
    let plan = found.unwrap().0.unwrap().best;
    let mut seen: BTreeMap<(Phase, &str), Module> = BTreeMap::new();
    let mut note = |phase, pass, module: &Module| drop(seen.insert((phase, pass), module.clone()));
    evaluator.lower_plan(&plan, &mut note).unwrap();
    for phase in [Phase::Prefill, Phase::Decode] {
        let [logical, collective] =
            ["logical", "optimize-collectives"].map(|pass| seen[&(phase, pass)].clone());
        let served = (plan.degrees.dp, &plan.serving);
        let bind = step_bindings(&collective, phase, served, &request.load);
        let pricing = Pricing { cluster: &request.cluster, profile: &request.profile };
        check(&Found { logical, collective, bind }, pricing);
    }
}

/// The logical program with what another stores where that one stores it, and else as propagation lays
/// it out.
fn plain(found: &Found) -> Module {
    let mut module = found.logical.clone();
    module.mesh.clone_from(&found.collective.mesh);
    for (func, like) in module.funcs.values_mut().zip(found.collective.funcs.values()) {
        func.values.values_mut().for_each(|value| value.sharding = None);
        for (&param, &stored) in func.params.clone().iter().zip(&like.params) {
            func.values[param].sharding = like.values[stored].sharding.clone();
        }
    }
    let syms = module.syms.iter();
    let sizes = syms.map(|(sym, data)| (data.name.clone(), found.bind.get(sym))).collect();
    let options = Options { sizes, ..Options::default() };
    let lower = "propagate-shardings,insert-reshards,reshard-to-collectives,optimize-collectives";
    for pass in resolve(lower).unwrap() {
        pass.apply(&mut module, &options).unwrap();
    }
    module
}

/// What comes out of the graphs of a program and its alternatives.
fn extracted(
    module: &Module,
    alternatives: &[Alternative],
    found: &Found,
    pricing: Pricing<'_>,
) -> Vec<Change> {
    let budget = Budget::default();
    let graphs = explore(module, alternatives, rules(), budget).unwrap();
    let terms = Terms { pricing, bind: &found.bind, room: Room::of(u64::MAX) };
    extract(module, &graphs, terms, (rules(), budget)).unwrap().changes
}

fn total(changes: &[Change], cost: fn(&Change) -> u64) -> u64 {
    changes.iter().map(|change| cost(change).saturating_mul(change.times)).sum()
}

#[test]
fn extraction_is_no_worse_than_exact() {
    let cases = Cell::new(0);
    for (name, cluster) in CASES {
        with_exact(name, cluster, |found, pricing| {
            let exact = total(&extracted(&found.collective, &[], found, pricing), |c| c.before);
            let other = Alternative { module: found.collective.clone(), equal: Vec::new() };
            let changes = extracted(&plain(found), &[other], found, pricing);
            let (before, after) = (total(&changes, |c| c.before), total(&changes, |c| c.after));
            assert!(after <= exact, "{name}: {after} ns of {before}, where `exact` has {exact}");
            cases.set(cases.get() + 1);
        });
    }
    assert_eq!(cases.get(), 2 * CASES.len());
}
