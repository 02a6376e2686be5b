//! What an operator may be told, and what it could be told instead.

use super::fault::{Checked, Fault};
use super::read::fault;
use super::site::{rule_of, show_axes, show_factor};
use super::tree::{Key, Node, Tree};
use crate::codes;
use crate::strategy::Groups;
use crate::strategy::pins::resolve;
use shardc_ir::diag::{Code, Span};
use shardc_ir::flow::{self, Assignment, FlowError, Side};
use shardc_ir::graph::{Func, Inst, Module};
use shardc_ir::layout::{Layout, axes};
use shardc_ir::mesh::AxisRef;
use shardc_ir::rule::{FactorId, FactorKind, Rule};

/// Most choices that a problem lists.
const MOST: usize = 16;

/// An operator that a schedule says something of.
pub(super) struct Operator<'a> {
    pub module: &'a Module,
    pub func: &'a Func,
    pub inst: Inst,
    pub groups: &'a Groups,
    /// Section, function and name.
    pub place: String,
}

impl Operator<'_> {
    /// The assignment of axes by factor.
    pub fn by_factors(&self, rows: &[&(Key, Node)], at: &Key) -> Checked<Assignment> {
        let Some(rule) = self.rule() else { return self.without_factors(at.span) };
        let mut out = Assignment { axes: vec![Vec::new(); rule.factors.len()] };
        let mut places: Vec<Option<Span>> = vec![at.span; rule.factors.len()];
        for (key, node) in rows.iter().map(|row| (&row.0, &row.1)) {
            let Some(factor) = rule.factors.iter().position(|f| f.name == key.name) else {
                let legal = (0..rule.factors.len()).map(|f| self.factor(&rule, f)).collect();
                let message = format!("`{}` has no factor `{}`", self.name(), key.name);
                return Err(self.fault(codes::SCHEDULE_NAME, message, key.span, legal));
            };
            out.axes[factor] = self.axes(&rule, factor, node)?;
            places[factor] = node.span;
        }
        self.checked(&rule, out, &|f| places[f])
    }

    /// The assignment that leaves the first result in a layout.
    pub fn by_layout(&self, layout: &Layout, node: &Node) -> Checked<Assignment> {
        let Some(rule) = self.rule() else { return self.without_factors(node.span) };
        let mesh = &self.groups.mesh;
        let mut out = Assignment { axes: vec![Vec::new(); rule.factors.len()] };
        let dealt = flow::deal_all(&rule, mesh, Side::Result(0), layout, &mut out);
        dealt.map_err(|e| self.refused(&rule, &out, &e, node.span))?;
        for partial in &layout.unreduced {
            let summed =
                |f: &FactorId| rule.factors[*f].kind == FactorKind::Reduction(partial.kind);
            let summed: Vec<FactorId> = (0..rule.factors.len()).filter(summed).collect();
            let [factor] = summed[..] else {
                let message = format!(
                    "`{}` reduces {} factors by {}: a layout does not say which",
                    self.name(),
                    summed.len(),
                    partial.kind.name()
                );
                let legal = (0..rule.factors.len()).map(|f| self.factor(&rule, f)).collect();
                return Err(self.fault(codes::SCHEDULE_ILLEGAL, message, node.span, legal));
            };
            out.axes[factor].clone_from(&partial.axes);
        }
        self.checked(&rule, out, &|_| node.span)
    }

    /// Whether a layout in which an operand is stored cuts it only where the operator's splits may.
    pub fn keeps(&self, position: usize, layout: &Layout, span: Option<Span>) -> Checked<()> {
        let Some(rule) = self.rule() else { return Ok(()) };
        let mesh = &self.groups.mesh;
        let dims = rule.operands.get(position).cloned().unwrap_or_default();
        for (d, factors) in dims.iter().enumerate() {
            let [factor] = factors[..] else { continue };
            if let Err(cause) = flow::check_split(&rule.factors[factor], mesh, &layout.dims[d]) {
                let mut assignment = Assignment { axes: vec![Vec::new(); rule.factors.len()] };
                assignment.axes[factor].clone_from(&layout.dims[d]);
                let error = FlowError::BadSplit { factor, cause };
                return Err(self.refused(&rule, &assignment, &error, span));
            }
        }
        Ok(())
    }

    fn rule(&self) -> Option<Rule> {
        rule_of(self.func, self.inst).filter(|r| !r.factors.is_empty())
    }

    fn without_factors(&self, span: Option<Span>) -> Checked<Assignment> {
        let message = format!("`{}` has no factors: it works on whole values", self.name());
        Err(self.fault(codes::SCHEDULE_ILLEGAL, message, span, Vec::new()))
    }

    fn name(&self) -> String {
        let data = &self.func.insts[self.inst];
        let value = data.results.first().map_or("", |&v| self.func.values[v].name.as_str());
        format!("{} %{value}", data.op.info().name)
    }

    fn factor(&self, rule: &Rule, factor: FactorId) -> String {
        show_factor(self.module, self.func, self.inst, rule, factor)
    }

    fn fault(
        &self,
        code: Code,
        message: String,
        span: Option<Span>,
        legal: Vec<String>,
    ) -> Box<Fault> {
        let help = match legal.is_empty() {
            true => "leave it out".to_string(),
            false => format!("legal: {}", legal.join("; ")),
        };
        let place = format!("{}: {message}", self.place);
        Box::new(Fault {
            operator: Some(self.place.clone()),
            legal,
            ..*fault(code, place, span, help)
        })
    }

    /// The axes of a factor: `"gpu0, gpu1"`, or a list.
    fn axes(&self, rule: &Rule, factor: FactorId, node: &Node) -> Checked<Vec<AxisRef>> {
        let list = match &node.tree {
            Tree::Text(text) => text.clone(),
            Tree::List(items) => {
                let texts = items.iter().map(|n| super::read::text("axes", n).map(str::to_string));
                texts.collect::<Checked<Vec<_>>>()?.join(",")
            }
            _ => return Err(super::read::mistyped("axes", node, "a text such as \"gpu0, gpu1\"")),
        };
        let found = resolve(&list, self.groups).map_err(|cause| {
            let mesh = &self.groups.mesh;
            let named = self.groups.named.iter().filter(|(_, axes)| !axes.is_empty());
            let legal = mesh.axes.iter().map(|a| a.name.clone());
            let legal = legal.chain(named.map(|(n, _)| n.to_string())).collect();
            let mut problem = self.fault(codes::SCHEDULE_NAME, cause, node.span, legal);
            problem.dim = Some(self.factor(rule, factor));
            problem.axis = Some(list.clone());
            problem
        })?;
        Ok(found)
    }

    /// An assignment that is legal, and whose layouts are.
    fn checked(
        &self,
        rule: &Rule,
        assignment: Assignment,
        span: &dyn Fn(FactorId) -> Option<Span>,
    ) -> Checked<Assignment> {
        let mesh = &self.groups.mesh;
        if let Err(error) = flow::check(rule, mesh, &assignment) {
            let factor = factor_of(&error).unwrap_or(0);
            return Err(self.refused(rule, &assignment, &error, span(factor)));
        }
        let operands = (0..rule.operands.len()).map(|i| flow::operand_layout(rule, &assignment, i));
        let results =
            (0..rule.results.len()).map(|i| flow::result_layout(rule, &assignment, i, &[]));
        for layout in operands.chain(results) {
            if let Err(problem) = layout.check(mesh, layout.dims.len()) {
                let code = codes::SCHEDULE_ILLEGAL;
                return Err(self.fault(code, problem.message.clone(), span(0), Vec::new()));
            }
        }
        let axes = assignment.axes.iter().map(|list| axes::normalise(mesh, list)).collect();
        Ok(Assignment { axes })
    }

    fn refused(
        &self,
        rule: &Rule,
        assignment: &Assignment,
        error: &FlowError,
        span: Option<Span>,
    ) -> Box<Fault> {
        let factor = factor_of(error);
        let legal = factor.map_or(Vec::new(), |f| self.legal(rule, assignment, f));
        let message = format!("`{}`: {}", self.name(), error.describe(rule, &self.groups.mesh));
        let mut problem = self.fault(codes::SCHEDULE_ILLEGAL, message, span, legal);
        problem.dim = factor.map(|f| self.factor(rule, f));
        problem.axis = factor.map(|f| show_axes(self.groups, &assignment.axes[f]));
        problem
    }

    /// The axes that a factor may have beside those of the others, fewest first.
    fn legal(&self, rule: &Rule, assignment: &Assignment, factor: FactorId) -> Vec<String> {
        let mesh = &self.groups.mesh;
        let others: Vec<AxisRef> = assignment
            .axes
            .iter()
            .enumerate()
            .filter(|(f, _)| *f != factor)
            .flat_map(|(_, list)| list.iter().copied())
            .collect();
        let free: Vec<AxisRef> = mesh
            .whole_axes()
            .filter(|a| !others.iter().any(|o| axes::overlap(mesh, *a, *o)))
            .take(8)
            .collect();
        let pick = |set: usize| -> Vec<AxisRef> {
            free.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, a)| *a).collect()
        };
        let alone = |list: &Vec<AxisRef>| {
            let mut axes = vec![Vec::new(); rule.factors.len()];
            axes[factor].clone_from(list);
            flow::check(rule, mesh, &Assignment { axes }).is_ok()
        };
        let mut sets: Vec<Vec<AxisRef>> = (0..1 << free.len()).map(pick).filter(alone).collect();
        sets.sort_by_key(Vec::len);
        let show = |list: &Vec<AxisRef>| match list.is_empty() {
            true => "no axis".to_string(),
            false => format!("\"{}\"", show_axes(self.groups, list)),
        };
        sets.iter().take(MOST).map(show).collect()
    }
}

/// The factor that an error is about.
fn factor_of(error: &FlowError) -> Option<FactorId> {
    match error {
        FlowError::Disagree { factor, .. }
        | FlowError::NotWhole { factor }
        | FlowError::BadSplit { factor, .. } => Some(*factor),
        FlowError::Shared { factors, .. } => Some(factors.1),
        FlowError::Straddles { .. } | FlowError::Partial { .. } => None,
    }
}
