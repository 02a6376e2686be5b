//! `local-op`: an operator on parts gives parts of what it gives on the whole.
//!
//! The operator's sharding rule says which dimensions share a factor. A substitution gives axes to
//! factors; everything else follows here, by the conditions of `docs/certificate.md`.

use super::place::{Place, Run, as_set, independent, joined, parts, read_runs, show_runs};
use super::refusal::{Outcome, refuse};
use super::{codes, share};
use shardc_ir::certificate::Given;
use shardc_ir::layout::ReduceKind;
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::rule::{Factor, FactorKind, PartialRule, Rule, Split};
use shardc_ir::types::Type;

/// An operator on logical values, and the placements of its operands.
pub(super) struct Applied<'a> {
    pub(super) mesh: &'a Mesh,
    pub(super) op: &'a Op,
    /// Logical types.
    pub(super) operands: Vec<&'a Type>,
    pub(super) results: Vec<&'a Type>,
    /// Where the operands lie.
    pub(super) places: Vec<&'a Place>,
}

impl Applied<'_> {
    /// Where the results lie.
    ///
    /// # Errors
    /// The axes may not be given so, or an operand lies otherwise.
    pub(super) fn leaves(&self, given: &[Given]) -> Outcome<Vec<Place>> {
        let Some(rule) = self.op.rule(&self.operands, &self.results) else {
            return self.without_factors(given);
        };
        let split = Assigned::of(self.mesh, &rule, given)?;
        split.check()?;
        for (i, (factors, place)) in rule.operands.iter().zip(&self.places).enumerate() {
            let wanted = split.place(factors);
            if wanted != place.dims {
                let wanted = Place { dims: wanted, pending: place.pending.clone() };
                return refuse(
                    codes::PLACEMENT,
                    format!("operand {i} lies otherwise than the axes say"),
                )
                .map_err(|r| {
                    r.note(format!("it is {}", place.show(self.mesh)))
                        .note(format!("the axes say {}", wanted.show(self.mesh)))
                });
            }
        }
        let pending = self.pending(&rule, &split)?;
        let place = |f: &Vec<Vec<usize>>| Place { dims: split.place(f), pending: pending.clone() };
        Ok(rule.results.iter().map(place).collect())
    }

    /// An operator without factors works on whole, complete values.
    fn without_factors(&self, given: &[Given]) -> Outcome<Vec<Place>> {
        if let Some(one) = given.first() {
            let name = self.op.info().name;
            let message = format!("`{name}` has no factor `{}` here", one.factor);
            return refuse(codes::SUBSTITUTION, message);
        }
        let split = |p: &&Place| **p != Place::whole(p.dims.len());
        if let Some(i) = self.places.iter().position(split) {
            let name = self.op.info().name;
            let message = format!("`{name}` works on whole values, and operand {i} is not");
            return refuse(codes::PLACEMENT, message);
        }
        Ok(self.results.iter().map(|ty| Place::whole(ty.rank())).collect())
    }

    /// What pends on the results: what was reduced over split factors, and what passes through.
    fn pending(
        &self,
        rule: &Rule,
        split: &Assigned<'_>,
    ) -> Outcome<Option<(ReduceKind, Vec<Run>)>> {
        let mut pending: Option<(ReduceKind, Vec<Run>)> = self.passed(rule, split)?;
        for (factor, runs) in rule.factors.iter().zip(&split.axes) {
            let FactorKind::Reduction(kind) = factor.kind else { continue };
            match &mut pending {
                _ if runs.is_empty() => {}
                None => pending = Some((kind, runs.clone())),
                Some((known, all)) if *known == kind => all.extend(runs),
                Some((known, _)) => {
                    let (a, b) = (known.name(), kind.name());
                    let message = format!("a {a} and a {b} would pend at once");
                    return refuse(codes::PARTIAL, message);
                }
            }
        }
        Ok(pending.map(|(kind, runs)| (kind, as_set(&runs))))
    }

    /// The partial sums of operands that pass through.
    fn passed(&self, rule: &Rule, split: &Assigned<'_>) -> Outcome<Option<(ReduceKind, Vec<Run>)>> {
        let partial = |p: &&Place| p.pending.is_some();
        let Some(first) = self.places.iter().position(partial) else { return Ok(None) };
        let (name, sum) = (self.op.info().name, &self.places[first].pending);
        if let Some((kind, _)) = sum
            && *kind != ReduceKind::Sum
        {
            let message = format!("no operator passes a pending {} on", kind.name());
            return refuse(codes::PARTIAL, message);
        }
        match &rule.partial {
            PartialRule::Complete => {
                let message = format!("`{name}` is not linear, and operand {first} is partial");
                return refuse(codes::PARTIAL, message);
            }
            PartialRule::OneOf(linear) if !linear.contains(&first) => {
                let message =
                    format!("`{name}` is not linear in operand {first}, which is partial");
                return refuse(codes::PARTIAL, message);
            }
            PartialRule::OneOf(_) => {
                if let Some(i) = (first + 1..self.places.len()).find(|&i| partial(&self.places[i]))
                {
                    let message = format!("`{name}` multiplies partial operands {first} and {i}");
                    return refuse(codes::PARTIAL, message);
                }
            }
            PartialRule::AllAlike => {
                if let Some(i) = self.places.iter().position(|p| p.pending != *sum) {
                    let message =
                        format!("operand {i} of `{name}` is not partial as operand {first} is");
                    return refuse(codes::PARTIAL, message);
                }
            }
        }
        let runs = self.places[first].pending_runs();
        let meets = |run: &&Run| split.axes.iter().flatten().any(|axis| axis.meets(**run));
        match runs.iter().find(meets) {
            Some(run) => {
                let run = run.show(self.mesh);
                let message = format!(
                    "{run} splits a factor of `{name}`, and operand {first} pends along it"
                );
                refuse(codes::PARTIAL, message)
            }
            None => Ok(sum.clone()),
        }
    }
}

/// The axes of every factor of a rule.
struct Assigned<'a> {
    mesh: &'a Mesh,
    rule: &'a Rule,
    axes: Vec<Vec<Run>>,
}

impl<'a> Assigned<'a> {
    fn of(mesh: &'a Mesh, rule: &'a Rule, given: &[Given]) -> Outcome<Self> {
        let mut axes = vec![Vec::new(); rule.factors.len()];
        if !given.is_sorted_by(|a, b| a.factor < b.factor) {
            return refuse(codes::SUBSTITUTION, "factors are not given axes once, in their order");
        }
        for one in given {
            let Some(at) = rule.factors.iter().position(|f| f.name == one.factor) else {
                let message = format!("the operator has no factor `{}`", one.factor);
                return refuse(codes::SUBSTITUTION, message);
            };
            let runs = read_runs(mesh, &one.axes)?;
            if runs.is_empty() {
                let message = format!("factor `{}` is given no axes", one.factor);
                return refuse(codes::SUBSTITUTION, message);
            }
            axes[at] = runs;
        }
        Ok(Assigned { mesh, rule, axes })
    }

    /// Whether every factor may be split so, and each axis splits one.
    fn check(&self) -> Outcome {
        let all: Vec<Run> = self.axes.iter().flatten().copied().collect();
        independent(self.mesh, &all).map_err(|mut r| {
            r.code = codes::SUBSTITUTION;
            r
        })?;
        for (factor, runs) in self.rule.factors.iter().zip(&self.axes) {
            if !runs.is_empty() && !may_split(factor, parts(runs)) {
                let (name, axes) = (&factor.name, show_runs(self.mesh, runs));
                let message = format!("{axes} may not split factor `{name}`");
                return refuse(codes::SUBSTITUTION, message);
            }
        }
        let values = self.rule.operands.iter().chain(&self.rule.results);
        for factors in values.flatten() {
            self.outer_before_inner(factors)?;
        }
        Ok(())
    }

    /// In a dimension of several factors the parts of an inner one lie together only where every
    /// outer one is split into single elements.
    fn outer_before_inner(&self, factors: &[usize]) -> Outcome {
        let single = |f: usize| self.rule.factors[f].size.as_fixed() == Some(parts(&self.axes[f]));
        let first = factors.iter().position(|&f| !single(f)).unwrap_or(factors.len());
        match factors.iter().skip(first + 1).find(|&&f| !self.axes[f].is_empty()) {
            Some(&inner) => {
                let (a, b) =
                    (&self.rule.factors[factors[first]].name, &self.rule.factors[inner].name);
                let message = format!(
                    "factor `{b}` is split inside factor `{a}`, which is not split in full"
                );
                refuse(codes::SUBSTITUTION, message)
            }
            None => Ok(()),
        }
    }

    /// The runs of every dimension.
    fn place(&self, dims: &[Vec<usize>]) -> Vec<Vec<Run>> {
        let one = |factors: &Vec<usize>| {
            let runs: Vec<Run> =
                factors.iter().flat_map(|&f| self.axes[f].iter().copied()).collect();
            joined(&runs)
        };
        dims.iter().map(one).collect()
    }
}

/// Whether a factor may be cut into `n > 1` parts.
fn may_split(factor: &Factor, n: u64) -> bool {
    if factor.kind == FactorKind::NeedReplication {
        return false;
    }
    let block = match factor.split {
        Split::Uneven => return true,
        Split::Even => 1,
        Split::Blocks(block) => block.max(1),
    };
    let (coefficient, symbol, shared) = factor.size.parts();
    let even = shared == 1 && coefficient.is_multiple_of(n);
    even && (block == 1 || symbol.is_none() && (coefficient / n).is_multiple_of(block))
}

/// Refuses an operator that is not the logical one with extents of its results made shares.
pub(super) fn same(local: &Op, logical: &Op, results: &[&Type], places: &[Place]) -> Outcome {
    let mut wanted = logical.clone();
    if let (Some(ty), Some(place)) = (results.first(), places.first()) {
        let dims = share::extents(ty, place)?;
        match &mut wanted {
            Op::Reshape(reshape) => reshape.shape = dims,
            Op::Broadcast(broadcast) => broadcast.shape = dims,
            Op::Dispatch(dispatch) => match dims.first() {
                Some(&experts) => dispatch.experts = experts,
                None => return refuse(codes::SHARE, "routed rows without experts"),
            },
            _ => {}
        }
    }
    if *local == wanted {
        return Ok(());
    }
    let (a, b) = (local.info().name, logical.info().name);
    match a == b {
        true => refuse(codes::OPERATOR, format!("`{a}` has other attributes than the logical one")),
        false => refuse(codes::OPERATOR, format!("`{a}` stands for the logical `{b}`")),
    }
}
