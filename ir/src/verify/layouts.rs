//! V201, L002–L007 and V301: every layout is valid for its mesh, and decided where it must be.

use super::codes;
use super::report::{Reporter, Site};
use crate::dim::Dim;
use crate::graph::{Level, ValueData};
use crate::layout::Sharding;
use crate::mesh::Mesh;

/// The section on annotations.
pub(super) fn annotations(r: &mut Reporter<'_>) {
    let Some(mesh) = &r.module.mesh else { return no_mesh(r) };
    for (id, func) in r.module.funcs.iter() {
        for (value, data) in func.values.iter() {
            let Some(sharding) = &data.sharding else { continue };
            let site = Site::Type(id, value);
            let problems = sharding.problems(mesh, data.ty.rank());
            if problems.is_empty() {
                uneven(r, site, mesh, data, sharding);
            }
            for problem in problems {
                r.report(site, problem);
            }
        }
    }
}

/// V201.
fn no_mesh(r: &mut Reporter<'_>) {
    let help = "declare one: `mesh @m = <[\"gpu\"=8]>`".to_string();
    if r.module.level >= Level::Sharded {
        let message = format!("a module at {} level needs a mesh", r.module.level);
        return r.fail_help(Site::Module, codes::NO_MESH, message, help);
    }
    for (id, func) in r.module.funcs.iter() {
        if let Some((value, _)) = func.values.iter().find(|(_, v)| v.sharding.is_some()) {
            let message = format!("{} has a layout, but there is no mesh", r.name(id, value));
            return r.fail_help(Site::Type(id, value), codes::NO_MESH, message, help);
        }
    }
}

/// L006, on global extents; of an extent with a symbol, only its factor is sure to divide.
fn uneven(r: &mut Reporter<'_>, site: Site, mesh: &Mesh, data: &ValueData, sharding: &Sharding) {
    let globals: Option<Vec<Dim>> = match r.module.level {
        Level::Local => {
            super::global::dims(&data.ty.dims, &sharding.layout, mesh).into_iter().collect()
        }
        _ => Some(data.ty.dims.clone()),
    };
    let Some(globals) = globals else { return };
    let dims: Vec<u64> = globals.into_iter().map(Dim::known_factor).collect();
    if let Err(problem) = sharding.layout.check_dims(mesh, &dims) {
        r.report(site, *problem);
    }
}

/// V301.
pub(super) fn decided(r: &mut Reporter<'_>) {
    for (id, func) in r.module.funcs.iter() {
        for (value, data) in func.values.iter() {
            let problem = match &data.sharding {
                None => "has no layout",
                Some(sharding) if !sharding.is_decided() => "has a layout that is not decided",
                Some(_) => continue,
            };
            let message = format!("{} {problem}", r.name(id, value));
            let help = "run `propagate-shardings`, or write a layout such as `@[{\"gpu\"}, {}]` \
                        without `?`, priorities and `replicated`";
            r.fail_help(Site::Type(id, value), codes::UNDECIDED, message, help.to_string());
        }
    }
}
