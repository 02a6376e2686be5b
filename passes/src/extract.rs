//! `extract`: the cheapest program that the e-graph of `saturate` holds, function by function.
//!
//! A node costs what the evaluator's work items of its operator do on the machine of `--cluster`, at
//! the sizes of `--set`, and 1 ns at least. What two readers share is paid once, and what a device
//! holds stays within its memory. Layers may carry another layout than they did; then all of them do,
//! and the model's function brings it about. The result is exact unless a limit on states was met;
//! `--stats` shows prices and bounds. Parameters and caches stay where they are.

use crate::codes;
use crate::egraph::module::{Rewritten, Terms, extract as take};
use crate::egraph::{Budget, Room};
use crate::evaluate::Pricing;
use crate::registry::{Options, Report};
use shardc_cost::machine::{Cluster, preset};
use shardc_cost::profile::Profile;
use shardc_ir::algebra::rules;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::Module;

/// Takes programs out of the graphs; an edit is a function that becomes cheaper.
///
/// # Errors
/// `S302` where `saturate` has not seen the program as it is, an unknown machine, and `S301`.
pub fn extract(module: &mut Module, options: &Options) -> Result<Report> {
    let Some(graphs) = options.graphs.of_module(module) else {
        let message = "`extract` needs the graph of the program as it is, and there is none";
        let help = "run `saturate` right before it: `--passes saturate,extract`";
        return Err(Box::new(Diagnostic::error(codes::NOT_SATURATED, message).help(help)));
    };
    let cluster = machine(module, options)?;
    let profile = Profile::named("vllm").unwrap_or_default();
    let bind = module.bind(&options.sizes());
    let pricing = Pricing { cluster: &cluster, profile: &profile };
    let room = Room::of(cluster.device.memory.capacity_bytes);
    let terms = Terms { pricing, bind: &bind, room };
    let rewritten = take(module, graphs, terms, (rules(), Budget::default()))?;
    let notes = notes(&rewritten);
    let edits = rewritten.changes.iter().filter(|c| c.after < c.before).count() as u64;
    if edits > 0 {
        *module = rewritten.module;
    }
    Ok(Report { edits, notes, ..Report::default() })
}

/// The machine of the options, or H100s in nodes of eight as many as the mesh has devices.
fn machine(module: &Module, options: &Options) -> Result<Cluster> {
    let devices = module.mesh.as_ref().map_or(1, |m| m.devices());
    match (&options.cluster, devices.div_ceil(8)) {
        (Some(name), _) => preset(name),
        (None, 0 | 1) => preset("h100x8"),
        (None, nodes) => preset(&format!("h100x8x{nodes}")),
    }
}

/// Prices before and after, function by function.
fn notes(rewritten: &Rewritten) -> Vec<String> {
    let line = |c: &crate::egraph::module::Change| {
        let proof = match c.bound >= c.after {
            true => "nothing in the graph is cheaper".to_string(),
            false => format!("at least {} ns", c.bound),
        };
        format!("@{}: {} ns before, {} ns after; {proof}", c.func, c.before, c.after)
    };
    rewritten.changes.iter().map(line).collect()
}
