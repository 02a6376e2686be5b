//! What the e-graph gained, as text and JSON.

use crate::commands::figures::counted;
use serde_json::{Map, Value, json};
use shardc_cost::time::Ns;
use shardc_passes::egraph::module::Change;
use shardc_passes::search::{Algebra, Evaluated, PhaseAlgebra};
use std::fmt::Write;

/// Values that the screen names for a function.
const NAMED: usize = 4;

/// A few lines: the gain of the plan, then what it is made of.
pub fn screen(algebra: &Algebra, best: &Evaluated) -> String {
    let mut out = String::new();
    let (before, after) = (algebra.rate_before, best.serving.tokens_per_s_per_device);
    let _ = writeln!(
        out,
        "e-graph   {before:.1} tokens/s per GPU before, {after:.1} after ({:+.2} %)",
        (after / before.max(f64::MIN_POSITIVE) - 1.0) * 100.0
    );
    for phase in &algebra.phases {
        let taken = if phase.program.is_some() { "taken" } else { "left as it was" };
        let _ = writeln!(out, "  {} {taken}", phase.phase.name());
        for change in phase.changes.iter().filter(|c| c.times > 0) {
            let _ = writeln!(out, "    {}", line(change));
        }
    }
    out
}

fn line(change: &Change) -> String {
    let (before, after) = (Ns::new(change.before), Ns::new(change.after));
    let proof = if change.bound >= change.after {
        "no program of the graph is cheaper".to_string()
    } else {
        format!("at least {}", Ns::new(change.bound))
    };
    let times = counted(change.times, "time");
    let mut out = format!("@{} {times}: {before} to {after}, {proof}", change.func);
    for gain in change.gains.iter().filter(|g| g.ns() > 0).take(NAMED) {
        let saved = u64::try_from(gain.ns()).map_or(Ns::ZERO, Ns::new);
        let by = if gain.rules.is_empty() { "others".to_string() } else { gain.rules.join(", ") };
        let _ = write!(out, "\n      %{} {saved} less, by {by}", gain.value);
    }
    out
}

/// Everything.
pub fn to_json(algebra: &Algebra) -> Value {
    json!({
        "tokens_per_s_per_gpu_before": algebra.rate_before,
        "phases": algebra.phases.iter().map(phase).collect::<Vec<_>>(),
    })
}

fn phase(phase: &PhaseAlgebra) -> Value {
    let graph = |(func, s): &(String, shardc_passes::egraph::Statistics)| {
        let fired: Map<String, Value> =
            s.fired.iter().filter(|f| f.2 > 0).map(|f| (f.0.to_string(), json!(f.2))).collect();
        json!({
            "function": func,
            "nodes": s.nodes,
            "classes": s.classes,
            "rounds": s.rounds,
            "stop": s.stop.name(),
            "fired": fired,
        })
    };
    json!({
        "name": phase.phase.name(),
        "taken": phase.program.is_some(),
        "graphs": phase.statistics.iter().map(graph).collect::<Vec<_>>(),
        "functions": phase.changes.iter().map(function).collect::<Vec<_>>(),
    })
}

fn function(change: &Change) -> Value {
    let gain = |g: &shardc_passes::egraph::gains::Gain| json!({"value": g.value, "before_ns": g.before, "after_ns": g.after, "rules": g.rules});
    json!({
        "function": change.func,
        "times": change.times,
        "before_ns": change.before,
        "after_ns": change.after,
        "bound_ns": change.bound,
        "values": change.gains.iter().map(gain).collect::<Vec<_>>(),
    })
}
