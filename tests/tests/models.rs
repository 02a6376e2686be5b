//! Every shipped model, lowered: the program satisfies its level after every pass, and its text
//! reads back as it was.

use shardc_frontend::config::{Options, read};
use shardc_frontend::graph::{GraphOptions, build};
use shardc_ir::graph::Module;
use shardc_ir::ops::Op;
use shardc_ir::text::{listing, parse};
use shardc_ir::verify::verify_text;
use shardc_passes::pipeline::{Lowering, balanced_stages, lower};
use shardc_passes::strategy::megatron::{ExpertExchange, Phase, pins};
use shardc_passes::strategy::{Degrees, Facts, Groups};
use shardc_tests::{Outcome, line_of, place};
use std::path::Path;

/// Degrees to lower under; a model takes those that it admits.
const DEGREES: [&str; 7] = [
    "tp=1",
    "tp=8",
    "tp=4,dp=2,ep=8",
    "tp=2,dp=4,ep=4,etp=2",
    "dp=8,ep=8",
    "tp=8,pp=4",
    "tp=2,cp=4,dp=2,ep=8",
];

/// What is wrong with a module, by line of its listing.
fn problems(pass: &str, module: &Module) -> Vec<String> {
    let listing = listing(module);
    let text = &listing.text;
    let found = verify_text(module, &listing.spans).err().unwrap_or_default();
    let mut out: Vec<String> = found
        .iter()
        .map(|d| {
            let line = line_of(text, place(d).start);
            let source = text.lines().nth(line - 1).unwrap_or_default();
            format!(
                "after {pass}: {d}\n    {source}\n    notes {:?}\n    help {:?}",
                d.notes, d.help
            )
        })
        .collect();
    let parsed = parse(text);
    out.extend(parsed.diagnostics.iter().map(|d| format!("after {pass}: {d}")));
    if parsed.diagnostics.is_empty() && parsed.module != *module {
        out.push(format!("after {pass}: the text reads back as another module"));
    }
    out
}

fn layers(module: &Module) -> u64 {
    let insts = module.funcs.values().flat_map(|f| f.insts.values());
    insts.map(|i| if let Op::Repeat(repeat) = &i.op { repeat.count() } else { 0 }).sum()
}

fn lowered(_path: &Path, source: String) -> Outcome {
    let spec = read(&source, &Options::default()).map_err(|d| d.to_string())?.spec;
    let logical = build(&spec, &GraphOptions::default()).map_err(|d| d.to_string())?;
    let mut found = problems("the frontend", &logical);
    let facts = Facts::of(&logical);
    for text in DEGREES {
        let degrees = Degrees::parse(text).map_err(|d| d.to_string())?;
        if !degrees.is_legal(&facts, degrees.devices()) {
            continue;
        }
        let groups = Groups::new(&degrees, &facts, 8);
        for phase in [Phase::Prefill, Phase::Decode] {
            for exchange in [ExpertExchange::AllToAll, ExpertExchange::AllGather] {
                if exchange == ExpertExchange::AllGather && degrees.ep == 1 {
                    continue;
                }
                let stages = balanced_stages(layers(&logical), degrees.pp);
                let pins = pins(&groups, phase, exchange);
                let lowering =
                    Lowering { groups: &groups, pins: &pins, sizes: &[], stage_layers: &stages };
                let mut after = Vec::new();
                let result = lower(&logical, &lowering, &mut |pass, module| {
                    if after.is_empty() {
                        after = problems(pass, module);
                    }
                });
                let context = format!("{text} {} {exchange:?}", phase.name());
                found.extend(after.into_iter().map(|p| format!("{context}: {p}")));
                if let Err(problem) = result {
                    found.push(format!("{context}: {problem}"));
                }
            }
        }
    }
    found.truncate(6);
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}

datatest_stable::harness! {
    { test = lowered, root = "../examples/models", pattern = r"^[^/]*__[^/]*\.json$" },
}
