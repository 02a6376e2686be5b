//! Why a value has its layout, and who uses it otherwise.

use super::PhaseView;
use crate::propagate_shardings::Origin;
use shardc_ir::graph::{Def, Func, Value};
use shardc_ir::layout::Layout;
use shardc_ir::ops::Op;

/// Why a dimension carries an axis, or why a sum is pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What: `dim 0 {gpu0}`, `sum {gpu1}`, or `gpu1` of axes that are not used.
    pub what: String,
    /// Why, in words.
    pub why: String,
}

/// An operator that takes a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Name of the operator.
    pub op: &'static str,
    /// Name of what it computes.
    pub result: String,
    /// The layout in which it takes the value, if it is another one.
    pub moved: Option<Layout>,
}

/// The reasons of a value's layout.
pub fn reasons(view: &PhaseView, func_name: &str, value_name: &str) -> Vec<Reason> {
    let module = &view.sharded;
    let (Some(mesh), Some(func)) = (&module.mesh, module.func(func_name)) else {
        return Vec::new();
    };
    let func = &module.funcs[func];
    let Some(value) = func.value(value_name) else { return Vec::new() };
    let Some(layout) = func.layout(value) else { return Vec::new() };
    let mut out = Vec::new();
    let entries = view.provenance.entries.iter();
    for entry in entries.filter(|e| e.func == func_name && e.value == value_name) {
        if entry.dim >= layout.dims.len() {
            continue;
        }
        let why = match &entry.origin {
            Origin::Pin => "pinned before propagation, by the strategy or the user".to_string(),
            Origin::Through { op, factor, from_func, from } => {
                let place = from_func.as_ref().map_or(String::new(), |f| format!("@{f} "));
                format!("came from {place}%{from} through `{op}`, factor {factor}")
            }
        };
        let axis = mesh.show(entry.axis).to_string().replace('"', "");
        out.push(Reason { what: format!("dim {} {{{axis}}}", entry.dim), why });
    }
    for partial in &layout.unreduced {
        let axes: Vec<String> =
            partial.axes.iter().map(|a| mesh.show(*a).to_string().replace('"', "")).collect();
        out.push(Reason {
            what: format!("{} {{{}}} pending", partial.kind.name(), axes.join(", ")),
            why: pending(func, value),
        });
    }
    let free: Vec<String> = layout
        .replicated_axes(mesh)
        .iter()
        .map(|a| mesh.show(*a).to_string().replace('"', ""))
        .collect();
    if !free.is_empty() {
        let why = "no pin and no neighbour brings it here: each of its devices holds the same";
        out.push(Reason { what: format!("{{{}}} unused", free.join(", ")), why: why.to_string() });
    }
    out
}

/// Why a sum of a value is pending.
fn pending(func: &Func, value: Value) -> String {
    let Def::Result(inst, _) = func.values[value].def else {
        return "it is handed in so".to_string();
    };
    let data = &func.insts[inst];
    let names: Vec<String> =
        data.operands.iter().map(|&v| format!("%{}", func.values[v].name)).collect();
    let from = data.operands.iter().any(|&v| func.layout(v).is_some_and(Layout::is_partial));
    match from {
        true => format!(
            "`{}` is linear and hands on what is pending of {}",
            data.op.info().name,
            names.join(", ")
        ),
        false => format!(
            "`{}` sums over what these axes split of {}",
            data.op.info().name,
            names.join(", ")
        ),
    }
}

/// Who takes a value, and in which layout.
pub fn uses(view: &PhaseView, func_name: &str, value_name: &str) -> Vec<Use> {
    let module = &view.sharded;
    let Some(func) = module.func(func_name).map(|id| &module.funcs[id]) else { return Vec::new() };
    let Some(value) = func.value(value_name) else { return Vec::new() };
    let mut names: Vec<(Value, Option<Layout>)> = vec![(value, None)];
    let mut out = Vec::new();
    for &inst in &func.body {
        let data = &func.insts[inst];
        let taken = names.iter().find(|(v, _)| data.operands.contains(v));
        let Some((_, moved)) = taken.cloned() else { continue };
        let result = data.results.first();
        match (&data.op, result) {
            (Op::Reshard(_), Some(&moved)) => names.push((moved, func.layout(moved).cloned())),
            _ => out.push(Use {
                op: data.op.info().name,
                result: result.map_or(String::new(), |&r| func.values[r].name.clone()),
                moved,
            }),
        }
    }
    out
}
