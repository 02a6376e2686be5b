//! What a plan says of its layouts: degrees of a phase, layouts operator by operator, and how good
//! they are.

use serde_json::{Map, Value, json};
use shardc::facade::PhasePlan;
use shardc_ir::graph::{Func, FuncKind, Level};
use shardc_ir::mesh::Mesh;
use shardc_ir::types::Kind;
use shardc_passes::search::{BANS, Evaluated, Headline, Proof};
use shardc_passes::strategy::megatron::Phase;

/// The degrees of a phase; of the heaviest layers where layouts are chosen operator by operator.
pub fn headline(plan: &Evaluated, phase: Phase) -> Headline {
    if let Some(layouts) = &plan.layouts {
        return layouts.headline(phase).clone();
    }
    let d = &plan.degrees;
    let (cp, kvp) = if phase == Phase::Prefill { (d.cp, 1) } else { (1, d.cp) };
    Headline { dp: d.dp, tp: d.tp, cp, kvp, rep: 1, ep: d.ep, etp: d.etp, edp: d.edp() }
}

/// How every operator with weights or caches is laid out: its result and what it stores.
pub fn assignments(phase: &PhasePlan) -> Value {
    let sharded = phase.dumps.iter().map(|(_, m)| m).find(|m| m.level == Level::Sharded);
    let Some((module, mesh)) = sharded.and_then(|m| Some((m, m.mesh.as_ref()?))) else {
        return Value::Null;
    };
    let funcs = module.funcs.values().filter(|f| f.kind == FuncKind::Func);
    funcs.flat_map(|func| operators(func, mesh)).collect()
}

fn operators(func: &Func, mesh: &Mesh) -> Vec<Value> {
    let layout = |v| func.layout(v).map(|l| l.show(mesh).to_string()).unwrap_or_default();
    let mut rows = Vec::new();
    for data in func.body.iter().map(|&i| &func.insts[i]) {
        let kinds = Kind::is_stored;
        let stored = data.operands.iter().filter(|&&v| kinds(func.ty(v).kind));
        let stored: Map<String, Value> =
            stored.map(|&v| (func.values[v].name.clone(), json!(layout(v)))).collect();
        if let (Some(&result), false) = (data.results.first(), stored.is_empty()) {
            rows.push(json!({
                "op": format!("@{}/{}", func.name, func.values[result].name),
                "result": layout(result),
                "stored": stored,
            }));
        }
    }
    rows
}

/// The bound, and the space that it is about.
pub fn proof(proof: &Proof) -> Value {
    match &proof.unsearched {
        Some(reason) => json!({ "unsearched": reason }),
        None => json!({
            "bound": proof.bound,
            "reached": proof.reached,
            "looks": proof.looks,
            "stop": proof.stop.to_string(),
            "cells": proof.cells,
            "bans": BANS,
        }),
    }
}
