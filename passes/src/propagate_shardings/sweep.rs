//! Sweeps over a module: axes spread through factors until nothing changes.

use super::provenance::{Origin, Provenance};
use super::site::{Site, Spot};
use super::state::State;
use crate::edits::Edits;
use crate::splits;
use shardc_ir::dim::Bindings;
use shardc_ir::flow::{self, Side};
use shardc_ir::graph::{FuncId, Module, Value};
use shardc_ir::layout::axes;
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::rule::{FactorId, Rule};
use shardc_ir::types::Kind;
use std::cmp::Reverse;

/// One round of sweeps, over the dimensions up to a priority.
pub(super) struct Sweeper<'a> {
    pub(super) module: &'a Module,
    pub(super) mesh: &'a Mesh,
    pub(super) bind: &'a Bindings,
    pub(super) state: &'a mut State,
    pub(super) priority: u32,
    pub(super) provenance: &'a mut Provenance,
    pub(super) edits: &'a mut Edits,
    /// Changes so far.
    pub(super) clock: u64,
}

/// Axes that a factor carries somewhere.
struct Candidate {
    factor: FactorId,
    axes: Vec<AxisRef>,
    from: (FuncId, Value),
}

impl Sweeper<'_> {
    /// Spreads axes until nothing changes. Every sweep but the last gives some dimension an axis, so
    /// that their number is bounded.
    pub(super) fn run(&mut self, sites: &[Site]) {
        let mut seen: Vec<Option<u64>> = vec![None; sites.len()];
        loop {
            let before = self.clock;
            for at in (0..sites.len()).chain((0..sites.len()).rev()) {
                if seen[at].is_none_or(|seen| self.changed_since(&sites[at], seen)) {
                    seen[at] = Some(self.clock);
                    self.visit(&sites[at]);
                }
            }
            if self.clock == before {
                break;
            }
        }
    }

    /// Whether anything around a site has changed since it was last looked at.
    fn changed_since(&self, site: &Site, seen: u64) -> bool {
        site.spots.iter().any(|s| self.state.of(s.func).changed[s.value] > seen)
    }

    /// Spreads axes through one site.
    fn visit(&mut self, site: &Site) {
        let rule = &site.rule;
        let factors = 0..rule.factors.len();
        let mut found: Vec<Candidate> = factors.filter_map(|f| self.best(site, f)).collect();
        found.sort_by_key(|c| (self.rank(c.from), Reverse(self.elements(c.from)), c.factor));
        let mut used: Vec<AxisRef> = Vec::new();
        for mut candidate in found {
            let free = splits::free_prefix(self.mesh, &candidate.axes, &used);
            let factor = &rule.factors[candidate.factor];
            candidate.axes = splits::useful_prefix(factor, self.mesh, &free);
            used.extend(&candidate.axes);
            for spot in site.spots.iter().filter(|s| s.factors.contains(&candidate.factor)) {
                self.extend(site, spot, &candidate);
            }
        }
    }

    /// Weights and caches come first: they stay where they are stored.
    fn rank(&self, (func, value): (FuncId, Value)) -> u8 {
        match self.module.funcs[func].ty(value).kind {
            Kind::Weight | Kind::Cache => 0,
            Kind::Tensor | Kind::Routed { .. } => 1,
        }
    }

    /// Among values of one rank, the largest decides.
    fn elements(&self, (func, value): (FuncId, Value)) -> u64 {
        self.module.funcs[func].ty(value).elements(self.bind)
    }

    /// The axes that the values around a site want for a factor: the longest list of the first rank
    /// that has any, as far as its peers agree.
    fn best(&self, site: &Site, factor: FactorId) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        let mut disputed = false;
        for spot in site.spots.iter().filter(|s| s.factors.contains(&factor)) {
            let from = (spot.func, spot.value);
            let Some(list) = self.early_axes(&site.rule, spot, factor) else { continue };
            let Some(now) = &mut best else {
                best = Some(Candidate { factor, axes: list, from });
                continue;
            };
            let (mine, theirs) = (self.rank(from), self.rank(now.from));
            if axes::is_prefix(self.mesh, &list, &now.axes) {
                if !disputed {
                    *now = Candidate { factor, axes: list, from };
                }
            } else if axes::is_prefix(self.mesh, &now.axes, &list) {
                continue;
            } else if mine < theirs {
                *now = Candidate { factor, axes: list, from };
                disputed = false;
            } else if mine == theirs {
                now.axes = axes::common_prefix(self.mesh, &now.axes, &list);
                disputed = true;
            }
        }
        best.filter(|c| !c.axes.is_empty())
    }

    /// The axes that a dimension gives to a factor, if it has any and it is its turn.
    fn early_axes(&self, rule: &Rule, spot: &Spot, factor: FactorId) -> Option<Vec<AxisRef>> {
        let priority = &self.state.of(spot.func).priority[spot.value];
        let early = priority.get(spot.dim).is_none_or(|p| *p <= self.priority);
        let dealt = self.deal(rule, spot).filter(|_| early)?;
        let (_, list) = dealt.into_iter().find(|(f, _)| *f == factor)?;
        Some(list).filter(|l| !l.is_empty())
    }

    /// The axes of a dimension, dealt to its factors.
    fn deal(&self, rule: &Rule, spot: &Spot) -> Option<Vec<(FactorId, Vec<AxisRef>)>> {
        let list = &self.state.of(spot.func).dims[spot.value][spot.dim];
        let at = (Side::Operand(0), spot.dim);
        flow::deal(rule, self.mesh, &spot.factors, list, at).ok()
    }

    /// Gives a dimension the axes of one of its factors, as far as it is open and they are free.
    fn extend(&mut self, site: &Site, spot: &Spot, candidate: &Candidate) {
        let state = self.state.of(spot.func);
        if !state.open[spot.value][spot.dim] {
            return;
        }
        let Some(dealt) = self.deal(&site.rule, spot) else { return };
        let Some(gain) = self.gain(&site.rule, &dealt, candidate) else { return };
        let dims = &state.dims[spot.value];
        let used = [&dims.concat()[..], &state.banned[spot.value]].concat();
        let gain = splits::free_prefix(self.mesh, &gain, &used);
        let gain = self.legal(&site.rule, &dealt, candidate.factor, gain);
        if gain.is_empty() || !self.edits.grant() {
            return;
        }
        let list = [&dims[spot.dim][..], &gain].concat();
        self.clock += 1;
        let state = self.state.of_mut(spot.func);
        state.dims[spot.value][spot.dim] = axes::normalise(self.mesh, &list);
        state.changed[spot.value] = self.clock;
        self.record(site, spot, candidate, &gain);
    }

    /// What a factor of a dimension would gain. Axes are appended at the minor end, so the factors
    /// after it must hold none, and those before it must be split completely.
    fn gain(
        &self,
        rule: &Rule,
        dealt: &[(FactorId, Vec<AxisRef>)],
        candidate: &Candidate,
    ) -> Option<Vec<AxisRef>> {
        let at = dealt.iter().position(|(f, _)| *f == candidate.factor)?;
        let full = |(f, list): &(FactorId, Vec<AxisRef>)| {
            rule.factors[*f].size.as_fixed() == Some(self.mesh.size_of(list))
        };
        let at_minor_end =
            dealt[..at].iter().all(full) && dealt[at + 1..].iter().all(|(_, l)| l.is_empty());
        let gain = axes::strip_prefix(self.mesh, &candidate.axes, &dealt[at].1)?;
        at_minor_end.then_some(gain)
    }

    /// As much of a gain as may split the factor behind what splits it already.
    fn legal(
        &self,
        rule: &Rule,
        dealt: &[(FactorId, Vec<AxisRef>)],
        factor: FactorId,
        gain: Vec<AxisRef>,
    ) -> Vec<AxisRef> {
        let now = dealt.iter().find(|(f, _)| *f == factor).map_or(&[][..], |(_, list)| list);
        let wanted = [now, &gain].concat();
        let legal = splits::useful_prefix(&rule.factors[factor], self.mesh, &wanted);
        axes::strip_prefix(self.mesh, &legal, now).unwrap_or_default()
    }

    fn record(&mut self, site: &Site, spot: &Spot, candidate: &Candidate, gain: &[AxisRef]) {
        let func = |id: FuncId| &self.module.funcs[id];
        let (from_func, from) = candidate.from;
        let origin = Origin::Through {
            op: func(site.func).insts[site.inst].op.info().name,
            factor: site.rule.factors[candidate.factor].name.clone(),
            from_func: (from_func != spot.func).then(|| func(from_func).name.clone()),
            from: func(from_func).values[from].name.clone(),
        };
        let place = (
            func(spot.func).name.as_str(),
            func(spot.func).values[spot.value].name.as_str(),
            spot.dim,
        );
        self.provenance.record(place, gain, &origin);
    }
}
