//! How layouts flow through an operator: axes are assigned to the factors of its rule.
//!
//! Passes choose an [`Assignment`] and derive the layouts that operands must have and results get;
//! the verifier checks that the layouts in the text come from one.

use crate::layout::axes::overlap;
use crate::layout::{Layout, Partial, ReduceKind};
use crate::mesh::{AxisRef, Mesh};
use crate::rule::{DimFactors, Factor, FactorId, FactorKind, PartialRule, Rule, Split};
use std::fmt;

/// The axes of each factor of a rule, major to minor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assignment {
    /// Indexed by [`FactorId`].
    pub axes: Vec<Vec<AxisRef>>,
}

/// One side of an operator: its operands or its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Operand of that position.
    Operand(usize),
    /// Result of that position.
    Result(usize),
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Side::Operand(i) => write!(f, "operand {i}"),
            Side::Result(i) => write!(f, "result {i}"),
        }
    }
}

/// Why layouts do not flow through an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowError {
    /// Two dimensions carry one factor but not the same axes.
    Disagree {
        /// The factor.
        factor: FactorId,
        /// Where it was seen first, and the dimension.
        first: (Side, usize),
        /// Where it is split otherwise, and the dimension.
        second: (Side, usize),
    },
    /// One axis splits two factors.
    Shared {
        /// The axis.
        axis: AxisRef,
        /// The factors.
        factors: (FactorId, FactorId),
    },
    /// A factor that must stay whole is split.
    NotWhole {
        /// The factor.
        factor: FactorId,
    },
    /// A split that the factor does not allow.
    BadSplit {
        /// The factor.
        factor: FactorId,
        /// Why, with the nearest legal choices.
        cause: String,
    },
    /// The axes of a dimension do not fall on the bounds between its factors.
    Straddles {
        /// Where, and the dimension.
        at: (Side, usize),
    },
    /// An operand is partial where the operator needs complete values.
    Partial {
        /// The operand.
        operand: usize,
        /// Why.
        cause: &'static str,
    },
}

impl FlowError {
    /// The error in words, with the names of the rule and the mesh.
    pub fn describe(&self, rule: &Rule, mesh: &Mesh) -> String {
        let name = |f: &FactorId| &rule.factors[*f].name;
        match self {
            FlowError::Disagree { factor, first, second } => format!(
                "dimension {} of {} and dimension {} of {} share factor `{}` but are split differently",
                first.1,
                first.0,
                second.1,
                second.0,
                name(factor)
            ),
            FlowError::Shared { axis, factors } => format!(
                "axis {} splits both factor `{}` and factor `{}`",
                mesh.show(*axis),
                name(&factors.0),
                name(&factors.1)
            ),
            FlowError::NotWhole { factor } => {
                format!("factor `{}` must stay whole, but is split", name(factor))
            }
            FlowError::BadSplit { factor, cause } => format!("factor `{}` {cause}", name(factor)),
            FlowError::Straddles { at } => format!(
                "the axes of dimension {} of {} do not fall on the bounds of its factors",
                at.1, at.0
            ),
            FlowError::Partial { operand, cause } => format!("operand {operand} {cause}"),
        }
    }
}

/// Deals the axes of one dimension to its factors, major to minor; an axis that covers a factor and
/// more is cut at the bound.
///
/// # Errors
/// An axis would straddle two factors.
pub fn deal(
    rule: &Rule,
    mesh: &Mesh,
    factors: &[FactorId],
    axes: &[AxisRef],
    at: (Side, usize),
) -> Result<Vec<(FactorId, Vec<AxisRef>)>, FlowError> {
    if let [factor] = factors {
        return Ok(vec![(*factor, axes.to_vec())]);
    }
    let straddles = Err(FlowError::Straddles { at });
    let mut rest: Vec<AxisRef> = axes.iter().rev().copied().collect();
    let mut out = Vec::new();
    for &factor in factors {
        let Some(mut room) = rule.factors[factor].size.as_fixed() else { return straddles };
        let mut own = Vec::new();
        while let Some(axis) = rest.pop_if(|_| room > 1) {
            let size = axis.size(mesh).max(1);
            if room.is_multiple_of(size) {
                own.push(axis);
                room /= size;
            } else if size.is_multiple_of(room) {
                own.push(AxisRef::part(axis.axis, axis.pre(), room));
                rest.push(AxisRef::part(axis.axis, axis.pre() * room, size / room));
                room = 1;
            } else {
                return straddles;
            }
        }
        out.push((factor, own));
    }
    if rest.is_empty() { Ok(out) } else { straddles }
}

/// Splits factors as a layout of an operand or result says, whose dimensions they are; a position that
/// the rule lacks has none.
///
/// # Errors
/// An axis would straddle two factors.
pub fn deal_all(
    rule: &Rule,
    mesh: &Mesh,
    side: Side,
    layout: &Layout,
    assignment: &mut Assignment,
) -> Result<(), FlowError> {
    let dims = match side {
        Side::Operand(i) => rule.operands.get(i),
        Side::Result(i) => rule.results.get(i),
    };
    for (d, (factors, axes)) in dims.into_iter().flatten().zip(&layout.dims).enumerate() {
        for (factor, own) in deal(rule, mesh, factors, axes, (side, d))? {
            assignment.axes[factor] = own;
        }
    }
    Ok(())
}

/// The axes of a dimension from those of its factors.
fn join(assignment: &Assignment, factors: &[FactorId]) -> Vec<AxisRef> {
    factors.iter().flat_map(|&f| assignment.axes[f].iter().copied()).collect()
}

/// Whether `factor` may be split by `axes`.
///
/// # Errors
/// Says why not, with the nearest legal degrees.
pub fn check_split(factor: &Factor, mesh: &Mesh, axes: &[AxisRef]) -> Result<(), String> {
    let parts = mesh.size_of(axes);
    let (Some(size), true) = (factor.size.as_fixed(), parts > 1) else { return Ok(()) };
    let granule = match factor.split {
        Split::Uneven => return Ok(()),
        Split::Even => 1,
        Split::Blocks(n) => n.max(1),
    };
    let legal = |p: u64| size.is_multiple_of(p) && (size / p).is_multiple_of(granule);
    if legal(parts) {
        return Ok(());
    }
    let below = (1..=size.min(parts - 1)).rev().find(|&p| legal(p)).unwrap_or(1);
    let above = (parts + 1..=size.min(parts.saturating_mul(64))).find(|&p| legal(p));
    let unit = if granule > 1 { format!(" in blocks of {granule}") } else { String::new() };
    let above = above.map_or(String::new(), |p| format!(" and {p}"));
    Err(format!(
        "has size {size}, which does not divide by {parts}{unit}; nearest legal degrees: {below}{above}"
    ))
}

/// The assignment that the layouts of all operands and results come from.
///
/// # Errors
/// They come from none.
pub fn assign(
    rule: &Rule,
    mesh: &Mesh,
    operands: &[&Layout],
    results: &[&Layout],
) -> Result<Assignment, FlowError> {
    let mut axes: Vec<Option<(Side, usize, Vec<AxisRef>)>> = vec![None; rule.factors.len()];
    let mut visit = |side: Side, dims: &DimFactors, layout: &Layout| {
        for (d, factors) in dims.iter().enumerate() {
            for (factor, dealt) in deal(rule, mesh, factors, &layout.dims[d], (side, d))? {
                match &axes[factor] {
                    Some((first, dim, known)) if *known != dealt => {
                        let first = (*first, *dim);
                        return Err(FlowError::Disagree { factor, first, second: (side, d) });
                    }
                    Some(_) => {}
                    None => axes[factor] = Some((side, d, dealt)),
                }
            }
        }
        Ok(())
    };
    for (i, (dims, layout)) in rule.operands.iter().zip(operands).enumerate() {
        visit(Side::Operand(i), dims, layout)?;
    }
    for (i, (dims, layout)) in rule.results.iter().zip(results).enumerate() {
        visit(Side::Result(i), dims, layout)?;
    }
    let axes = axes.into_iter().map(|a| a.map_or(Vec::new(), |(_, _, list)| list)).collect();
    let assignment = Assignment { axes };
    check(rule, mesh, &assignment)?;
    Ok(assignment)
}

/// Checks that an assignment is legal for a rule.
///
/// # Errors
/// An axis on two factors, a whole factor split, or an illegal split.
pub fn check(rule: &Rule, mesh: &Mesh, assignment: &Assignment) -> Result<(), FlowError> {
    let mut seen: Vec<(AxisRef, FactorId)> = Vec::new();
    for (factor, axes) in assignment.axes.iter().enumerate() {
        let data = &rule.factors[factor];
        if !axes.is_empty() && data.kind == FactorKind::NeedReplication {
            return Err(FlowError::NotWhole { factor });
        }
        check_split(data, mesh, axes).map_err(|cause| FlowError::BadSplit { factor, cause })?;
        for &axis in axes {
            if let Some((_, other)) = seen.iter().find(|(a, _)| overlap(mesh, *a, axis)) {
                return Err(FlowError::Shared { axis, factors: (*other, factor) });
            }
            seen.push((axis, factor));
        }
    }
    Ok(())
}

/// The layout that operand `index` must have under an assignment, complete.
pub fn operand_layout(rule: &Rule, assignment: &Assignment, index: usize) -> Layout {
    let dims = rule.operands[index].iter().map(|f| join(assignment, f)).collect();
    Layout { dims, unreduced: Vec::new() }
}

/// The layout of result `index` under an assignment, with the partial sums that pass through.
pub fn result_layout(
    rule: &Rule,
    assignment: &Assignment,
    index: usize,
    passed: &[Partial],
) -> Layout {
    let dims = rule.results[index].iter().map(|f| join(assignment, f)).collect();
    let mut unreduced: Vec<Partial> = Vec::new();
    let mut pend = |kind: ReduceKind, axes: &[AxisRef]| {
        if axes.is_empty() {
            return;
        }
        match unreduced.iter_mut().find(|p| p.kind == kind) {
            Some(p) => p.axes.extend(axes),
            None => unreduced.push(Partial { kind, axes: axes.to_vec() }),
        }
    };
    for (factor, axes) in rule.factors.iter().zip(&assignment.axes) {
        if let FactorKind::Reduction(kind) = factor.kind {
            pend(kind, axes);
        }
    }
    for partial in passed {
        pend(partial.kind, &partial.axes);
    }
    for p in &mut unreduced {
        p.axes.sort_unstable();
    }
    unreduced.sort_unstable();
    Layout { dims, unreduced }
}

/// The partial sums of the operands that pass through the operator.
///
/// # Errors
/// An operand is partial where the operator is not linear in it, two operands are partial, or a
/// partial operand would meet a complete one.
pub fn passed_partials(
    rule: &Rule,
    mesh: &Mesh,
    assignment: &Assignment,
    operands: &[&Layout],
) -> Result<Vec<Partial>, FlowError> {
    let mut partial = operands.iter().enumerate().filter(|(_, l)| !l.unreduced.is_empty());
    let Some((operand, layout)) = partial.next() else { return Ok(Vec::new()) };
    let fail = |operand, cause| Err(FlowError::Partial { operand, cause });
    if layout.unreduced.iter().any(|p| p.kind != ReduceKind::Sum) {
        return fail(operand, "is partial in a way that no operator passes on; reshard it first");
    }
    match &rule.partial {
        PartialRule::Complete => {
            fail(operand, "is a partial sum, but the operator is not linear; reshard it first")
        }
        PartialRule::OneOf(linear) if !linear.contains(&operand) => fail(
            operand,
            "is a partial sum, but the operator is not linear in it; reshard it first",
        ),
        PartialRule::OneOf(_) => match partial.next() {
            Some((second, _)) => {
                fail(second, "is a partial sum like another operand; reshard one of them first")
            }
            None => used_nowhere(mesh, assignment, layout, operand),
        },
        PartialRule::AllAlike => {
            let odd = operands.iter().position(|l| l.unreduced != layout.unreduced);
            match odd {
                Some(other) if operands[other].unreduced.is_empty() => fail(
                    other,
                    "is complete where another operand is a partial sum; use `to_partial`, or reshard the partial one",
                ),
                Some(other) => fail(other, "is a partial sum along other axes; reshard it first"),
                None => used_nowhere(mesh, assignment, layout, operand),
            }
        }
    }
}

/// Passes the partial sums of `layout` on, if no factor is split along their axes.
fn used_nowhere(
    mesh: &Mesh,
    assignment: &Assignment,
    layout: &Layout,
    operand: usize,
) -> Result<Vec<Partial>, FlowError> {
    let pending = || layout.unreduced.iter().flat_map(|p| &p.axes);
    let split = assignment.axes.iter().flatten().any(|a| pending().any(|b| overlap(mesh, *a, *b)));
    if split {
        let cause = "is a partial sum along an axis that splits another operand; reshard it first";
        return Err(FlowError::Partial { operand, cause });
    }
    Ok(layout.unreduced.clone())
}
