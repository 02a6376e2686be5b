//! `saturate`: every way that the rules know to compute each function, in an e-graph.
//!
//! The rules of `ir/src/algebra` (docs/algebra.md) are applied wherever they hold until nothing is new
//! or a budget is used up: 50,000 nodes or 64 rounds a function. The program stays as it is; the graph
//! goes to `extract`, and `--stats` shows how it grew and which rules fired.

use crate::egraph::Budget;
use crate::egraph::module::{Graphs, Saturated, explore};
use crate::registry::{Options, Report};
use shardc_ir::algebra::rules;
use shardc_ir::diag::Result;
use shardc_ir::graph::Module;

/// Builds the graphs; an edit is a node that a rule adds.
///
/// # Errors
/// `S101` without a mesh, `S301` where rules contradict each other.
pub fn saturate(module: &mut Module, _options: &Options) -> Result<Report> {
    let graphs = explore(module, &[], rules(), Budget::default())?;
    let added = |g: &Saturated| g.statistics.nodes.saturating_sub(g.statistics.seeds) as u64;
    let edits = graphs.iter().map(added).sum();
    let notes = graphs.iter().flat_map(|g| notes(module, g)).collect();
    Ok(Report { edits, notes, graphs: Graphs::of(module, graphs), ..Report::default() })
}

/// How a graph grew, line by line.
fn notes(module: &Module, saturated: &Saturated) -> Vec<String> {
    let s = &saturated.statistics;
    let mut out = vec![format!(
        "@{}: {} nodes, {} of them of the program, in {} classes after {} rounds: {}",
        module.funcs[saturated.func].name,
        s.nodes,
        s.seeds,
        s.classes,
        s.rounds,
        s.stop.name()
    )];
    for (name, found, new) in s.fired.iter().filter(|(_, found, _)| *found > 0) {
        out.push(format!("  {name}: found {found} times, {new} times new"));
    }
    out
}
