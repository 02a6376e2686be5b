//! What a plan's numbers rest on, in words and as JSON.

use serde_json::{Map, Value, json};
use shardc::facade::{PhasePlan, Plan};
use shardc_cost::machine::Origin;
use shardc_passes::evaluate::{Basis, Category, Ground};

/// `{"times": {PHASE: {CATEGORY: {"source", "error", "ns"}, "step"}}, "memory", "service"}`.
pub fn to_json(plan: &Plan) -> Value {
    let phases = plan.phases.iter().map(|p| (p.phase.name().to_string(), times(p)));
    let memory: Map<String, Value> =
        plan.memory_sources().iter().map(|(item, word)| (item.to_string(), json!(word))).collect();
    let errors = plan.service_errors();
    json!({
        "times": Value::Object(phases.collect()),
        "memory": memory,
        "service": {
            "ttft_ms": modelled(errors.ttft),
            "tpot_ms": modelled(errors.tpot),
            "throughput_tokens_per_s_per_gpu": modelled(errors.throughput),
        },
    })
}

/// A number of a formula with its error.
pub fn modelled(error: f64) -> Value {
    json!({"source": Ground::Modelled.name(), "error": rounded(error)})
}

fn times(phase: &PhasePlan) -> Value {
    let rows = phase.bases.iter().map(|(c, basis)| (c.name().to_string(), of(basis)));
    let mut out: Map<String, Value> = rows.collect();
    out.insert("step".to_string(), of(&phase.basis()));
    Value::Object(out)
}

fn of(basis: &Basis) -> Value {
    let parts: Map<String, Value> = basis
        .parts()
        .filter(|(_, ns)| ns.get() > 0)
        .map(|(ground, ns)| (ground.name().to_string(), json!(ns.get())))
        .collect();
    json!({"source": basis.ground().name(), "error": rounded(basis.error()), "ns": parts})
}

/// Four digits after the point: more would claim that errors are known to them.
pub fn rounded(error: f64) -> f64 {
    (error * 1e4).round() / 1e4
}

/// `± 6 % interpolated`: the basis of a category's time, all phases together.
pub fn of_category(plan: &Plan, category: Category) -> String {
    let of_phase = |p: &PhasePlan| p.bases.iter().find(|(c, _)| *c == category).map(|(_, b)| *b);
    let bases = plan.phases.iter().filter_map(of_phase);
    let all = bases.fold(Basis::default(), |all, basis| all.with(&basis));
    format!("{} {}", plus_minus(all.error()), all.ground().name())
}

/// `± 6 %`.
pub fn plus_minus(error: f64) -> String {
    format!("± {:.0} %", error * 100.0)
}

/// `constants of h100x8: 23 datasheet, 2 measured, 1 guess (node.host_bytes_per_device)`.
pub fn constants(plan: &Plan) -> String {
    let constants = plan.cluster.constants();
    let kinds = [
        Origin::Measured,
        Origin::Datasheet,
        Origin::Package,
        Origin::Stated,
        Origin::Default,
        Origin::Guess,
    ];
    let kind = |origin: &Origin| {
        let of: Vec<&str> =
            constants.iter().filter(|c| c.source.origin == *origin).map(|c| c.path).collect();
        let named = *origin == Origin::Guess && of.len() <= 3;
        let names = if named { format!(" ({})", of.join(", ")) } else { String::new() };
        (!of.is_empty()).then(|| format!("{} {}{names}", of.len(), origin.name()))
    };
    let kinds: Vec<String> = kinds.iter().filter_map(kind).collect();
    format!("constants of {}: {}", plan.cluster.name, kinds.join(", "))
}
