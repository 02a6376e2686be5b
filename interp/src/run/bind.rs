//! The extents of a run: symbols get the values that the inputs have.

use super::Inputs;
use super::stages::Stage;
use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dim::{Bindings, Dim, Sym};
use shardc_ir::graph::{Func, Level, Module, Value};
use shardc_ir::mesh::Mesh;
use std::collections::BTreeMap;

/// Extents of the global tensor behind a value: at local level its type has shares.
pub(super) fn global_dims(module: &Module, func: &Func, value: Value) -> Vec<Dim> {
    let dims = &func.ty(value).dims;
    let (Some(mesh), Some(layout), Level::Local) = (&module.mesh, func.layout(value), module.level)
    else {
        return dims.clone();
    };
    let whole = |(dim, axes): (&Dim, &Vec<_>)| whole(*dim, mesh, mesh.size_of(axes));
    dims.iter().zip(&layout.dims).map(whole).collect()
}

/// The extent whose share over `parts` devices is `local`; the verifier has seen that there is one.
fn whole(local: Dim, _mesh: &Mesh, parts: u64) -> Dim {
    let (coeff, sym, div) = local.parts();
    let whole = match div {
        1 => local.times(parts),
        _ => Dim::from_parts(coeff, sym, div / parts.max(1)),
    };
    whole.unwrap_or(local)
}

/// Values of all symbols, from the extents of the inputs.
///
/// # Errors
/// `U201`: an input is missing, its extents do not fit, or no input says what a symbol is.
pub(super) fn symbols(module: &Module, stages: &[Stage], inputs: &Inputs) -> Result<Bindings> {
    let mut values: BTreeMap<Sym, u64> = BTreeMap::new();
    let mut seen: Vec<(String, usize, Dim, u64)> = Vec::new();
    for stage in stages {
        let func = &module.funcs[stage.func];
        for &param in &func.params {
            let name = &func.values[param].name;
            let input = inputs.get(name).ok_or_else(|| missing(name))?;
            let dims = global_dims(module, func, param);
            if input.rank() != dims.len() {
                let message =
                    format!("%{name} has {} dimensions, not {}", dims.len(), input.rank());
                return Err(unfit(message));
            }
            for (d, (&dim, &extent)) in dims.iter().zip(input.shape()).enumerate() {
                if d > 0 || !stage.layers.contains_key(&param) {
                    seen.push((name.clone(), d, dim, extent as u64));
                }
            }
        }
    }
    for (_, _, dim, extent) in &seen {
        if let (coeff, Some(sym), 1) = dim.parts() {
            values.entry(sym).or_insert(extent / coeff);
        }
    }
    let bind = bindings(module, &values)?;
    match seen.iter().find(|(_, _, dim, extent)| dim.eval(&bind) != *extent) {
        None => Ok(bind),
        Some((name, d, dim, extent)) => {
            let (expected, shown) = (dim.eval(&bind), module.show_dim(*dim));
            let message = format!(
                "dimension {d} of %{name} is {shown}, here {expected}, but the input has {extent}"
            );
            Err(unfit(message))
        }
    }
}

fn bindings(module: &Module, values: &BTreeMap<Sym, u64>) -> Result<Bindings> {
    let mut bind = Bindings::default();
    for (sym, data) in module.syms.iter() {
        let used = || {
            let types = module.funcs.values().flat_map(|f| f.values.values());
            types.flat_map(|v| &v.ty.dims).any(|d| d.symbol() == Some(sym))
        };
        let value = match values.get(&sym) {
            Some(&value) => value,
            None if used() => {
                return Err(unfit(format!("no input says how large %{} is", data.name)));
            }
            None => data.lo,
        };
        if !(data.lo..=data.hi).contains(&value) {
            let (name, lo, hi) = (&data.name, data.lo, data.hi);
            return Err(unfit(format!("%{name} is {value}, outside {lo}..{hi}")));
        }
        bind.set(sym, value);
    }
    Ok(bind)
}

fn missing(name: &str) -> Box<Diagnostic> {
    unfit(format!("the input %{name} is missing"))
}

fn unfit(message: String) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(codes::INPUTS, message))
}
