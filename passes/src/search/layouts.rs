//! Plans whose layouts are chosen operator by operator: lowering and evaluating them.

use super::candidate::{Evaluated, Evaluator, Lowered, Refusal, step_sizes};
use super::decided::together;
use super::headline::{Headline, headline};
use super::ready::{Priceable, Ready};
use crate::pipeline::lower_scheduled;
use crate::propagate_shardings::Provenance;
use crate::registry::Options;
use crate::schedule::Schedule;
use crate::strategy::megatron::{ExpertExchange, Phase};
use crate::strategy::{Degrees, Groups};
use shardc_ir::diag::Result;
use shardc_ir::graph::Module;
use shardc_ir::verify::verify;

/// All layouts of both phases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layouts {
    /// Of prefill.
    pub prefill: Schedule,
    /// Of decoding.
    pub decode: Schedule,
    /// The degrees of the heaviest layers, of prefill and of decoding.
    pub headlines: [Headline; 2],
    /// The axes of those of decoding.
    pub groups: Groups,
}

impl Layouts {
    /// The layouts of two schedules, of the logical programs of prefill and decoding.
    pub fn new([prefill, decode]: [&Module; 2], [of_prefill, of_decode]: [Schedule; 2]) -> Self {
        let (first, _) = headline(prefill, &of_prefill);
        let (second, groups) = headline(decode, &of_decode);
        let headlines = [first, second];
        Layouts { prefill: of_prefill, decode: of_decode, headlines, groups }
    }

    /// The schedule of a phase.
    pub fn of(&self, phase: Phase) -> &Schedule {
        match phase {
            Phase::Prefill => &self.prefill,
            Phase::Decode => &self.decode,
        }
    }

    /// The degrees of the heaviest layers in a phase.
    pub fn headline(&self, phase: Phase) -> &Headline {
        match phase {
            Phase::Prefill => &self.headlines[0],
            Phase::Decode => &self.headlines[1],
        }
    }
}

impl Evaluator<'_> {
    /// Lowers both phases of an evaluated plan; `observe` sees the program after each pass, by phase.
    ///
    /// # Errors
    /// A user's pin matches nothing, or a pass refuses the program.
    pub fn lower_plan(
        &self,
        plan: &Evaluated,
        observe: &mut dyn FnMut(Phase, &'static str, &Module),
    ) -> Result<Lowered> {
        if let Some(algebra) = &plan.algebra {
            return self.lower_algebra(plan, algebra, observe);
        }
        match &plan.layouts {
            Some(layouts) => self.lower_layouts(&plan.degrees, layouts, observe),
            None => self.lower(&plan.degrees, plan.exchange, observe),
        }
    }

    pub(super) fn lower_layouts(
        &self,
        degrees: &Degrees,
        layouts: &Layouts,
        observe: &mut dyn FnMut(Phase, &'static str, &Module),
    ) -> Result<Lowered> {
        let mut run = |phase, schedule: &Schedule| {
            let observe = &mut |pass, module: &Module| observe(phase, pass, module);
            lower_scheduled(self.program(phase), schedule, &self.options(degrees, phase)?, observe)
        };
        let prefill = run(Phase::Prefill, &layouts.prefill)?;
        let decode = run(Phase::Decode, &layouts.decode)?;
        let nothing = Provenance::default;
        Ok(Lowered {
            prefill: (prefill, nothing()),
            decode: (decode, nothing()),
            groups: layouts.groups.clone(),
        })
    }

    /// What passes are told that lower a phase.
    pub(super) fn options(&self, degrees: &Degrees, phase: Phase) -> Result<Options> {
        let sizes = step_sizes(phase, degrees, self.load.isl, self.max_len);
        Ok(Options {
            sizes: sizes.map(|(name, size)| (name.to_string(), size)).to_vec(),
            stage_layers: self.stages(degrees)?,
            ..Options::default()
        })
    }

    /// Evaluates a plan; of `degrees` only stages, replicas and devices count.
    ///
    /// # Errors
    /// The layouts do not fit the program, a pass refuses it, or what comes of it is no program.
    pub fn evaluate_layouts(
        &self,
        degrees: &Degrees,
        layouts: &Layouts,
    ) -> Result<std::result::Result<Evaluated, Refusal>> {
        let lowered = self.lower_layouts(degrees, layouts, &mut |_, _, _| {})?;
        let ready = self.ready(&together(*degrees, &lowered), lowered)?;
        let layouts = Some(Box::new(layouts.clone()));
        Ok(ready.serve(&self.terms()).map(|plan| Evaluated { layouts, ..plan }))
    }

    /// Programs that are verified, and can be priced.
    pub(super) fn ready(&self, degrees: &Degrees, lowered: Lowered) -> Result<Ready> {
        let Lowered { prefill, decode, groups } = lowered;
        for module in [&prefill.0, &decode.0] {
            verify(module).map_err(|mut errors| errors.swap_remove(0))?;
        }
        let read = |module| Priceable::of(module, self.cluster);
        let phases = (read(prefill.0)?, read(decode.0)?);
        Ok(Ready::new(degrees, ExpertExchange::AllToAll, groups, phases))
    }
}
