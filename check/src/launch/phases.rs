//! Launch plans of several phases together: what they store lies in one place.

use crate::codes;
use crate::findings::Findings;
use shardc_ir::diag::Diagnostic;
use shardc_ir::launch::{Buffer, BufferKind, LaunchPlan, Place, Program};
use std::collections::BTreeMap;

/// Checks that the plans of a model's phases keep weights and caches in the same places, on the
/// same ranks.
///
/// # Errors
/// `K151` for everything that lies elsewhere.
pub fn agree(plans: &[&LaunchPlan]) -> Result<(), Vec<Diagnostic>> {
    let mut findings = Findings::default();
    let Some((first, others)) = plans.split_first() else { return Ok(()) };
    for other in others {
        compare(first, other, &mut findings);
    }
    findings.into_result()
}

fn compare(a: &LaunchPlan, b: &LaunchPlan, findings: &mut Findings) {
    let help = "weights are loaded once, and prefill leaves its caches to decode: compile again";
    let mut differ = |what: String| {
        let message = format!("{what} in {} than in {}", b.phase, a.phase);
        findings.add(codes::PHASES, message, help);
    };
    if a.ranks() != b.ranks() {
        differ("there is another number of ranks".to_string());
    }
    let held = |plan: &LaunchPlan| -> BTreeMap<String, u64> {
        plan.dims.iter().map(|b| (b.name.clone(), b.held)).collect()
    };
    let (of_a, of_b) = (held(a), held(b));
    for (name, bound) in of_a.iter().filter(|(name, _)| *name != "S") {
        if of_b.get(name).is_some_and(|other| other != bound) {
            differ(format!("caches are laid out for another %{name}"));
        }
    }
    for program in &a.programs {
        let Some(twin) = b.program_of(program.ranks[0]) else { continue };
        let (here, there) = (stored(a, program), stored(b, twin));
        for (name, buffer) in &here {
            match there.get(name) {
                Some(other) if same(buffer, other) => {}
                Some(_) => differ(format!("%{name} of stage {} lies elsewhere", program.stage)),
                None => {}
            }
        }
        let arenas = |p: &Program| (p.arenas.weights, p.arenas.caches);
        if arenas(program) != arenas(twin) {
            differ(format!("the arenas of stage {} have another size", program.stage));
        }
    }
}

/// Weights and caches of a program.
fn stored<'a>(plan: &'a LaunchPlan, program: &Program) -> BTreeMap<&'a str, &'a Buffer> {
    let routine = plan.routine(&program.routine);
    let buffers = routine.into_iter().flat_map(|r| &r.buffers);
    let kept = |b: &&Buffer| {
        matches!(b.kind, BufferKind::Weight | BufferKind::Cache) && matches!(b.place, Place::At(_))
    };
    buffers.filter(kept).map(|b| (b.value.as_str(), b)).collect()
}

fn same(a: &Buffer, b: &Buffer) -> bool {
    (a.kind, a.bytes, &a.place) == (b.kind, b.bytes, &b.place)
}
