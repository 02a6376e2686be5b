//! Saying where a program parts from its model.

use crate::case::Difference;
use crate::codes;
use shardc_ir::diag::Diagnostic;
use shardc_ir::graph::{Def, Func, Module, Value};

/// The diagnostic of a difference: the first value that is wrong, the instruction that makes it, and
/// the layouts of what it reads.
pub fn difference(place: &str, found: &Difference, module: &Module) -> Box<Diagnostic> {
    let step = match found.past {
        0 => "from the first token on".to_string(),
        past => format!("after {past} tokens"),
    };
    let Some((path, distance)) = &found.value else {
        let message = format!("{place}: {step} the results are not those of the model");
        return Box::new(Diagnostic::error(codes::DIFFERS, message));
    };
    let message = format!("{place}: {step} %{path} is not that of the model");
    let mut problem =
        Diagnostic::error(codes::DIFFERS, message).note(format!("it is off by {distance:.2e}"));
    for note in instruction(path, module) {
        problem = problem.note(note);
    }
    Box::new(problem)
}

/// What makes the value of a path, and from what.
fn instruction(path: &str, module: &Module) -> Vec<String> {
    let (func, name) = match path.split_once('/') {
        Some((call, name)) => (call.split('#').next().unwrap_or(call), name),
        None => ("main", path),
    };
    let funcs = module.funcs.values().filter(|f| f.name == func || func == "main");
    let found = funcs.filter_map(|f| Some((f, f.value(name)?))).next();
    let Some((func, value)) = found else { return Vec::new() };
    let Def::Result(inst, _) = func.values[value].def else { return Vec::new() };
    let data = &func.insts[inst];
    let mut notes = vec![format!("`{}` makes {}", data.op.info().name, shown(module, func, value))];
    notes.extend(data.operands.iter().map(|&v| format!("from {}", shown(module, func, v))));
    notes
}

/// A value with its layout.
fn shown(module: &Module, func: &Func, value: Value) -> String {
    let name = &func.values[value].name;
    match (&module.mesh, func.layout(value)) {
        (Some(mesh), Some(layout)) => format!("%{name} @{}", layout.show(mesh)),
        _ => format!("%{name}"),
    }
}
