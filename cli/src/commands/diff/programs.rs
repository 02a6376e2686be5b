//! The layouts of two plans' programs that differ.

use super::Plan;
use crate::commands::plan_file::verified;
use crate::failure::Outcome;
use crate::input;
use shardc_ir::graph::Module;
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;
use std::collections::BTreeMap;

/// A value whose layout differs.
#[derive(Debug)]
pub struct Changed {
    /// Phase.
    pub phase: String,
    /// Function.
    pub func: String,
    /// Name.
    pub value: String,
    /// Layout in the first plan.
    pub a: String,
    /// Layout in the second.
    pub b: String,
}

/// What a comparison of layouts found.
#[derive(Debug, Default)]
pub struct Layouts {
    /// Values whose layouts differ, in order of the program.
    pub changed: Vec<Changed>,
    /// Values whose layouts are equal.
    pub equal: usize,
    /// Values that one plan has alone, as they move in one alone.
    pub only: [usize; 2],
}

/// A layout: as text, and what it is compared by.
struct Laid {
    text: String,
    key: String,
}

/// Values of a program with their layouts, in order.
type Program = Vec<((String, String), Laid)>;

/// Compares the programs with a layout for every value; nothing where a plan is a file alone.
///
/// Errors: a program that cannot be read.
pub fn compare(a: &Plan, b: &Plan) -> Outcome<Option<Layouts>> {
    if a.directory.is_none() || b.directory.is_none() {
        return Ok(None);
    }
    let mut out = Layouts::default();
    for phase in ["prefill", "decode"] {
        let (Some(x), Some(y)) = (sharded(a, phase)?, sharded(b, phase)?) else { continue };
        let same_mesh = x.mesh == y.mesh;
        let (first, second) = (values(&x, same_mesh), values(&y, same_mesh));
        let mut known: BTreeMap<&(String, String), &Laid> =
            second.iter().map(|(place, laid)| (place, laid)).collect();
        for (place, laid) in &first {
            match known.remove(place) {
                None => out.only[0] += 1,
                Some(other) if other.key == laid.key => out.equal += 1,
                Some(other) => out.changed.push(Changed {
                    phase: phase.to_string(),
                    func: place.0.clone(),
                    value: place.1.clone(),
                    a: laid.text.clone(),
                    b: other.text.clone(),
                }),
            }
        }
        out.only[1] += known.len();
    }
    Ok(Some(out))
}

/// The program of a phase in which every value has a layout.
fn sharded(plan: &Plan, phase: &str) -> Outcome<Option<Module>> {
    let files = plan.json["files"].as_array().into_iter().flatten();
    let wanted = |name: &&str| {
        name.starts_with(&format!("ir/{phase}/"))
            && ["-insert-reshards.sir", "-apply-schedule.sir"].iter().any(|end| name.ends_with(end))
            && !name.contains("..")
    };
    let name = files.filter_map(|f| f.as_str()).find(wanted);
    let (Some(name), Some(directory)) = (name, &plan.directory) else { return Ok(None) };
    verified(&input::program(&directory.join(name))?).map(Some)
}

fn values(module: &Module, same_mesh: bool) -> Program {
    let Some(mesh) = &module.mesh else { return Vec::new() };
    let mut out = Vec::new();
    for func in module.funcs.values() {
        for (value, data) in func.values.iter() {
            let Some(layout) = func.layout(value) else { continue };
            let text = layout.show(mesh).to_string().replace('"', "");
            let key = if same_mesh { text.clone() } else { sizes(layout, mesh) };
            out.push(((func.name.clone(), data.name.clone()), Laid { text, key }));
        }
    }
    out
}

/// How many ways each dimension is split and pends: what layouts on different meshes share.
fn sizes(layout: &Layout, mesh: &Mesh) -> String {
    let dims: Vec<u64> = layout.dims.iter().map(|axes| mesh.size_of(axes)).collect();
    let pending: Vec<(&str, u64)> =
        layout.unreduced.iter().map(|p| (p.kind.name(), mesh.size_of(&p.axes))).collect();
    format!("{dims:?} {pending:?}")
}
