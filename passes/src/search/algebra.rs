//! Plans whose programs the e-graph rewrites: what `compile --egraph on` does after its search.
//!
//! Each phase is lowered to collective level, its functions go into e-graphs at the plan's own batch,
//! and the cheapest programs come out. A phase is taken only if the evaluator then finds the plan
//! better, so a plan never gets worse.

use super::candidate::{ByRule, Evaluated, Evaluator, step_bindings};
use super::ready::{Priceable, Ready};
use crate::certify::rewrites;
use crate::codes;
use crate::egraph::module::{Alternative, Change, Equal, Terms, explore, extract};
use crate::egraph::{Budget, Room, Statistics};
use crate::registry::{Options, Pass};
use crate::strategy::megatron::{ExpertExchange, Phase};
use shardc_ir::algebra::rules;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::Module;
use shardc_ir::verify::verify;
use std::collections::BTreeMap;

/// The pass after which the e-graph sees a program.
const BEFORE: &str = "optimize-collectives";

/// What is seen before all passes.
const FIRST: &str = "logical";

/// The last pass, which runs on what comes out.
const LOCALIZE: &str = "localize";

/// What the e-graph did for a phase.
#[derive(Clone, Debug)]
pub struct PhaseAlgebra {
    /// The phase.
    pub phase: Phase,
    /// The program at collective level, if it is better than what went in.
    pub program: Option<Module>,
    /// The logical program that it computes, where that is another than the phase's own.
    pub logical: Option<Module>,
    /// How the graphs grew, by function.
    pub statistics: Vec<(String, Statistics)>,
    /// What became of functions.
    pub changes: Vec<Change>,
}

/// What the e-graph did for a plan.
#[derive(Clone, Debug)]
pub struct Algebra {
    /// Prefill, then decoding.
    pub phases: Vec<PhaseAlgebra>,
    /// Output tokens a second and device of the plan without it.
    pub rate_before: f64,
}

impl Algebra {
    /// What became of a phase, if its program was replaced.
    pub fn replaced(&self, phase: Phase) -> Option<&PhaseAlgebra> {
        self.phases.iter().find(|p| p.phase == phase && p.program.is_some())
    }
}

impl Evaluator<'_> {
    /// The plan with the programs of its phases rewritten, where that makes it better; what was done
    /// is in its `algebra` in any case.
    ///
    /// # Errors
    /// A pass refuses the program, or a rule is wrong (`S301`).
    pub fn with_algebra(&self, plan: &Evaluated) -> Result<Evaluated> {
        let mut before: BTreeMap<Phase, Module> = BTreeMap::new();
        self.lower_plan(plan, &mut |phase, pass, module| {
            if pass == BEFORE {
                before.insert(phase, module.clone());
            }
        })?;
        let mut phases = Vec::new();
        for (phase, module) in &before {
            phases.push(self.rewritten(plan, *phase, module)?);
        }
        let found: Vec<Phase> =
            phases.iter().filter(|p| p.program.is_some()).map(|p| p.phase).collect();
        let (mut best, mut kept) = (plan.clone(), Vec::new());
        let subsets: [&[Phase]; 3] =
            [&[Phase::Prefill], &[Phase::Decode], &[Phase::Prefill, Phase::Decode]];
        for subset in subsets.into_iter().filter(|s| s.iter().all(|p| found.contains(p))) {
            let program = |phase: Phase| {
                let new = phases.iter().find(|p| p.phase == phase);
                let new = new.and_then(|p| p.program.as_ref()).filter(|_| subset.contains(&phase));
                new.or_else(|| before.get(&phase)).cloned()
            };
            let Some(programs) = program(Phase::Prefill).zip(program(Phase::Decode)) else {
                continue;
            };
            let Ok(served) = self.served(plan, programs)? else { continue };
            if self.compare(&served, &best).is_gt() {
                (best, kept) = (served, subset.to_vec());
            }
        }
        for phase in phases.iter_mut().filter(|p| !kept.contains(&p.phase)) {
            phase.program = None;
        }
        let rate_before = plan.serving.tokens_per_s_per_device;
        best.algebra = Some(Box::new(Algebra { phases, rate_before }));
        Ok(best)
    }

    /// What the e-graph makes of a phase at the plan's batch.
    fn rewritten(&self, plan: &Evaluated, phase: Phase, module: &Module) -> Result<PhaseAlgebra> {
        let bind = step_bindings(module, phase, (plan.degrees.dp, &plan.serving), &self.load);
        let memory = &plan.memory;
        let spare = memory.usable.saturating_sub(memory.total());
        let room = Room::of(spare.saturating_add(memory.activations));
        let terms = Terms { pricing: self.pricing(), bind: &bind, room };
        let alternatives = self.alternatives(plan, phase, module);
        let others: Vec<Alternative> = alternatives.iter().map(|(a, _)| a.clone()).collect();
        let graphs = explore(module, &others, rules(), Budget::default())?;
        let out = extract(module, &graphs, terms, (rules(), Budget::default()))?;
        let name = |g: &crate::egraph::module::Saturated| module.funcs[g.func].name.clone();
        let statistics = graphs.iter().map(|g| (name(g), g.statistics.clone())).collect();
        let cheaper = out.changes.iter().any(|c| c.after < c.before);
        if cheaper {
            verify(&out.module).map_err(|found| {
                let message = format!("the e-graph gave no program: {}", found[0].message);
                Box::new(Diagnostic::error(codes::EGRAPH, message))
            })?;
        }
        let logical = cheaper.then(|| self.computed(phase, &out.changes, &alternatives)).flatten();
        let program = cheaper.then_some(out.module);
        Ok(PhaseAlgebra { phase, program, logical, statistics, changes: out.changes })
    }

    /// Other programs of a phase on the plan's mesh: as Megatron's rule lays them out with either way to
    /// reach experts, and with latent attention in the form of the other phase. With each the phase
    /// whose logical program it computes.
    fn alternatives(
        &self,
        plan: &Evaluated,
        phase: Phase,
        module: &Module,
    ) -> Vec<(Alternative, Phase)> {
        let groups = self.groups(&plan.degrees);
        if module.mesh.as_ref() != Some(&groups.mesh) {
            return Vec::new();
        }
        let equal: Vec<Equal> = rewrites(self.prefill, self.decode)
            .into_iter()
            .map(|r| Equal { func: r.function, own: r.before, other: r.after })
            .collect();
        let turned = |e: &Equal| Equal { own: e.other.clone(), other: e.own.clone(), ..e.clone() };
        let mut out: Vec<(Alternative, Phase)> = Vec::new();
        for form in [Phase::Prefill, Phase::Decode] {
            if form != phase && equal.is_empty() {
                continue;
            }
            let equal = match (phase, form) {
                (Phase::Prefill, Phase::Decode) => equal.clone(),
                (Phase::Decode, Phase::Prefill) => equal.iter().map(turned).collect(),
                _ => Vec::new(),
            };
            for exchange in [ExpertExchange::AllToAll, ExpertExchange::AllGather] {
                let by = ByRule { degrees: &plan.degrees, exchange, groups: &groups, pins: &[] };
                // What a rule's pins do not fit is no alternative.
                let Ok(other) = self.collective(phase, form, &by) else { continue };
                let known = out.iter().any(|(a, f)| *f == form && a.module == other);
                if other != *module && !known {
                    out.push((Alternative { module: other, equal: equal.clone() }, form));
                }
            }
        }
        out
    }

    /// The logical program of one phase in the layouts of another, at collective level.
    fn collective(&self, phase: Phase, form: Phase, by: &ByRule<'_>) -> Result<Module> {
        let mut found = None;
        self.lower_form(phase, form, by, &mut |pass, module| {
            if pass == BEFORE {
                found = Some(module.clone());
            }
        })?;
        let missing = || Diagnostic::error(codes::EGRAPH, format!("`{BEFORE}` did not run"));
        found.ok_or_else(|| Box::new(missing()))
    }

    /// The logical program that the functions taken compute; `None` where it is the phase's own.
    fn computed(
        &self,
        phase: Phase,
        changes: &[Change],
        alternatives: &[(Alternative, Phase)],
    ) -> Option<Module> {
        let mut logical = self.program(phase).clone();
        let mut other = false;
        for change in changes {
            let Some((_, form)) = change.program.checked_sub(1).and_then(|i| alternatives.get(i))
            else {
                continue;
            };
            let source = self.program(*form);
            let ids = logical.func(&change.func).zip(source.func(&change.func));
            if let Some((own, from)) = ids.filter(|_| *form != phase) {
                logical.funcs[own] = source.funcs[from].clone();
                other = true;
            }
        }
        other.then_some(logical)
    }

    /// The plan with these programs at collective level.
    fn served(
        &self,
        plan: &Evaluated,
        programs: (Module, Module),
    ) -> Result<std::result::Result<Evaluated, super::Refusal>> {
        let read = |module| Priceable::of(self.localized(plan, module)?, self.cluster);
        let phases = (read(programs.0)?, read(programs.1)?);
        let ready = Ready::new(&plan.degrees, plan.exchange, plan.groups.clone(), phases);
        let served = ready.serve(&self.terms());
        Ok(served.map(|served| Evaluated { layouts: plan.layouts.clone(), ..served }))
    }

    /// A program at local level.
    fn localized(&self, plan: &Evaluated, mut module: Module) -> Result<Module> {
        let stage_layers = self.stages(&plan.degrees)?;
        let options = Options { stage_layers, ..Options::default() };
        Pass::find(LOCALIZE)?.apply(&mut module, &options)?;
        Ok(module)
    }

    /// As lowering the plan without its algebra, with the programs replaced that it replaces.
    ///
    /// # Errors
    /// A user's pin matches nothing, or a pass refuses the program.
    pub(super) fn lower_algebra(
        &self,
        plan: &Evaluated,
        algebra: &Algebra,
        observe: &mut dyn FnMut(Phase, &'static str, &Module),
    ) -> Result<super::Lowered> {
        let plain = Evaluated { algebra: None, ..plan.clone() };
        let mut lowered = self.lower_plan(&plain, &mut |phase, pass, module| {
            let replaced = algebra.replaced(phase);
            match replaced.map(|p| p.logical.as_ref()) {
                None => observe(phase, pass, module),
                Some(None) if pass != LOCALIZE => observe(phase, pass, module),
                Some(Some(logical)) if pass == FIRST => {
                    let mesh = module.mesh.clone();
                    observe(phase, pass, &Module { mesh, ..logical.clone() });
                }
                Some(_) => {}
            }
        })?;
        for (phase, module) in
            [(Phase::Prefill, &mut lowered.prefill.0), (Phase::Decode, &mut lowered.decode.0)]
        {
            let replaced = algebra.replaced(phase).and_then(|p| p.program.as_ref());
            let Some(program) = replaced else { continue };
            observe(phase, "extract", program);
            *module = self.localized(plan, program.clone())?;
            observe(phase, LOCALIZE, module);
        }
        Ok(lowered)
    }
}
