//! The launch plans of a compiled plan.

use super::{Plan, Request};
use shardc_check::launch::{agree, check};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dim::Bindings;
use shardc_ir::graph::Module;
use shardc_ir::launch::LaunchPlan;
use shardc_passes::codes::BROKEN_BY_PASS;
use shardc_passes::launch::{PhaseProgram, lower};
use shardc_passes::search::bindings;
use shardc_passes::strategy::megatron::Phase;

/// The launch plan of each phase; `files` are the dumps of their local programs, in order.
///
/// Steps are as large as memory has room for: prompts of `isl` tokens together, and a micro-batch of
/// decode steps. Caches hold every request of a replica at the longest context.
///
/// # Errors
/// What [`lower`] refuses; `S103` where the checker refuses what it makes.
pub fn launch_plans(request: &Request, plan: &Plan, files: &[String]) -> Result<Vec<LaunchPlan>> {
    let (serving, dp) = (&plan.best.serving, plan.best.degrees.dp);
    let load = &plan.load;
    let kept = plan.phases.iter().map(|p| p.requests).fold(serving.replica_batch, u64::max);
    // Memory has room for prompts of that many tokens together, whatever the service does.
    let prompts = (load.prefill_tokens / load.isl.max(1)).clamp(1, kept.max(1));
    let mut phases = Vec::new();
    for (phase, file) in plan.phases.iter().zip(files) {
        let Some(module) = phase.local() else { continue };
        let (requests, context) = match phase.phase {
            Phase::Prefill => (phase.requests.max(prompts), load.isl),
            Phase::Decode => (phase.requests, request.context()),
        };
        let sized = |requests: u64, context: u64| {
            within(module, bindings(module, dp.saturating_mul(requests), phase.tokens, context))
        };
        phases.push(PhaseProgram {
            name: phase.phase.name(),
            module,
            file,
            max: sized(requests, context),
            held: sized(kept, request.context().max(context)),
        });
    }
    let plans = lower(&phases)?;
    passes(&phases, &plans)?;
    Ok(plans)
}

/// Holds the plans to the checker: what it refuses is not written.
fn passes(phases: &[PhaseProgram<'_>], plans: &[LaunchPlan]) -> Result<()> {
    let refused = |found| broken("the launch plan", found);
    for (phase, plan) in phases.iter().zip(plans) {
        check(plan, phase.module).map_err(refused)?;
    }
    agree(&plans.iter().collect::<Vec<_>>()).map_err(refused)
}

/// What the checker found in something that the compiler made.
pub(super) fn broken(what: &str, found: Vec<Diagnostic>) -> Box<Diagnostic> {
    let first = found.first().map(|d| format!("{}: {}", d.code, d.message));
    let message = format!("{what} breaks a rule: {}", first.unwrap_or_default());
    let help = "this is a bug in the compiler; please report it with the model and the request";
    Box::new(Diagnostic::error(BROKEN_BY_PASS, message).help(help))
}

/// The same values, within the ranges of the symbols.
fn within(module: &Module, mut bind: Bindings) -> Bindings {
    for (sym, data) in module.syms.iter() {
        bind.set(sym, bind.get(sym).clamp(data.lo, data.hi));
    }
    bind
}
