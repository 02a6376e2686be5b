//! What the layouts around an operator offer to the factors of its rule, one after the other.

use crate::splits;
use shardc_ir::flow::{self, Assignment, Side};
use shardc_ir::layout::{Layout, axes};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::rule::{DimFactors, FactorId, FactorKind, Rule};

/// An assignment that grows with every layout that is offered.
#[derive(Debug)]
pub struct Offers<'a> {
    rule: &'a Rule,
    mesh: &'a Mesh,
    /// What has been taken so far.
    pub assignment: Assignment,
}

impl<'a> Offers<'a> {
    /// An assignment that splits nothing yet.
    pub fn new(rule: &'a Rule, mesh: &'a Mesh) -> Self {
        let assignment = Assignment { axes: vec![Vec::new(); rule.factors.len()] };
        Offers { rule, mesh, assignment }
    }

    /// Axes that a result has pending split what is reduced, if that is one factor.
    pub fn reduce(&mut self, layout: &Layout) {
        for partial in &layout.unreduced {
            let factors = self.rule.factors.iter().enumerate();
            let mut of_kind =
                factors.filter(|(_, f)| f.kind == FactorKind::Reduction(partial.kind));
            if let (Some((factor, _)), None) = (of_kind.next(), of_kind.next()) {
                self.take(factor, &partial.axes);
            }
        }
    }

    /// Takes what the dimensions of a layout offer to their factors.
    pub fn offer(&mut self, dims: &DimFactors, layout: &Layout) {
        for (d, factors) in dims.iter().enumerate() {
            let at = (Side::Operand(0), d);
            let Ok(dealt) = flow::deal(self.rule, self.mesh, factors, &layout.dims[d], at) else {
                continue;
            };
            for (factor, list) in dealt {
                self.take(factor, &list);
            }
        }
    }

    /// Extends a factor by the axes of `list` that are free, as far as the split stays legal.
    fn take(&mut self, factor: FactorId, list: &[AxisRef]) {
        if list.is_empty() || !self.is_outermost(factor) {
            return;
        }
        let now = &self.assignment.axes[factor];
        let Some(gain) = axes::strip_prefix(self.mesh, list, now) else { return };
        let used = self.assignment.axes.concat();
        let gain = splits::free_prefix(self.mesh, &gain, &used);
        let wanted = [&now[..], &gain].concat();
        self.assignment.axes[factor] =
            splits::legal_prefix(&self.rule.factors[factor], self.mesh, &wanted);
    }

    /// Whether all factors before this one in the dimensions that carry it are split completely:
    /// only then do its parts lie together.
    fn is_outermost(&self, factor: FactorId) -> bool {
        let full = |f: &FactorId| {
            let parts = self.mesh.size_of(&self.assignment.axes[*f]);
            self.rule.factors[*f].size.as_fixed() == Some(parts)
        };
        let before = |factors: &Vec<FactorId>| {
            let at = factors.iter().position(|f| *f == factor);
            factors[..at.unwrap_or(0)].iter().all(full)
        };
        let values = self.rule.operands.iter().chain(&self.rule.results);
        values.flatten().all(before)
    }
}
