//! V312–V317: layouts of constants, conversions, `repeat`, layer functions and the boundary.

use super::codes;
use super::flow::show_axes;
use super::repeat::layer_functions;
use super::report::{Reporter, Site};
use crate::graph::{FuncId, Inst, InstData, Value};
use crate::layers::Interface;
use crate::layout::{Layout, ReduceKind, axes};
use crate::mesh::AxisRef;
use crate::ops::control::Repeat;
use crate::text::show_name;

/// V312 for constants, which any device can fill in for itself.
pub(super) fn constant(r: &mut Reporter<'_>, id: FuncId, inst: Inst, data: &InstData) {
    for &value in &data.results {
        if r.layout(id, value).is_partial() {
            let message = format!("the constant {} is partial", r.name(id, value));
            let help = "write it complete, and `to_partial` it".to_string();
            r.fail_help(Site::Inst(id, inst), codes::NO_FACTORS, message, help);
        }
    }
}

/// V313 for `reshard`.
pub(super) fn reshard(r: &mut Reporter<'_>, id: FuncId, inst: Inst, data: &InstData) {
    let mesh = r.mesh();
    let (from, to) = (r.layout(id, data.operands[0]), r.layout(id, data.results[0]));
    for partial in &to.unreduced {
        let new = axes::outside(&mesh, &partial.axes, &from.pending(partial.kind));
        if new.is_empty() {
            continue;
        }
        let (new, kind) = (show_axes(&mesh, &new), partial.kind.name());
        let message = format!("`reshard` adds a pending {kind} along {new}");
        let help = format!("`to_partial {{axes = {new}}}` makes a complete value a partial sum");
        r.fail_help(Site::Inst(id, inst), codes::RESHARD, message, help);
    }
}

/// V313 for `constraint`, once layouts are decided.
pub(super) fn constraint(r: &mut Reporter<'_>, id: FuncId, inst: Inst, data: &InstData) {
    let (from, to) = (r.layout(id, data.operands[0]), r.layout(id, data.results[0]));
    if from != to {
        let message =
            format!("`constraint` changes the layout of {}", r.name(id, data.operands[0]));
        let help = "write `reshard` where the layout changes".to_string();
        r.fail_help(Site::Inst(id, inst), codes::RESHARD, message, help);
    }
}

/// V314.
pub(super) fn to_partial(
    r: &mut Reporter<'_>,
    id: FuncId,
    inst: Inst,
    data: &InstData,
    added: &[AxisRef],
) {
    let mesh = r.mesh();
    let site = Site::Inst(id, inst);
    let (operand, result) = (data.operands[0], data.results[0]);
    let from = r.layout(id, operand);
    let leaves = from.clone().with_pending(&mesh, ReduceKind::Sum, added);
    let name = r.name(id, operand);
    let shown = show_axes(&mesh, added);
    let other = from.unreduced.iter().any(|p| p.kind != ReduceKind::Sum);
    if added.is_empty() || other || leaves.check(&mesh, from.dims.len()).is_err() {
        let message =
            format!("`to_partial` along {shown} of {name}, which is {}", from.show(&mesh));
        let help = "name axes of the mesh along which the value is complete and replicated";
        return r.fail_help(site, codes::TO_PARTIAL, message, help.to_string());
    }
    let (has, leaves) = (r.layout(id, result), sorted(leaves));
    if sorted(has.clone()) != leaves {
        let message = format!("`to_partial` does not leave {}", has.show(&mesh));
        let help = format!("it leaves {}", leaves.show(&mesh));
        r.fail_help(Site::Type(id, result), codes::TO_PARTIAL, message, help);
    }
}

fn sorted(mut layout: Layout) -> Layout {
    for partial in &mut layout.unreduced {
        partial.axes.sort_unstable();
    }
    layout
}

/// V315.
pub(super) fn repeat(
    r: &mut Reporter<'_>,
    id: FuncId,
    inst: Inst,
    data: &InstData,
    repeat: &Repeat,
) {
    let Ok(interface) = Interface::of(r.module, repeat) else { return };
    let operands = interface.operands.iter().zip(&data.operands);
    let results = interface.results.iter().zip(&data.results);
    for (slot, &value) in operands.chain(results) {
        for &(layer, inner) in &slot.inner {
            let mut wanted = r.layout(layer, inner);
            if slot.stacked.is_some() {
                wanted.dims.insert(0, Vec::new());
            }
            if r.layout(id, value) != wanted {
                around_repeat(r, id, inst, value, (layer, inner), &wanted);
                break;
            }
        }
    }
}

fn around_repeat(
    r: &mut Reporter<'_>,
    id: FuncId,
    inst: Inst,
    value: Value,
    (layer, inner): (FuncId, Value),
    wanted: &Layout,
) {
    let mesh = r.mesh();
    let message = format!(
        "{} is {}, but {} runs it as {} in {}",
        r.name(id, value),
        r.layout(id, value).show(&mesh),
        "`repeat`",
        r.name(layer, inner),
        show_name('@', &r.func(layer).name)
    );
    let help = format!("`reshard` it to {} outside, or change the layer", wanted.show(&mesh));
    let diagnostic = crate::diag::Diagnostic::error(codes::REPEAT_LAYOUT, message).help(help);
    let diagnostic = r.also(diagnostic, Site::Type(layer, inner), "the layer's layout");
    r.report(Site::Inst(id, inst), diagnostic);
}

/// V316 for layer functions, V317 for the others.
pub(super) fn boundaries(r: &mut Reporter<'_>) {
    let layers = layer_functions(r);
    for (id, func) in r.module.funcs.iter() {
        if layers.binary_search(&id).is_err() {
            complete_boundary(r, id);
            continue;
        }
        let signature = func.layer_signature();
        let entries = signature.carried.iter().chain(&signature.caches);
        for (&entry, &value) in entries.zip(&func.returns) {
            if r.layout(id, entry) != r.layout(id, value) {
                hands_on(r, id, entry, value);
            }
        }
    }
}

fn hands_on(r: &mut Reporter<'_>, id: FuncId, entry: Value, value: Value) {
    let mesh = r.mesh();
    let message = format!(
        "{} takes {} as {} and returns {} as {}",
        show_name('@', &r.func(id).name),
        r.name(id, entry),
        r.layout(id, entry).show(&mesh),
        r.name(id, value),
        r.layout(id, value).show(&mesh)
    );
    let help = format!("`reshard` {} before `return`", r.name(id, value));
    r.fail_help(Site::Return(id), codes::LAYER_LAYOUT, message, help);
}

fn complete_boundary(r: &mut Reporter<'_>, id: FuncId) {
    let func = r.func(id);
    let params = func.params.iter().map(|&v| (v, Site::Type(id, v), "takes"));
    let returns = func.returns.iter().map(|&v| (v, Site::Return(id), "returns"));
    for (value, site, verb) in params.chain(returns) {
        let layout = r.layout(id, value);
        if !layout.is_partial() {
            continue;
        }
        let message = format!(
            "{} {verb} {}, whose reduction along {} pends",
            show_name('@', &func.name),
            r.name(id, value),
            show_axes(&r.mesh(), &layout.unreduced_axes())
        );
        let help = "complete it: every device outside would see another part".to_string();
        r.fail_help(site, codes::BOUNDARY, message, help);
    }
}
