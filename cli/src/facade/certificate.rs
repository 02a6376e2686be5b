//! The certificate of a compiled plan.

use super::Plan;
use shardc_ir::certificate::{Certificate, VERSION};
use shardc_ir::diag::Result;
use shardc_ir::launch::Source;
use shardc_passes::certify::{Program, certify};

/// Why the local programs of a plan compute what its model computes; `sources` are of each phase the
/// dumps of its logical and of its local program. The model is what prompts are fed to.
///
/// # Errors
/// `S401` where an instruction comes from nowhere.
pub fn certificate(plan: &Plan, sources: &[[Source; 2]]) -> Result<Certificate> {
    let mut phases = Vec::new();
    let programs: Vec<[Program<'_>; 2]> = plan
        .phases
        .iter()
        .zip(sources)
        .filter_map(|(phase, [first, last])| {
            let logical = &phase.dumps.first()?.1;
            let program = |module, source: &Source| Program { module, source: source.clone() };
            Some([program(logical, first), program(phase.local()?, last)])
        })
        .collect();
    for (phase, [logical, local]) in plan.phases.iter().zip(&programs) {
        phases.push(certify(phase.phase.name(), &programs[0][0], logical, local)?);
    }
    Ok(Certificate { version: VERSION, phases })
}
