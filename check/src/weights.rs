//! The maps of weights against the model that they fill.
//!
//! Names of tensors mean nothing here, so a map that gives a parameter another tensor of the same
//! shape passes, if that tensor is given to nobody else. What is held:
//!
//! - each parameter of the model has one map, of its extents;
//! - each output of a tensor fills one parameter: parts that share a tensor lie beside each other, the
//!   same in every head or expert, without gaps;
//! - the layers of a stack ascend, all parameters of a layer function have the same, and each layer
//!   is in one function.

use crate::codes;
use crate::findings::Findings;
use shardc_ir::diag::Diagnostic;
use shardc_ir::graph::Module;
use shardc_ir::types::Kind;
use shardc_ir::weights::{Rows, Source};
use std::collections::BTreeMap;

const HELP: &str = "compile the model again with `shardc compile MODEL -o DIR`";

/// Checks maps against the logical program of the model.
///
/// # Errors
/// `K161` to `K163`: everything that is wrong.
pub fn check(maps: &[Source], model: &Module) -> Result<(), Vec<Diagnostic>> {
    let mut findings = Findings::default();
    parameters(maps, model, &mut findings);
    maps.iter().for_each(|map| shape(map, &mut findings));
    tensors(maps, &mut findings);
    layers(maps, &mut findings);
    findings.into_result()
}

/// Each parameter has one map, with its extents.
fn parameters(maps: &[Source], model: &Module, findings: &mut Findings) {
    let mut refuse = |message: String| findings.add(codes::WEIGHT, message, HELP);
    let main = model.func("main").map(|id| &model.funcs[id]);
    let params = main.into_iter().flat_map(|f| f.params.iter().map(move |&p| &f.values[p]));
    let params: Vec<_> = params.filter(|p| p.ty.kind == Kind::Weight).collect();
    for param in &params {
        let name = &param.name;
        let own: Vec<&Source> = maps.iter().filter(|m| m.param == *name).collect();
        let [map] = own[..] else {
            refuse(format!("the parameter `{name}` has {} maps, not 1", own.len()));
            continue;
        };
        let dims: Vec<u64> = param.ty.dims.iter().filter_map(|d| d.as_fixed()).collect();
        if map.extents() != dims {
            refuse(format!("the map of `{name}` has extents {:?}, not {dims:?}", map.extents()));
        }
    }
    for map in maps.iter().filter(|m| params.iter().all(|p| p.name != m.param)) {
        refuse(format!("the model has no parameter `{}`", map.param));
    }
}

/// A map makes sense on its own: its outputs are those of its slice.
fn shape(map: &Source, findings: &mut Findings) {
    let batch = usize::from(map.experts.is_some());
    let outputs = map.dims.get(batch + map.inputs..).map(|dims| dims.iter().product::<u64>());
    let fits = |rows: &Rows| {
        Some(rows.run.saturating_mul(rows.runs)) == outputs
            && rows.first.saturating_add(rows.run) <= rows.stride
    };
    let experts = map.experts.is_none_or(|n| map.dims.first() == Some(&n));
    let one = map.stacked || map.tensors.len() == 1;
    if outputs.is_none() || !map.rows.as_ref().is_none_or(fits) || !experts || !one {
        let message = format!("the map of `{}` takes other outputs than it has", map.param);
        findings.add(codes::WEIGHT, message, HELP);
    }
}

/// Each output of a tensor fills one parameter.
fn tensors(maps: &[Source], findings: &mut Findings) {
    let mut uses: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for map in maps {
        map.tensors.iter().for_each(|name| uses.entry(name).or_default().push(map));
    }
    for (tensor, maps) in uses {
        if !beside_each_other(&maps) {
            let names: Vec<String> = maps.iter().map(|m| format!("`{}`", m.param)).collect();
            let message =
                format!("the outputs of `{tensor}` do not go once each to {}", names.join(" and "));
            findings.add(codes::TENSOR, message, HELP);
        }
    }
}

/// Whether maps of one tensor take all of it, each output once.
fn beside_each_other(maps: &[&Source]) -> bool {
    if let [map] = maps {
        return map.rows.is_none();
    }
    let rows: Option<Vec<Rows>> = maps.iter().map(|m| m.rows).collect();
    let Some(mut rows) = rows else { return false };
    rows.sort_by_key(|r| r.first);
    let mut end = 0;
    let together = rows.iter().all(|r| {
        let begins = r.first == end;
        end = r.first.saturating_add(r.run);
        begins && (r.stride, r.runs) == (rows[0].stride, rows[0].runs)
    });
    let alike = |m: &&Source| {
        (m.inputs, m.transposed, m.experts) == (maps[0].inputs, maps[0].transposed, maps[0].experts)
    };
    together && end == rows[0].stride && maps.iter().all(alike)
}

/// Layers ascend, are those of their function, and are in one function.
fn layers(maps: &[Source], findings: &mut Findings) {
    let mut refuse = |message: String| findings.add(codes::LAYERS, message, HELP);
    let mut functions: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for map in maps.iter().filter(|m| m.stacked) {
        let (function, _) = map.param.split_once('.').unwrap_or((&map.param, ""));
        let own: Option<Vec<u64>> = map.tensors.iter().map(|name| layer(name)).collect();
        let own = own.filter(|own| own.windows(2).all(|pair| pair[0] < pair[1]));
        let Some(own) = own else {
            refuse(format!("the layers of `{}` do not ascend", map.param));
            continue;
        };
        let known = functions.entry(function).or_insert_with(|| own.clone());
        if *known != own {
            refuse(format!("`{}` has other layers than the rest of `{function}`", map.param));
        }
    }
    let mut all: Vec<u64> = functions.into_values().flatten().collect();
    all.sort_unstable();
    if all.windows(2).any(|pair| pair[0] + 1 != pair[1]) {
        refuse("a layer is missing, or in two layer functions".to_string());
    }
}

/// The number of the layer in a name such as `model.layers.7.mlp.up_proj.weight`.
fn layer(name: &str) -> Option<u64> {
    name.split('.').find_map(|part| part.parse().ok())
}
