//! Certificates of every shipped model hold.

use shardc_ir::certificate::{Certificate, VERSION};
use shardc_passes::strategy::megatron::ExpertExchange;
use shardc_tests::Outcome;
use shardc_tests::forge::Phase;
use shardc_tests::plan::plan;
use std::path::Path;

/// Degrees to plan with; a model takes those that it admits.
const DEGREES: [&str; 6] = [
    "tp=8,pp=2",
    "tp=4,dp=2,ep=8",
    "tp=2,cp=4,dp=2,ep=8",
    "tp=2,dp=3,ep=3",
    "tp=16,pp=4",
    "dp=8,pp=3,ep=8",
];

/// Largest certificate of both phases, bytes.
const LARGEST: usize = 200 << 10;

/// Every plan is certified.
fn hold(_path: &Path, source: String) -> Outcome {
    let mut found = Vec::new();
    for degrees in DEGREES {
        for exchange in [ExpertExchange::AllToAll, ExpertExchange::AllGather] {
            let Some(plan) = plan(&source, degrees, exchange)? else { continue };
            let mut phases = Vec::new();
            for phase in Phase::all(&plan) {
                let proof = phase.certify()?;
                if let Err(problems) = phase.replay(&proof) {
                    let shown = problems.iter().map(|d| format!("{d} {:?}", d.notes));
                    let shown = shown.collect::<Vec<_>>().join("\n");
                    found.push(format!("{degrees} {exchange:?}: {shown}"));
                }
                phases.push(proof);
            }
            let certificate = Certificate { version: VERSION, phases };
            let text = certificate.to_text();
            assert_eq!(Certificate::read(&text)?, certificate);
            assert!(text.len() <= LARGEST, "{degrees}: {} bytes", text.len());
            if !degrees.contains("ep=") {
                break;
            }
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}

datatest_stable::harness! {
    { test = hold, root = "../examples/models", pattern = r"^[^/]*__[^/]*\.json$" },
}
