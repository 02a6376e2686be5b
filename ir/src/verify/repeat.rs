//! V111–V115: layer functions, what `repeat` hands them, and which functions are programs.

use super::codes;
use super::report::{Reporter, Site};
use crate::entity::EntityId;
use crate::graph::{Func, FuncId, FuncKind, Inst, Level, Value};
use crate::layers::{Interface, Slot};
use crate::ops::Op;
use crate::ops::control::Repeat;
use crate::text::{show_name, show_type};
use crate::types::{Kind, Type};
use std::collections::BTreeMap;

/// The most layers of one `repeat`.
const MAX_LAYERS: u64 = 1 << 16;

/// The `repeat` instructions of a module.
pub(super) fn repeat_insts<'m>(
    r: &Reporter<'m>,
) -> impl Iterator<Item = (FuncId, Inst, &'m Repeat)> + use<'m> {
    r.insts().filter_map(|(id, inst, data)| match &data.op {
        Op::Repeat(repeat) => Some((id, inst, repeat)),
        _ => None,
    })
}

/// The functions that some `repeat` runs.
pub(super) fn layer_functions(r: &Reporter<'_>) -> Vec<FuncId> {
    let by_name: BTreeMap<&str, FuncId> =
        r.module.funcs.iter().map(|(id, f)| (f.name.as_str(), id)).collect();
    let names = repeat_insts(r).flat_map(|(_, _, repeat)| repeat.layers.iter());
    let mut ids: Vec<FuncId> =
        names.flat_map(|run| &run.body).filter_map(|n| by_name.get(n.as_str()).copied()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The section.
pub(super) fn repeats(r: &mut Reporter<'_>) {
    for (id, inst, repeat) in repeat_insts(r) {
        functions_come_first(r, id, inst, repeat);
        layer_count(r, id, inst, repeat);
    }
    let layers = layer_functions(r);
    for &id in &layers {
        signature(r, id);
    }
    programs(r, &layers);
    if !r.found.is_empty() {
        return;
    }
    for (id, inst, repeat) in repeat_insts(r) {
        interface(r, id, inst, repeat);
    }
}

/// V111.
fn functions_come_first(r: &mut Reporter<'_>, id: FuncId, inst: Inst, repeat: &Repeat) {
    for (name, _) in repeat.distinct() {
        let shown = show_name('@', name);
        let (message, help) = match r.module.func(name) {
            Some(layer) if layer.index() < id.index() => continue,
            Some(layer) if layer == id => {
                (format!("{shown} repeats itself"), "a layer function repeats other functions")
            }
            Some(_) => {
                (format!("{shown} comes after its use"), "put layer functions before their users")
            }
            None => (format!("there is no function {shown}"), "define it before its use"),
        };
        r.fail_help(Site::Inst(id, inst), codes::LAYER_MISSING, message, help.to_string());
    }
}

/// V112.
fn layer_count(r: &mut Reporter<'_>, id: FuncId, inst: Inst, repeat: &Repeat) {
    let count = repeat
        .layers
        .iter()
        .try_fold(0u64, |n, run| n.checked_add(run.trips.checked_mul(run.body.len() as u64)?));
    let empty = repeat.layers.iter().any(|run| run.trips == 0 || run.body.is_empty());
    let message = match count {
        Some(n) if n > 0 && n <= MAX_LAYERS && !empty => return,
        Some(0) => "`repeat` runs no layer".to_string(),
        Some(_) if empty => "a run of `repeat` runs no layer".to_string(),
        _ => format!("`repeat` runs more than {MAX_LAYERS} layers"),
    };
    let help = "runs are written `layers = [[3, @dense], [58, @moe]]`".to_string();
    r.fail_help(Site::Inst(id, inst), codes::LAYER_COUNT, message, help);
}

/// V113, of one function.
fn signature(r: &mut Reporter<'_>, id: FuncId) {
    let func = r.func(id);
    let name = show_name('@', &func.name);
    let signature = func.layer_signature();
    let (caches, returns) = (signature.caches.len(), func.returns.len());
    let fits = returns == signature.carried.len() + caches;
    if !fits {
        let tensors = signature.carried.len() + signature.shared.len();
        let message = format!(
            "{name} returns {returns} values, but takes {caches} caches and {tensors} tensors"
        );
        let help = "a layer returns the tensors it carries, then every cache it takes".to_string();
        return r.fail_help(Site::Return(id), codes::LAYER_SIGNATURE, message, help);
    }
    let entries = signature.carried.iter().chain(&signature.caches);
    for (&entry, &value) in entries.zip(&func.returns) {
        if func.ty(entry) != func.ty(value) {
            hands_on(r, id, func, entry, value);
        }
    }
    if let Some(routed) =
        func.params.iter().find(|&&v| matches!(func.ty(v).kind, Kind::Routed { .. }))
    {
        let message = format!("{} carries routed rows into a layer", r.name(id, *routed));
        r.fail(Site::Type(id, *routed), codes::LAYER_SIGNATURE, message);
    }
}

fn hands_on(r: &mut Reporter<'_>, id: FuncId, func: &Func, entry: Value, value: Value) {
    let ty = |v: Value| show_type(r.module, func.ty(v));
    let message = format!(
        "{} takes {} as {} and returns {} as {}",
        show_name('@', &func.name),
        r.name(id, entry),
        ty(entry),
        r.name(id, value),
        ty(value)
    );
    let help = "the next layer takes what this one returns: carried tensors, then caches, in the \
                order of the parameters";
    r.fail_help(Site::Return(id), codes::LAYER_SIGNATURE, message, help.to_string());
}

/// V115.
fn programs(r: &mut Reporter<'_>, layers: &[FuncId]) {
    let local = r.module.level == Level::Local;
    for (id, func) in r.module.funcs.iter() {
        let name = show_name('@', &func.name);
        let (message, help) = match (local, func.kind, layers.binary_search(&id).is_ok()) {
            (true, FuncKind::Program, false) | (_, FuncKind::Func, true) => continue,
            (false, FuncKind::Func, false) => continue,
            (true, FuncKind::Func, false) => {
                (format!("no `repeat` runs {name}"), "at local level write `program` for it")
            }
            (_, FuncKind::Program, true) => {
                (format!("{name} is a program, but a `repeat` runs it"), "write `func` for it")
            }
            (false, FuncKind::Program, false) => {
                (format!("{name} is a program above local level"), "write `func` for it")
            }
        };
        r.fail_help(Site::Func(id), codes::PROGRAMS, message, help.to_string());
    }
}

/// The end of V113, across functions, and V114.
fn interface(r: &mut Reporter<'_>, id: FuncId, inst: Inst, repeat: &Repeat) {
    let site = Site::Inst(id, inst);
    let interface = match Interface::of(r.module, repeat) {
        Ok(interface) => interface,
        Err(cause) => return r.fail(site, codes::LAYER_SIGNATURE, cause),
    };
    let data = &r.func(id).insts[inst];
    let sides = [
        ("operands", "operand", &interface.operands, &data.operands),
        ("results", "result", &interface.results, &data.results),
    ];
    for (plural, singular, slots, values) in sides {
        if slots.len() != values.len() {
            let message = format!("`repeat` has {} {plural}, not {}", slots.len(), values.len());
            let help = format!("its layer functions give {}", expected(r, slots));
            r.fail_help(site, codes::REPEAT_TYPES, message, help);
            continue;
        }
        for (i, (slot, &value)) in slots.iter().zip(values).enumerate() {
            slot_types(r, id, inst, &format!("{singular} {i}"), slot, value);
        }
    }
}

/// The types of slots, for a reader who has too few or too many.
fn expected(r: &Reporter<'_>, slots: &[Slot]) -> String {
    let shown: Vec<String> = slots
        .iter()
        .filter_map(|slot| {
            let (func, value) = *slot.inner.first()?;
            let stacked = if slot.stacked.is_some() { " stacked" } else { "" };
            Some(format!("{}{stacked}", r.name(func, value)))
        })
        .collect();
    shown.join(", ")
}

/// Checks the type of one operand or result of `repeat`, and that all its layers agree on it.
fn slot_types(r: &mut Reporter<'_>, id: FuncId, inst: Inst, what: &str, slot: &Slot, value: Value) {
    let Some(outer) = slot.outer_type(r.module) else { return };
    let site = Site::Inst(id, inst);
    let inner: Vec<(FuncId, Value, &Type)> =
        slot.inner.iter().map(|&(f, v)| (f, v, r.func(f).ty(v))).collect();
    if let [(first, a, ty), rest @ ..] = &inner[..]
        && let Some((other, b, _)) = rest.iter().find(|(.., t)| t != ty)
    {
        let of = |f: &FuncId, v: &Value| {
            let place = show_name('@', &r.func(*f).name);
            format!("{} of {place} is {}", r.name(*f, *v), show_type(r.module, r.func(*f).ty(*v)))
        };
        let message = format!("{}, but {}", of(first, a), of(other, b));
        return r.fail(site, codes::LAYER_SIGNATURE, message);
    }
    let given = r.func(id).ty(value);
    if *given != outer {
        let message =
            format!("{what} of `repeat`, {}, is {}", r.name(id, value), show_type(r.module, given));
        let help = format!("its layer functions need {}", show_type(r.module, &outer));
        r.fail_help(site, codes::REPEAT_TYPES, message, help);
    }
}
