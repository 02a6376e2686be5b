//! How long certificates take to write and to replay, and how large they are.

use crate::failure::{InSource, Outcome};
use crate::{input, output};
use shardc::facade::{self, Plan, Request};
use shardc_check::certificate::{Programs, replay};
use shardc_cost::machine::Cluster;
use shardc_ir::certificate::Certificate;
use shardc_ir::diag::Diagnostic;
use shardc_ir::graph::Module;
use shardc_ir::launch::Source;
use shardc_ir::text;
use std::path::PathBuf;
use std::time::Instant;

/// Times the certificates of the default plans of models.
///
/// Errors: input that cannot be read, a model that does not fit the cluster, or a certificate that
/// does not hold.
pub fn run(models: &[PathBuf], cluster: &Cluster) -> Outcome {
    output::print(&format!(
        "certificates for {} ({} devices)\n{:>10} {:>12} {:>9} {:>10} {:>8} {:>10}  model\n",
        cluster.name,
        cluster.devices(),
        "compile s",
        "certify ms",
        "share",
        "bytes",
        "steps",
        "replay ms"
    ))?;
    for path in models {
        let files = input::model(path)?;
        let start = Instant::now();
        let request = Request::new(&files.config.text, cluster.clone());
        let plan = facade::compile(&request, &mut |_, _| {}).in_source(&files.config)?;
        let texts = texts(&plan);
        let compiled = start.elapsed().as_secs_f64();

        let start = Instant::now();
        let source = |text: &String| Source::of("ir", text);
        let sources: Vec<[Source; 2]> = texts.iter().map(|[a, b]| [source(a), source(b)]).collect();
        let certificate = facade::certificate(&plan, &sources)?;
        let bytes = certificate.to_text().len();
        let certified = start.elapsed().as_secs_f64();

        let start = Instant::now();
        let steps = replayed(&plan, &certificate)?;
        let checked = start.elapsed().as_secs_f64();
        output::print(&format!(
            "{compiled:>10.2} {:>12.2} {:>8.2}% {bytes:>10} {steps:>8} {:>10.2}  {}\n",
            certified * 1e3,
            certified / compiled * 100.0,
            checked * 1e3,
            path.display()
        ))?;
    }
    Ok(())
}

/// Of every phase the texts of its logical and its local program, and all other dumps printed as
/// `compile -o` prints them.
fn texts(plan: &Plan) -> Vec<[String; 2]> {
    let one = |phase: &facade::PhasePlan| {
        let all: Vec<String> = phase.dumps.iter().map(|(_, module)| text::print(module)).collect();
        [all.first().cloned().unwrap_or_default(), all.last().cloned().unwrap_or_default()]
    };
    plan.phases.iter().map(one).collect()
}

/// Replays the certificate of a plan; returns the number of steps.
fn replayed(plan: &Plan, certificate: &Certificate) -> Result<usize, Vec<Diagnostic>> {
    let logical =
        |phase: usize| -> Option<&Module> { Some(&plan.phases.get(phase)?.dumps.first()?.1) };
    let mut steps = 0;
    for (i, (phase, proof)) in plan.phases.iter().zip(&certificate.phases).enumerate() {
        if let (Some(model), Some(logical), Some(local)) = (logical(0), logical(i), phase.local()) {
            let programs = Programs { model, logical, local };
            steps += replay(programs, proof)?.steps;
        }
    }
    Ok(steps)
}
