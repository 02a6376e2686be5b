//! Sharded, the golden models give what they give unsharded: every legal tuple of degrees on up to
//! eight devices, prompt and decode steps, on the simulated mesh.

use super::case::Case;
use shardc_ir::graph::Module;
use shardc_passes::pipeline::{Lowering, balanced_stages, lower};
use shardc_passes::strategy::megatron::{ExpertExchange, Phase, pins};
use shardc_passes::strategy::{Degrees, Facts, Groups};
use shardc_tests::Outcome;
use shardc_tests::golden::Golden;
use shardc_verify::Sizes;
use std::path::Path;

/// Odd, so that shares are uneven; more tokens than the shortest window has.
const SIZES: Sizes = Sizes { requests: 3, prompt: 9, more: 2, steps: 1 };

/// Devices to shard over.
const DEVICES: [u64; 6] = [1, 2, 3, 4, 6, 8];

/// Of so many tuples of degrees one is run at every level.
const EVERY_LEVEL: usize = 7;

/// Every legal tuple of degrees on `devices` devices.
pub fn tuples(facts: &Facts, devices: u64) -> Vec<Degrees> {
    let divisors = |n: u64| (1..=n).filter(move |d| n.is_multiple_of(*d));
    let mut out = Vec::new();
    for pp in divisors(devices) {
        let stage = devices / pp;
        for (tp, cp) in divisors(stage).flat_map(|tp| divisors(stage / tp).map(move |cp| (tp, cp)))
        {
            let base = Degrees { tp, pp, cp, dp: stage / tp / cp, ep: 1, etp: tp };
            if !facts.is_moe() {
                out.push(base);
                continue;
            }
            let experts =
                divisors(stage).flat_map(|ep| divisors(stage / ep).map(move |etp| (ep, etp)));
            out.extend(experts.map(|(ep, etp)| Degrees { ep, etp, ..base }));
        }
    }
    out.retain(|d| d.is_legal(facts, devices));
    out
}

/// The program of a phase after each pass from sharded level on.
fn lowered(
    case: &Case,
    degrees: &Degrees,
    phase: Phase,
    exchange: ExpertExchange,
) -> Result<Vec<(&'static str, Module)>, String> {
    let (logical, new) = match phase {
        Phase::Prefill => (&case.prefill, SIZES.prompt),
        Phase::Decode => (&case.decode, 1),
    };
    let groups = Groups::new(degrees, &case.facts, 8);
    let stage_layers = balanced_stages(case.facts.layers, degrees.pp);
    let (pins, sizes) = (pins(&groups, phase, exchange), case.runs.symbols(new));
    let lowering =
        Lowering { groups: &groups, pins: &pins, sizes: &sizes, stage_layers: &stage_layers };
    let mut after = Vec::new();
    let mut keep = |pass, module: &Module| after.push((pass, module.clone()));
    lower(logical, &lowering, &mut keep).map_err(|d| d.to_string())?;
    after.retain(|(_, module)| module.level > shardc_ir::graph::Level::Logical);
    Ok(after)
}

/// What is wrong with one tuple of degrees, at local level or at every level.
fn check(
    case: &Case,
    degrees: &Degrees,
    exchange: ExpertExchange,
    every_level: bool,
) -> Result<(), String> {
    let prefill = lowered(case, degrees, Phase::Prefill, exchange)?;
    let decode = lowered(case, degrees, Phase::Decode, exchange)?;
    let skip = if every_level { 0 } else { prefill.len() - 1 };
    for ((pass, prefill), (_, decode)) in prefill.iter().zip(&decode).skip(skip) {
        case.check([prefill, decode]).map_err(|cause| format!("after {pass}: {cause}"))?;
    }
    Ok(())
}

/// All of a model's tuples.
pub fn sharded(config: &Path, _text: String) -> Outcome {
    let case = Case::new(Golden::read(config)?, SIZES)?;
    let mut found = Vec::new();
    let mut count = 0;
    for degrees in DEVICES.into_iter().flat_map(|devices| tuples(&case.facts, devices)) {
        for exchange in [ExpertExchange::AllToAll, ExpertExchange::AllGather] {
            if exchange == ExpertExchange::AllGather && degrees.ep == 1 {
                continue;
            }
            count += 1;
            if let Err(cause) = check(&case, &degrees, exchange, count % EVERY_LEVEL == 1) {
                found.push(format!("{degrees} {exchange:?}: {cause}"));
            }
        }
    }
    match found.len() {
        0 => Ok(()),
        n => Err(format!("{n} of {count}\n{}", found.join("\n")).into()),
    }
}
