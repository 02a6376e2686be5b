//! What each gene's operators cost: where moves to a bottleneck begin.

use super::LayoutSpace;
use crate::evaluate::StepModel;
use crate::search::candidate::{Evaluated, bindings, step_of};
use crate::strategy::megatron::Phase;
use shardc_ir::diag::Result;

impl LayoutSpace<'_> {
    /// Adds the time of every operator and exchange to the genes of its site, for one request: its
    /// part of a prefill step, and of all its decode steps. What has no site counts for the stream.
    pub(super) fn charge(&self, plan: &Evaluated, cost: &mut [f64]) -> Result<()> {
        let lowered = self.evaluator.lower_plan(plan, &mut |_, _, _| {})?;
        let (load, serving) = (&self.evaluator.load, &plan.serving);
        let programs = [(Phase::Prefill, &lowered.prefill.0), (Phase::Decode, &lowered.decode.0)];
        for (phase, module) in programs {
            let (requests, new, context) = step_of(phase, serving, load);
            let all = plan.degrees.dp.saturating_mul(requests.max(1));
            let bind = bindings(module, all, new, context);
            let rounds = if phase == Phase::Decode { load.osl.saturating_sub(1) } else { 1 };
            let weight = rounds as f64 / requests.max(1) as f64;
            let model = StepModel::of(module, self.evaluator.cluster)?;
            for line in model.lines(self.evaluator.pricing(), &bind) {
                let time = line.time().as_f64() * weight;
                self.genes_of(phase, line.label).for_each(|g| cost[g] += time);
            }
        }
        Ok(())
    }

    /// The genes of the site that makes what a label names.
    fn genes_of(&self, phase: Phase, label: &str) -> std::ops::Range<usize> {
        let phase = usize::from(phase == Phase::Decode);
        let (func, value) = label.split_once('/').unwrap_or(("", label));
        let name = value.split(".moved").next().unwrap_or(value);
        let functions = self.phases[phase].iter().zip(&self.sites.of[phase]);
        let found = { functions }.find(|(ops, _)| ops.func.name == func);
        let site = found.and_then(|(ops, of)| of[ops.maker(name)?]);
        let first = site.map_or(self.layout.stream, |s| self.layout.sites[s]);
        first..first + self.atoms.len()
    }
}
