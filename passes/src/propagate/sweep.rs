//! One function's sweeps: axes spread through factors until nothing changes.

use super::State;
use super::provenance::{Origin, Provenance};
use shardc_ir::entity::SecondaryMap;
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
    let site = |&inst: &Inst| {
        let rule = func.insts[inst].op.rule(&func.operand_types(inst), &func.result_types(inst));
        Some(Site { inst, rule: rule?, seen: None })
    };
    let mut sites: Vec<Site> = func.body.iter().filter_map(site).collect();
    let changes = SecondaryMap::default();
    let mut sweeper = Sweeper { func, mesh, state, priority, provenance, changes, clock: 0 };
    for _ in 0..MAX_SWEEPS {
        let before = sweeper.clock;
        sites.iter_mut().for_each(|site| sweeper.revisit(site));
        sites.iter_mut().rev().for_each(|site| sweeper.revisit(site));
        if sweeper.clock == before {
            break;
        }
    }
}

/// An instruction with its rule.
struct Site {
    inst: Inst,
    rule: Rule,
    /// Changes made before the last visit.
    seen: Option<u64>,
}

struct Sweeper<'a> {
    func: &'a Func,
    mesh: &'a Mesh,
    state: &'a mut State,
    priority: u32,
    provenance: &'a mut Provenance,
    /// Per value, the number of its last change.
    changes: SecondaryMap<Value, u64>,
    /// Changes so far.
    clock: u64,
}

/// Axes that a factor carries somewhere.
struct Candidate {
    axes: Vec<AxisRef>,
    from: Value,
}

impl Sweeper<'_> {
    /// Visits an instruction unless nothing around it has changed since it was last looked at.
    fn revisit(&mut self, site: &mut Site) {
        let data = &self.func.insts[site.inst];
        let mut values = data.operands.iter().chain(&data.results);
        if site.seen.is_none_or(|seen| values.any(|&v| self.changes[v] > seen)) {
            site.seen = Some(self.clock);
            self.visit(site.inst, &site.rule);
        }
    }

    /// Spreads axes through one instruction.
    fn visit(&mut self, inst: Inst, rule: &Rule) {
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
        for (factor, candidate) in &claimed {
            for (value, dim, factors) in &places {
                if factors.contains(factor) {
                    self.extend(inst, rule, (*value, *dim, factors), *factor, candidate);
                }
            }
        }
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
    ) {
        if !self.state.open[value][dim] {
            return;
        }
        let Some(now) = self.axes_of(rule, value, dim, factors, factor) else { return };
        let rest = axes::strip_prefix(self.mesh, &candidate.axes, &now);
        let Some(gain) = rest.filter(|g| !g.is_empty()) else { return };
        let used: Vec<AxisRef> = self.state.dims[value]
            .concat()
            .into_iter()
            .chain(self.state.banned[value].clone())
            .collect();
        let free = |a: &AxisRef| !used.iter().any(|u| axes::overlap(self.mesh, *a, *u));
        let gain: Vec<AxisRef> = gain.into_iter().take_while(free).collect();
        let minor_open = self.minor_factors_empty(rule, value, dim, factors, factor);
        if gain.is_empty() || !minor_open {
            return;
        }
        let mut list = self.state.dims[value][dim].clone();
        list.extend(&gain);
        self.state.dims[value][dim] = axes::normalise(self.mesh, &list);
        self.clock += 1;
        self.changes[value] = self.clock;
        let factor = rule.factors[factor].name.clone();
        let origin = Origin::Through { inst, factor, from: candidate.from };
        self.provenance.record(self.func, value, dim, &gain, &origin);
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
