//! Assignments of axes to factors, changed on one side, and operands brought in line with them.

use super::apply::Site;
use super::exchange;
use super::graph::Graph;
use egg::Id;
use shardc_ir::algebra::Others;
use shardc_ir::flow::{self, Assignment, Side};
use shardc_ir::layout::{Layout, Partial, ReduceKind, axes};
use shardc_ir::rule::FactorKind;

/// The assignment of a site where the factors of one operand or result are split as `layout` says;
/// `None` where that is illegal.
pub(super) fn overridden(
    graph: &Graph,
    site: &Site,
    side: Side,
    layout: &Layout,
) -> Option<Assignment> {
    let mesh = &graph.facts().mesh;
    let mut assignment = site.assignment.clone();
    flow::deal_all(&site.rule, mesh, side, layout, &mut assignment).ok()?;
    flow::check(&site.rule, mesh, &assignment).ok()?;
    Some(assignment)
}

/// An assignment under which only those factors that are reduced stay split of which the reduction
/// still pends in the result's `layout`.
pub(super) fn completed(
    graph: &Graph,
    site: &Site,
    mut assignment: Assignment,
    layout: &Layout,
) -> Assignment {
    let mesh = &graph.facts().mesh;
    for (factor, own) in site.rule.factors.iter().zip(&mut assignment.axes) {
        if let FactorKind::Reduction(kind) = factor.kind {
            *own = axes::intersect(mesh, own, &layout.pending(kind));
        }
    }
    assignment
}

/// `y` split as `wanted` says, by one exchange of the kind that `others` names at most. Of the operand
/// that a pattern shows, `shown` is the layout: partial sums join it, or are completed like it.
pub(super) fn adapted(
    graph: &mut Graph,
    y: Id,
    wanted: Layout,
    others: Others,
    shown: Option<&Layout>,
) -> Option<Id> {
    let from = graph.layout(y)?.clone();
    let mesh = graph.facts().mesh.clone();
    let pending = match (others, shown) {
        (Others::Partial, Some(shown)) => shown.unreduced.clone(),
        (Others::Reduce, Some(shown)) if from.is_partial() => kept(&from, shown, &mesh),
        _ => from.unreduced.clone(),
    };
    let wanted = Layout { unreduced: pending, ..wanted }.normalise(&mesh);
    if wanted == from {
        return Some(y);
    }
    let name = match others {
        Others::Same => return None,
        Others::Slice => "all_slice",
        Others::Gather => "all_gather",
        Others::Partial => "to_partial",
        Others::Reduce => "all_reduce",
    };
    let op = exchange::between(name, &from, &wanted, &mesh)?;
    graph.exchange(op, y, None)
}

/// What pends in `from` under `sum` and still pends in `shown`.
fn kept(from: &Layout, shown: &Layout, mesh: &shardc_ir::mesh::Mesh) -> Vec<Partial> {
    let axes =
        axes::intersect(mesh, &from.pending(ReduceKind::Sum), &shown.pending(ReduceKind::Sum));
    match axes.is_empty() {
        true => Vec::new(),
        false => vec![Partial { kind: ReduceKind::Sum, axes }],
    }
}
