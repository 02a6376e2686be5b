//! V302–V306, V311, V312: the layouts around an operator come from one assignment of axes to the
//! factors of its rule.

use super::codes;
use super::partial;
use super::placement;
use super::report::{Reporter, Site};
use crate::diag::Diagnostic;
use crate::flow::{self, Assignment, FlowError, Side};
use crate::graph::{FuncId, Inst, InstData, Value};
use crate::layout::Layout;
use crate::mesh::{AxisRef, Mesh};
use crate::ops::{Family, Op};
use crate::rule::{FactorId, Rule};
use crate::types::Type;

/// The section on layouts.
pub(super) fn layouts(r: &mut Reporter<'_>) {
    for (id, inst, data) in r.insts() {
        match &data.op {
            Op::Reshard(_) => placement::reshard(r, id, inst, data),
            Op::Constraint(_) => placement::constraint(r, id, inst, data),
            Op::ToPartial(to) => placement::to_partial(r, id, inst, data, &to.axes.0),
            Op::Repeat(repeat) => placement::repeat(r, id, inst, data, repeat),
            Op::Constant(_) => placement::constant(r, id, inst, data),
            op if op.info().family == Family::Collective => {}
            _ => operator(r, id, inst, data),
        }
    }
    placement::boundaries(r);
}

/// An operator, its rule, and the layouts of its operands in normal form.
pub(super) struct Around<'a> {
    id: FuncId,
    inst: Inst,
    data: &'a InstData,
    pub(super) rule: &'a Rule,
    pub(super) mesh: &'a Mesh,
    pub(super) operands: &'a [&'a Layout],
    results: &'a [&'a Layout],
}

fn operator(r: &mut Reporter<'_>, id: FuncId, inst: Inst, data: &InstData) {
    let mesh = r.mesh();
    let layouts = |values: &[Value]| values.iter().map(|&v| r.layout(id, v)).collect::<Vec<_>>();
    let (operands, results) = (layouts(&data.operands), layouts(&data.results));
    let operands: Vec<&Layout> = operands.iter().collect();
    let results: Vec<&Layout> = results.iter().collect();
    let Some(rule) = rule(r, id, inst, data) else {
        return no_factors(r, id, inst, data, &operands, &results);
    };
    let around =
        Around { id, inst, data, rule: &rule, mesh: &mesh, operands: &operands, results: &results };
    let assigned = flow::assign(&rule, &mesh, &operands, &results).and_then(|assignment| {
        let passed = flow::passed_partials(&rule, &mesh, &assignment, &operands)?;
        Ok((assignment, passed))
    });
    match assigned {
        Err(error) => {
            let diagnostic = around.refuse(r, &error);
            r.report(Site::Inst(id, inst), diagnostic);
        }
        Ok((assignment, passed)) => {
            around.operands_covered(r, &assignment);
            for (i, &result) in results.iter().enumerate() {
                let leaves = flow::result_layout(&rule, &assignment, i, &passed).normalise(&mesh);
                if leaves != *result {
                    around.wrong_result(r, data.results[i], &leaves);
                }
            }
        }
    }
}

/// The sharding rule of an operator, on global types.
fn rule(r: &Reporter<'_>, id: FuncId, inst: Inst, data: &InstData) -> Option<Rule> {
    let types = |values: &[Value]| values.iter().map(|&v| r.global_type(id, v)).collect::<Vec<_>>();
    let (operands, results) = (types(&data.operands), types(&data.results));
    let operands: Vec<&Type> = operands.iter().collect();
    let results: Vec<&Type> = results.iter().collect();
    r.global_op(id, inst).rule(&operands, &results)
}

/// V312.
fn no_factors(
    r: &mut Reporter<'_>,
    id: FuncId,
    inst: Inst,
    data: &InstData,
    operands: &[&Layout],
    results: &[&Layout],
) {
    let mut values = data.operands.iter().zip(operands).chain(data.results.iter().zip(results));
    let Some((&value, _)) = values.find(|(_, layout)| !layout.is_replicated()) else { return };
    let message = format!(
        "`{}` has no factors to split here, but {} is split or partial",
        data.op.info().name,
        r.name(id, value)
    );
    let help = format!("`reshard` {} so that every device holds all of it", r.name(id, value));
    r.fail_help(Site::Inst(id, inst), codes::NO_FACTORS, message, help);
}

impl Around<'_> {
    pub(super) fn op(&self) -> &'static str {
        self.data.op.info().name
    }

    pub(super) fn operand_name(&self, r: &Reporter<'_>, operand: usize) -> String {
        r.name(self.id, self.data.operands[operand])
    }

    fn value(&self, side: Side) -> Value {
        match side {
            Side::Operand(i) => self.data.operands[i],
            Side::Result(i) => self.data.results[i],
        }
    }

    fn axes(&self, side: Side, dim: usize) -> String {
        let layout = match side {
            Side::Operand(i) => self.operands[i],
            Side::Result(i) => self.results[i],
        };
        show_axes(self.mesh, &layout.dims[dim])
    }

    /// `dimension 1 of %w`.
    fn place(&self, r: &Reporter<'_>, (side, dim): (Side, usize)) -> String {
        format!("dimension {dim} of {}", r.name(self.id, self.value(side)))
    }

    /// Where a factor is split: the first dimension that carries it and has axes.
    fn split_at(&self, factor: FactorId) -> Option<(Side, usize)> {
        let operands = self.rule.operands.iter().enumerate();
        let results = self.rule.results.iter().enumerate();
        let values = operands
            .map(|(i, dims)| (Side::Operand(i), dims, self.operands[i]))
            .chain(results.map(|(i, dims)| (Side::Result(i), dims, self.results[i])));
        for (side, dims, layout) in values {
            let carries = |d: &usize| dims[*d].contains(&factor) && !layout.dims[*d].is_empty();
            if let Some(d) = (0..dims.len()).find(carries) {
                return Some((side, d));
            }
        }
        None
    }

    /// `dimension 1 of %w, split by {"gpu"},`.
    fn split_place(&self, r: &Reporter<'_>, factor: FactorId) -> String {
        match self.split_at(factor) {
            Some(at) => {
                format!("{}, split by {},", self.place(r, at), self.axes(at.0, at.1))
            }
            None => format!("factor `{}`", self.rule.factors[factor].name),
        }
    }

    /// The diagnostic for layouts that come from no assignment.
    fn refuse(&self, r: &Reporter<'_>, error: &FlowError) -> Diagnostic {
        let op = self.op();
        let diagnostic = match error {
            FlowError::Disagree { first, second, .. } => {
                let (a, b) = (self.place(r, *first), self.place(r, *second));
                let message = format!(
                    "`{op}` ties {a} to {b}, but they are split by {} and {}",
                    self.axes(first.0, first.1),
                    self.axes(second.0, second.1)
                );
                let help = "`reshard` an operand so that both are split alike";
                Diagnostic::error(codes::DISAGREE, message).help(help)
            }
            FlowError::Shared { axis, factors } => {
                let message = format!(
                    "axis {} splits two things in `{op}`: {} and {}",
                    self.mesh.show(*axis),
                    self.split_place(r, factors.0).trim_end_matches(','),
                    self.split_place(r, factors.1).trim_end_matches(',')
                );
                let help = "`reshard` an operand so that the axis splits one of them";
                Diagnostic::error(codes::TWO_FACTORS, message).help(help)
            }
            FlowError::NotWhole { factor } => {
                let message = format!("{} must be whole in `{op}`", self.split_place(r, *factor));
                let help = "`reshard` to gather it first";
                Diagnostic::error(codes::NOT_WHOLE, message).help(help)
            }
            FlowError::BadSplit { factor, cause } => {
                let message = format!("{} {cause}", self.split_place(r, *factor));
                let help = format!("split it otherwise before `{op}`");
                Diagnostic::error(codes::BAD_SPLIT, message).help(help)
            }
            FlowError::Straddles { at } => self.straddles(r, *at),
            FlowError::Partial { operand, .. } => return partial::refuse(self, r, *operand),
        };
        diagnostic.note(self.rule_note(r))
    }

    fn rule_note(&self, r: &Reporter<'_>) -> String {
        format!("the factors of `{}` are {}", self.op(), self.rule.show(r.module))
    }

    fn straddles(&self, r: &Reporter<'_>, at: (Side, usize)) -> Diagnostic {
        let dims = match at.0 {
            Side::Operand(i) => &self.rule.operands[i],
            Side::Result(i) => &self.rule.results[i],
        };
        let factors = dims[at.1].iter().map(|&f| &self.rule.factors[f]);
        let sizes: Vec<String> = factors.map(|f| r.module.show_dim(f.size)).collect();
        let made_of = if sizes.is_empty() { "a single element".into() } else { sizes.join(" × ") };
        let message = format!(
            "{} is {made_of} in `{}`, and axes {} end inside of a factor",
            self.place(r, at),
            self.op(),
            self.axes(at.0, at.1)
        );
        let help = "split the outer factor in full before an inner one, or gather the dimension";
        Diagnostic::error(codes::STRADDLES, message).help(help)
    }

    /// The second half of V306: no axis of an operand is left over.
    fn operands_covered(&self, r: &mut Reporter<'_>, assignment: &Assignment) {
        for (i, layout) in self.operands.iter().enumerate() {
            let covered = flow::operand_layout(self.rule, assignment, i).normalise(self.mesh);
            let odd = (0..layout.dims.len()).find(|&d| covered.dims[d] != layout.dims[d]);
            if let Some(d) = odd {
                let diagnostic = self.straddles(r, (Side::Operand(i), d));
                r.report(Site::Inst(self.id, self.inst), diagnostic);
                return;
            }
        }
    }

    /// V311.
    fn wrong_result(&self, r: &mut Reporter<'_>, value: Value, leaves: &Layout) {
        let has = r.layout(self.id, value);
        let message = format!(
            "`{}` leaves {} in another layout than {}",
            self.op(),
            r.name(self.id, value),
            has.show(self.mesh)
        );
        let help = format!(
            "write {}, and `reshard` it if another layout is wanted",
            leaves.show(self.mesh)
        );
        let diagnostic = Diagnostic::error(codes::RESULT_LAYOUT, message).help(help);
        let diagnostic = diagnostic.note(self.rule_note(r));
        r.report(Site::Type(self.id, value), diagnostic);
    }
}

/// `{"node", "gpu"}`.
pub(super) fn show_axes(mesh: &Mesh, axes: &[AxisRef]) -> String {
    let shown: Vec<String> = axes.iter().map(|&a| mesh.show(a).to_string()).collect();
    format!("{{{}}}", shown.join(", "))
}
