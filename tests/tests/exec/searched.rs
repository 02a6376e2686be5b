//! Plans that searches choose or draw, operator by operator, on CPU ranks and on the simulated mesh:
//! what golden models give.

use super::launched::check;
use shardc_cost::machine::preset;
use shardc_cost::profile::Profile;
use shardc_cost::serving::{Load, Objective};
use shardc_passes::search::outer::{Dice, LayoutSpace, Space, drawn};
use shardc_passes::search::{Evaluated, Evaluator, Method, search};
use shardc_passes::strategy::megatron::Phase;
use shardc_tests::Outcome;
use shardc_tests::ranks::Ranks;
use shardc_verify::{Program, Programs, verify};
use std::path::Path;

/// Devices to search and draw for.
const DEVICES: [u64; 6] = [1, 2, 3, 4, 6, 8];

/// Schedules drawn for each number of devices above one: in a sample, and of every model's.
const DRAWN: [usize; 2] = [1, 12];

/// Set to run what every load leads to, and more draws.
const EVERY: &str = "SHARDC_EVERY";

/// What services are searched for: prompts and answers, requests in flight, and what is best.
fn loads(model: &Ranks) -> Result<[Load; 4], String> {
    let context = model.context().map_err(|e| e.to_string())?;
    let load =
        |isl, osl, concurrency, objective| Load { concurrency, objective, ..Load::new(isl, osl) };
    Ok([
        load(context, 8, None, Objective::Throughput),
        load(context, 8, Some(1), Objective::Latency),
        load(8 * context, 64, Some(3), Objective::Throughput),
        load(8, 8 * context, Some(64), Objective::Throughput),
    ])
}

/// Runs `ask` with an evaluator of a model on so many devices.
fn with<T>(
    model: &Ranks,
    devices: u64,
    load: Load,
    ask: impl FnOnce(&Evaluator<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let cluster = preset("h100x8").and_then(|c| c.take(devices)).map_err(|d| d.to_string())?;
    let profile = Profile::default();
    let (prefill, decode) = (&model.prefill, &model.decode);
    let max_len = load.isl + load.osl;
    ask(&Evaluator::new(prefill, decode, &cluster, &profile, load, max_len, 1.0, None))
}

/// A plan on the simulated mesh after every pass, and on CPU ranks with the golden requests.
fn holds(model: &Ranks, evaluator: &Evaluator<'_>, plan: &Evaluated) -> Result<(), String> {
    let mut programs = Programs { prefill: Vec::new(), decode: Vec::new() };
    let mut keep = |phase, pass: &'static str, module: &shardc_ir::graph::Module| {
        let list = match phase {
            Phase::Prefill => &mut programs.prefill,
            Phase::Decode => &mut programs.decode,
        };
        list.push(Program { pass: pass.to_string(), module: module.clone() });
    };
    let lowered = evaluator.lower_plan(plan, &mut keep).map_err(|d| d.to_string())?;
    verify(&programs, 1).map_err(|d| format!("{d} {:?}", d.notes))?;
    let context = model.context().map_err(|e| e.to_string())?;
    let launched = model.launched([lowered.prefill.0, lowered.decode.0], context)?;
    check(model, &launched)
}

/// The best plan that `exact` finds.
fn exact(model: &Ranks, devices: u64, load: Load) -> Result<(), String> {
    with(model, devices, load, |evaluator| {
        let found = search(evaluator, Method::Exact, None, &mut |_, _| {});
        let found = found.map_err(|d| d.to_string())?;
        let found = found.map_err(|nothing| format!("nothing fits: {nothing:?}"))?;
        holds(model, evaluator, &found.best)
    })
}

/// Plans with layouts drawn operator by operator; how many ran.
fn draws(model: &Ranks, devices: u64, load: Load, count: usize) -> Result<usize, String> {
    with(model, devices, load, |evaluator| {
        let space = LayoutSpace::new(evaluator);
        let mut dice = Dice::new(devices);
        let mut ran = 0;
        // A draw that no memory or no service has room for is drawn again.
        for number in 0..4 * count {
            let mut genome = drawn(&space, &mut dice, number % 2 == 1);
            space.repair(&mut genome);
            let Ok(plan) = space.plan(&genome).map_err(|d| d.to_string())? else { continue };
            holds(model, evaluator, &plan).map_err(|cause| format!("draw {number}: {cause}"))?;
            ran += 1;
            if ran == count {
                break;
            }
        }
        Ok(ran)
    })
}

/// What `exact` finds under several loads, and drawn schedules, on every number of devices.
pub fn searched(config: &Path, _text: String) -> Outcome {
    let model = Ranks::read(config)?;
    let every = std::env::var_os(EVERY).is_some();
    let loads = loads(&model)?;
    let (mut found, mut ran) = (Vec::new(), 0);
    for (at, devices) in DEVICES.into_iter().enumerate() {
        for (number, &load) in loads.iter().enumerate() {
            if every || number == at % loads.len() {
                let problem = exact(&model, devices, load).err();
                found.extend(problem.map(|p| format!("exact, {devices} devices, {load:?}: {p}")));
            }
        }
        if devices > 1 {
            match draws(&model, devices, loads[0], DRAWN[usize::from(every)]) {
                Ok(count) => ran += count,
                Err(problem) => found.push(format!("{devices} devices: {problem}")),
            }
        }
    }
    if found.is_empty() && ran < DEVICES.len() - 2 {
        found.push(format!("only {ran} draws could run"));
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}
