//! V307–V310: where partial values may go, and what to do where they may not.

use super::codes;
use super::flow::{Around, show_axes};
use super::report::Reporter;
use crate::diag::Diagnostic;
use crate::layout::ReduceKind;
use crate::rule::PartialRule;

/// The diagnostic for `operand`, which breaks the rule on partial operands.
pub(super) fn refuse(op: &Around<'_>, r: &Reporter<'_>, operand: usize) -> Diagnostic {
    let layout = op.operands[operand];
    let first = op.operands.iter().position(|l| l.is_partial()).unwrap_or(operand);
    let other_kind = layout.unreduced.iter().any(|p| p.kind != ReduceKind::Sum);
    match &op.rule.partial {
        PartialRule::OneOf(linear) if !other_kind && linear.contains(&first) => {
            if operand == first {
                pending_axis_splits(op, r, first)
            } else {
                two_partials(op, r, first, operand)
            }
        }
        PartialRule::AllAlike if !other_kind => {
            if operand == first && layout.is_partial() {
                pending_axis_splits(op, r, first)
            } else {
                partial_and_complete(op, r, first, operand)
            }
        }
        _ => not_linear(op, r, operand),
    }
}

fn pending(op: &Around<'_>, operand: usize) -> String {
    show_axes(op.mesh, &op.operands[operand].unreduced_axes())
}

fn not_linear(op: &Around<'_>, r: &Reporter<'_>, operand: usize) -> Diagnostic {
    let (name, called) = (op.operand_name(r, operand), op.op());
    let kind = op.operands[operand].unreduced.first().map_or("sum", |p| p.kind.name());
    let why = match (&op.rule.partial, kind) {
        (PartialRule::OneOf(_), "sum") => format!("`{called}` is not linear in {name}"),
        (_, "sum") => format!("`{called}` is not linear"),
        _ => format!("no operator passes a pending {kind} on"),
    };
    let along = pending(op, operand);
    let message = format!("{why}, but {name} is partial: its {kind} along {along} pends");
    Diagnostic::error(codes::NOT_LINEAR, message)
        .help(format!("`reshard` {name} first, which completes it"))
}

fn two_partials(op: &Around<'_>, r: &Reporter<'_>, first: usize, second: usize) -> Diagnostic {
    let (a, b) = (op.operand_name(r, first), op.operand_name(r, second));
    let message = format!("`{}` multiplies two partial sums, {a} and {b}", op.op());
    Diagnostic::error(codes::TWO_PARTIALS, message)
        .help("`reshard` one of them first, which completes it")
}

fn partial_and_complete(
    op: &Around<'_>,
    r: &Reporter<'_>,
    first: usize,
    other: usize,
) -> Diagnostic {
    let (called, along) = (op.op(), pending(op, first));
    let (a, b) = (op.operand_name(r, first), op.operand_name(r, other));
    if op.operands[other].is_partial() {
        let message = format!(
            "`{called}` joins {a}, partial along {along}, and {b}, partial along {}",
            pending(op, other)
        );
        return Diagnostic::error(codes::PARTIAL_AND_COMPLETE, message)
            .help("`reshard` both first, which completes them");
    }
    let message = format!(
        "`{called}` counts {b} once per device: {b} is complete, and {a} is partial along {along}"
    );
    Diagnostic::error(codes::PARTIAL_AND_COMPLETE, message).help(format!(
        "join the partial sum with `to_partial {b} {{axes = {along}}}`, or `reshard` {a} first"
    ))
}

fn pending_axis_splits(op: &Around<'_>, r: &Reporter<'_>, operand: usize) -> Diagnostic {
    let (name, along) = (op.operand_name(r, operand), pending(op, operand));
    let message =
        format!("{name} is partial along {along}, which also splits something in `{}`", op.op());
    Diagnostic::error(codes::PENDING_AXIS_SPLITS, message)
        .help(format!("`reshard` {name} first, which completes it, or gather what is split"))
}
