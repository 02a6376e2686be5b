//! Launch plans against the local programs that they implement.
//!
//! A plan that passes does this, on every rank and whatever the timing of streams and links:
//!
//! - it launches each instruction of the program once, on the operands that the program names, with
//!   the ranks that the axes name: so it computes what the verified program computes, and partial
//!   values are reduced as often as there;
//! - no step reads bytes that were not written or were overwritten, and steps of different streams
//!   that use the same bytes are ordered by events;
//! - no two live buffers overlap, everything lies inside its arena, and arenas are as large as
//!   promised;
//! - ranks that communicate meet in one order, so that none waits for ever.
//!
//! The checks follow each other: structure first, since the others rely on it.

mod body;
mod buffers;
mod collectives;
mod contents;
mod events;
pub mod meet;
mod memory;
mod phases;
mod ranks;
mod shares;
mod steps;

pub use phases::agree;

use crate::findings::Findings;
use body::Body;
use shardc_ir::diag::{Code, Diagnostic};
use shardc_ir::dim::Bindings;
use shardc_ir::graph::{Level, Module};
use shardc_ir::launch::{Action, LaunchPlan};
use shardc_ir::mesh::Mesh;
use shardc_ir::verify::verify;

/// What was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Ranks of all stages.
    pub ranks: u64,
    /// Steps of all routines.
    pub steps: usize,
    /// Buffers of all routines.
    pub buffers: usize,
    /// Communicating steps that all ranks go through in one step of the phase.
    pub meetings: u64,
    /// Most bytes of the arenas of a rank.
    pub bytes: u64,
}

/// Checks a plan against its program.
///
/// # Errors
/// Everything that is wrong, as far as it can be seen: `K1xx`, or what the verifier says of the
/// program.
pub fn check(plan: &LaunchPlan, module: &Module) -> Result<Report, Vec<Diagnostic>> {
    verify(module).map_err(|found| found.to_vec())?;
    let mut findings = Findings::default();
    let Some(subject) = Subject::of(plan, module, &mut findings) else {
        findings.into_result()?;
        return Ok(Report::default());
    };
    ranks::check(&subject, &mut findings);
    let bodies = Body::all(&subject, &mut findings);
    findings.into_result()?;

    let mut findings = Findings::default();
    for body in &bodies {
        buffers::check(&subject, body, &mut findings);
        steps::check(&subject, &bodies, body, &mut findings);
        events::well_formed(&subject, body, &mut findings);
    }
    findings.into_result()?;

    let mut findings = Findings::default();
    for body in &bodies {
        memory::check(&subject, &bodies, body, &mut findings);
        contents::check(&bodies, body, &mut findings);
        events::check(&bodies, body, &mut findings);
    }
    memory::arenas(&subject, &bodies, &mut findings);
    collectives::check(&subject, &bodies, &mut findings);
    let meetings = match findings.is_empty() {
        true => collectives::meet(&subject, &bodies, &mut findings),
        false => 0,
    };
    findings.into_result()?;
    Ok(report(plan, meetings))
}

fn report(plan: &LaunchPlan, meetings: u64) -> Report {
    let arenas = plan.programs.iter().map(|p| &p.arenas);
    let bytes = arenas.map(|a| a.weights.saturating_add(a.caches).saturating_add(a.scratch));
    Report {
        ranks: plan.ranks(),
        steps: plan.routines.iter().map(|r| r.steps.len()).sum(),
        buffers: plan.routines.iter().map(|r| r.buffers.len()).sum(),
        meetings,
        bytes: bytes.max().unwrap_or(0),
    }
}

/// A plan with its program and the extents that it has room for.
pub(crate) struct Subject<'a> {
    pub(crate) plan: &'a LaunchPlan,
    pub(crate) module: &'a Module,
    pub(crate) mesh: Mesh,
    /// Largest extents of a step.
    pub(crate) max: Bindings,
    /// Extents of caches.
    pub(crate) held: Bindings,
    /// Number of stages.
    pub(crate) stages: u64,
}

impl<'a> Subject<'a> {
    fn of(plan: &'a LaunchPlan, module: &'a Module, findings: &mut Findings) -> Option<Self> {
        let help = "compile the model again with `shardc compile MODEL -o DIR`";
        let mut refuse = |code: Code, message: String| findings.add(code, message, help);
        let (Level::Local, Some(mesh)) = (module.level, module.mesh.clone()) else {
            refuse(crate::codes::STRUCTURE, "the program is not local".to_string());
            return None;
        };
        let (mut max, mut held) = (Bindings::default(), Bindings::default());
        let mut fits = plan.dims.len() == module.syms.len();
        for (sym, data) in module.syms.iter() {
            let bound = plan.dims.iter().find(|b| b.name == data.name);
            let legal = |n: u64| (data.lo..=data.hi).contains(&n);
            match bound.filter(|b| legal(b.max) && legal(b.held) && b.max <= b.held) {
                Some(bound) => {
                    max.set(sym, bound.max);
                    held.set(sym, bound.held);
                }
                None => fits = false,
            }
        }
        if !fits {
            let message = "the bounds of the plan are not those of the program's symbols, each in \
                           its range";
            refuse(crate::codes::STRUCTURE, message.to_string());
            return None;
        }
        let stages = (0..).take_while(|i| module.func(&format!("stage_{i}")).is_some()).count();
        Some(Subject { plan, module, mesh, max, held, stages: stages as u64 })
    }
}

/// Whether a step waits for all streams, and all that follows for it.
pub(crate) fn joins(action: &Action) -> bool {
    matches!(action, Action::Repeat { .. } | Action::Return)
}
