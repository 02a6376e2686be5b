//! One function's sweeps: axes spread through factors until nothing changes.

use super::State;
use super::provenance::{Origin, Provenance};
use shardc_ir::flow::{self, Side};
use shardc_ir::graph::{Func, Inst, Value};
use shardc_ir::layout::axes;
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::rule::{FactorId, FactorKind, Rule};
use shardc_ir::types::Kind;

/// Sweeps in which nothing new is reached end the propagation; more than this many never occur, as
/// each sweep but the last gives some dimension an axis.
const MAX_SWEEPS: usize = 1000;

/// Spreads the axes of dimensions up to `priority`.
pub(super) fn run(
    func: &Func,
    mesh: &Mesh,
    state: &mut State,
    priority: u32,
    provenance: &mut Provenance,
) {
    let rules: Vec<(Inst, Rule)> = func
        .body
        .iter()
        .filter_map(|&inst| {
            let rule =
                func.insts[inst].op.rule(&func.operand_types(inst), &func.result_types(inst));
            Some((inst, rule?))
        })
        .collect();
    let mut sweeper = Sweeper { func, mesh, state, priority, provenance };
    for _ in 0..MAX_SWEEPS {
        let mut changed = false;
        for (inst, rule) in &rules {
            changed |= sweeper.visit(*inst, rule);
        }
        for (inst, rule) in rules.iter().rev() {
            changed |= sweeper.visit(*inst, rule);
        }
        if !changed {
            break;
        }
    }
}

struct Sweeper<'a> {
    func: &'a Func,
    mesh: &'a Mesh,
    state: &'a mut State,
    priority: u32,
    provenance: &'a mut Provenance,
}

/// Axes that a factor carries somewhere.
struct Candidate {
    axes: Vec<AxisRef>,
    from: Value,
}

impl Sweeper<'_> {
    /// Spreads axes through one instruction; whether anything changed.
    fn visit(&mut self, inst: Inst, rule: &Rule) -> bool {
        let places = self.places(inst, rule);
        let mut claimed: Vec<(FactorId, Candidate)> = Vec::new();
        for factor in self.order(inst, rule) {
            let Some(best) = self.best(rule, &places, factor) else { continue };
            let used: Vec<AxisRef> = claimed.iter().flat_map(|(_, c)| c.axes.clone()).collect();
            let legal = self.legal_prefix(rule, factor, &best.axes, &used);
            if !legal.is_empty() {
                claimed.push((factor, Candidate { axes: legal, from: best.from }));
            }
        }
        let mut changed = false;
        for (factor, candidate) in &claimed {
            for (value, dim, factors) in &places {
                if factors.contains(factor) {
                    changed |= self.extend(inst, rule, (*value, *dim, factors), *factor, candidate);
                }
            }
        }
        changed
    }

    /// Every dimension of every operand and result, with its factors.
    fn places<'r>(&self, inst: Inst, rule: &'r Rule) -> Vec<(Value, usize, &'r Vec<FactorId>)> {
        let data = &self.func.insts[inst];
        let values = data.operands.iter().zip(&rule.operands);
        let values = values.chain(data.results.iter().zip(&rule.results));
        values.flat_map(|(&v, dims)| dims.iter().enumerate().map(move |(d, f)| (v, d, f))).collect()
    }

    /// Factors that weights carry come first: a weight is split where it is stored.
    fn order(&self, inst: Inst, rule: &Rule) -> Vec<FactorId> {
        let data = &self.func.insts[inst];
        let weights = data.operands.iter().zip(&rule.operands);
        let weights = weights.filter(|(v, _)| self.func.ty(**v).kind == Kind::Weight);
        let first: Vec<FactorId> = weights.flat_map(|(_, dims)| dims.concat()).collect();
        let rest = (0..rule.factors.len()).filter(|f| !first.contains(f));
        let mut order = first.clone();
        order.extend(rest);
        order
    }

    /// The longest axis list of a factor, if all others agree with its beginning.
    fn best(
        &self,
        rule: &Rule,
        places: &[(Value, usize, &Vec<FactorId>)],
        factor: FactorId,
    ) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        for (value, dim, factors) in places {
            let early = self.state.priority[*value].get(*dim).is_none_or(|p| *p <= self.priority);
            if !factors.contains(&factor) || !early {
                continue;
            }
            let list = self.axes_of(rule, *value, *dim, factors, factor)?;
            match &best {
                _ if list.is_empty() => {}
                Some(b) if axes::is_prefix(self.mesh, &b.axes, &list) => {}
                Some(b) if !axes::is_prefix(self.mesh, &list, &b.axes) => return None,
                _ => best = Some(Candidate { axes: list, from: *value }),
            }
        }
        best
    }

    /// The axes that a dimension gives to one of its factors.
    fn axes_of(
        &self,
        rule: &Rule,
        value: Value,
        dim: usize,
        factors: &[FactorId],
        factor: FactorId,
    ) -> Option<Vec<AxisRef>> {
        let at = (Side::Operand(0), dim);
        let dealt = flow::deal(rule, self.mesh, factors, &self.state.dims[value][dim], at).ok()?;
        dealt.into_iter().find(|(f, _)| *f == factor).map(|(_, list)| list)
    }

    /// The longest beginning of `list` that may split `factor` beside what is used already.
    fn legal_prefix(
        &self,
        rule: &Rule,
        factor: FactorId,
        list: &[AxisRef],
        used: &[AxisRef],
    ) -> Vec<AxisRef> {
        let data = &rule.factors[factor];
        if data.kind == FactorKind::NeedReplication {
            return Vec::new();
        }
        let free = |a: &AxisRef| !used.iter().any(|u| axes::overlap(self.mesh, *a, *u));
        let mut end = list.iter().take_while(|a| free(a)).count();
        while end > 0 && flow::check_split(data, self.mesh, &list[..end]).is_err() {
            end -= 1;
        }
        list[..end].to_vec()
    }

    /// Gives a dimension the axes of one of its factors, as far as it is open and they are free.
    fn extend(
        &mut self,
        inst: Inst,
        rule: &Rule,
        (value, dim, factors): (Value, usize, &[FactorId]),
        factor: FactorId,
        candidate: &Candidate,
    ) -> bool {
        if !self.state.open[value][dim] {
            return false;
        }
        let Some(now) = self.axes_of(rule, value, dim, factors, factor) else { return false };
        let rest = axes::strip_prefix(self.mesh, &candidate.axes, &now);
        let Some(gain) = rest.filter(|g| !g.is_empty()) else { return false };
        let used: Vec<AxisRef> = self.state.dims[value]
            .concat()
            .into_iter()
            .chain(self.state.banned[value].clone())
            .collect();
        let free = |a: &AxisRef| !used.iter().any(|u| axes::overlap(self.mesh, *a, *u));
        let gain: Vec<AxisRef> = gain.into_iter().take_while(free).collect();
        let minor_open = self.minor_factors_empty(rule, value, dim, factors, factor);
        if gain.is_empty() || !minor_open {
            return false;
        }
        let mut list = self.state.dims[value][dim].clone();
        list.extend(&gain);
        self.state.dims[value][dim] = axes::normalise(self.mesh, &list);
        let factor = rule.factors[factor].name.clone();
        let origin = Origin::Through { inst, factor, from: candidate.from };
        self.provenance.record(self.func, value, dim, &gain, &origin);
        true
    }

    /// Axes are appended at the minor end, so the factors after this one must hold none, and those
    /// before it must be split completely.
    fn minor_factors_empty(
        &self,
        rule: &Rule,
        value: Value,
        dim: usize,
        factors: &[FactorId],
        factor: FactorId,
    ) -> bool {
        let at = (Side::Operand(0), dim);
        let Ok(dealt) = flow::deal(rule, self.mesh, factors, &self.state.dims[value][dim], at)
        else {
            return false;
        };
        let position = factors.iter().position(|f| *f == factor).unwrap_or_default();
        let full = |(f, list): &(FactorId, Vec<AxisRef>)| {
            rule.factors[*f].size.as_fixed() == Some(self.mesh.size_of(list))
        };
        dealt[..position].iter().all(full) && dealt[position + 1..].iter().all(|d| d.1.is_empty())
    }
}
