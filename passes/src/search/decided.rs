//! Plans whose decisions somebody has made: from what is stated to all layouts, and what they cost.

use super::candidate::{ByRule, Evaluated, Evaluator, Lowered, Refusal};
use super::headline::headline;
use super::layouts::Layouts;
use super::ready::{Priceable, Ready};
use crate::pipeline::lower_sharded;
use crate::propagate_shardings::Provenance;
use crate::schedule::{Base, Batching, Decisions, FuncSchedule, Rule, Schedule, applied_whole};
use crate::schedule::{Site, extract, stated};
use crate::strategy::megatron::{ExpertExchange, Phase};
use crate::strategy::{Degrees, Pin};
use shardc_ir::diag::Result;
use shardc_ir::graph::{Func, Inst, Module, Value};
use shardc_ir::layout::axes;
use shardc_ir::mesh::AxisRef;
use shardc_ir::ops::{Family, Op};
use std::collections::BTreeMap;

impl Evaluator<'_> {
    /// The evaluator of plans with the stages and batches of some decisions.
    pub fn asked<'b>(&'b self, decisions: &'b Decisions) -> Evaluator<'b> {
        Evaluator {
            load: decisions.batching.of(self.load),
            stage_layers: Some(&decisions.stages),
            pins: None,
            ..self.clone()
        }
    }

    /// Evaluates a plan by its decisions.
    ///
    /// # Errors
    /// Decisions that do not fit the program or the devices, or a pass refuses it.
    pub fn evaluate_decisions(
        &self,
        decisions: &Decisions,
    ) -> Result<std::result::Result<Evaluated, Refusal>> {
        let asked = self.asked(decisions);
        let (ready, layouts) = asked.prepare_decisions(decisions)?;
        let layouts = layouts.map(Box::new);
        let of_rule = decisions.exchange();
        Ok(ready.serve(&asked.terms()).map(|plan| Evaluated {
            layouts,
            exchange: of_rule.unwrap_or(plan.exchange),
            ..plan
        }))
    }

    /// The programs of a plan by its decisions, and their layouts where more is stated than a rule.
    ///
    /// # Errors
    /// As [`evaluate_decisions`](Self::evaluate_decisions).
    pub fn prepare_decisions(&self, decisions: &Decisions) -> Result<(Ready, Option<Layouts>)> {
        let asked = self.asked(decisions);
        let degrees = decisions.degrees();
        let observe = &mut |_: Phase, _: &'static str, _: &Module| {};
        if let (Base::Rule(rule), true) = (&decisions.base, decisions.is_plain()) {
            let lowered = asked.lower_rule(rule, observe)?;
            let read = |module| Priceable::of(module, asked.cluster);
            let phases = (read(lowered.prefill.0)?, read(lowered.decode.0)?);
            let ready = Ready::new(&degrees, rule.exchange, lowered.groups, phases);
            return Ok((ready, None));
        }
        let of_rule = match &decisions.base {
            Base::Operands { .. } => None,
            Base::Rule(rule) => Some(asked.layouts_of_rule(rule)?),
        };
        let (ready, [prefill, decode]) = asked.prepare_over(decisions, of_rule.as_ref())?;
        Ok((ready, Some(Layouts::new([asked.prefill, asked.decode], [prefill, decode]))))
    }

    /// As [`prepare_decisions`](Self::prepare_decisions), where what the decisions' rule comes to is
    /// known.
    ///
    /// # Errors
    /// As [`evaluate_decisions`](Self::evaluate_decisions).
    pub fn prepare_stated(&self, decisions: &Decisions, of_rule: &[Schedule; 2]) -> Result<Ready> {
        Ok(self.asked(decisions).prepare_over(decisions, Some(of_rule))?.0)
    }

    fn prepare_over(
        &self,
        decisions: &Decisions,
        of_rule: Option<&[Schedule; 2]>,
    ) -> Result<(Ready, [Schedule; 2])> {
        let degrees = decisions.degrees();
        let [prefill, decode] = self.resolve_over(decisions, of_rule)?;
        let lower = |phase, module| -> Result<(Module, Provenance)> {
            let options = self.options(&degrees, phase)?;
            Ok((lower_sharded(module, &options, &mut |_, _| {})?, Provenance::default()))
        };
        let lowered = Lowered {
            prefill: lower(Phase::Prefill, prefill.0)?,
            decode: lower(Phase::Decode, decode.0)?,
            groups: headline(self.decode, &decode.1).1,
        };
        let degrees = together(degrees, &lowered);
        Ok((self.ready(&degrees, lowered)?, [prefill.1, decode.1]))
    }

    /// Lowers both phases as a rule says.
    pub(super) fn lower_rule(
        &self,
        rule: &Rule,
        observe: &mut dyn FnMut(Phase, &'static str, &Module),
    ) -> Result<Lowered> {
        let groups = self.groups(&rule.degrees);
        let by = by_rule(rule, &groups, &rule.pins);
        let mut run = |phase| self.lower_phase(phase, &by, observe);
        let (prefill, decode) = (run(Phase::Prefill)?, run(Phase::Decode)?);
        Ok(Lowered { prefill, decode, groups })
    }

    /// All layouts of some decisions.
    ///
    /// # Errors
    /// As [`evaluate_decisions`](Self::evaluate_decisions).
    pub fn resolve(&self, decisions: &Decisions) -> Result<Layouts> {
        let asked = self.asked(decisions);
        let of_rule = match &decisions.base {
            Base::Operands { .. } => None,
            Base::Rule(rule) => Some(asked.layouts_of_rule(rule)?),
        };
        let layouts = asked.resolve_over(decisions, of_rule.as_ref())?;
        Ok(Layouts::new([asked.prefill, asked.decode], layouts.map(|(_, schedule)| schedule)))
    }

    /// The programs of prefill and of decoding at sharded level, and all layouts of each.
    fn resolve_over(
        &self,
        decisions: &Decisions,
        of_rule: Option<&[Schedule; 2]>,
    ) -> Result<[(Module, Schedule); 2]> {
        let one = |phase: Phase, stored: Option<&Schedule>| -> Result<(Module, Schedule)> {
            let module = self.program(phase);
            let stated = decisions.of_phase(phase, module);
            let mut wanted = match of_rule {
                None => stated,
                Some(base) => overlaid(module, base[phase as usize].clone(), &stated),
            };
            if let Some(stored) = stored {
                let stored = stored.stored_as(self.decode, module);
                for (name, func) in stored.funcs {
                    wanted.funcs.entry(name).or_default().params.extend(func.params);
                }
            }
            applied_whole(module, &wanted)
        };
        let decode = one(Phase::Decode, None)?;
        let prefill = one(Phase::Prefill, Some(&decode.1))?;
        Ok([prefill, decode])
    }

    /// The logical program of a phase.
    pub fn program(&self, phase: Phase) -> &Module {
        match phase {
            Phase::Prefill => self.prefill,
            Phase::Decode => self.decode,
        }
    }

    /// The schedules of prefill and of decoding that a rule comes to.
    ///
    /// # Errors
    /// A pin fits no value, or a pass refuses the program.
    pub fn layouts_of_rule(&self, rule: &Rule) -> Result<[Schedule; 2]> {
        let of = |phase| self.extract_rule(rule, phase);
        Ok([of(Phase::Prefill)?, of(Phase::Decode)?])
    }

    /// The schedule that a rule comes to.
    fn extract_rule(&self, rule: &Rule, phase: Phase) -> Result<Schedule> {
        let groups = self.groups(&rule.degrees);
        let by = by_rule(rule, &groups, &rule.pins);
        extract(self.program(phase), &self.shard_phase(phase, &by)?)
    }

    /// The program for which schedules are read and written.
    pub fn site(&self) -> Site<'_> {
        let devices = (self.cluster.node.devices, self.devices());
        Site { prefill: self.prefill, decode: self.decode, facts: &self.facts, devices }
    }

    /// How a plan batches requests.
    pub fn batching_of(&self, plan: &Evaluated) -> Batching {
        let (batch, stages) = (plan.serving.replica_batch, plan.degrees.pp);
        let cut = self.load.micro_batches(batch, stages).0;
        Batching {
            batch: Some(batch),
            micro_batches: (stages > 1 || self.load.micro_batches.is_some()).then_some(cut),
            chunk: Some(plan.chunk),
        }
    }

    /// The decisions of a plan, as few as say them all.
    ///
    /// # Errors
    /// The user's pins cannot be read, or the layouts do not fit the program.
    pub fn decisions_of(&self, plan: &Evaluated) -> Result<Decisions> {
        let batching = self.batching_of(plan);
        let stages = self.stages(&plan.degrees)?;
        let mesh = plan.groups.mesh.clone();
        let Some(layouts) = &plan.layouts else {
            let pins = match self.pins {
                Some(text) => Pin::parse_file(text, &plan.groups)?,
                None => Vec::new(),
            };
            let pins = pins.into_iter().map(|pin| Pin { span: None, ..pin }).collect();
            let rule = Rule { degrees: plan.degrees, exchange: plan.exchange, pins };
            let stated = [Schedule::empty(mesh.clone()), Schedule::empty(mesh)];
            let (base, stored) = (Base::Rule(rule), BTreeMap::new());
            return Ok(Decisions { stages, batching, base, stored, stated });
        };
        let mut of_decode = stated(self.decode, &layouts.decode, None)?;
        let given = layouts.decode.stored_as(self.decode, self.prefill);
        let mut of_prefill = stated(self.prefill, &layouts.prefill, Some(&given))?;
        let mut stored = take_stored(self.decode, &mut of_decode);
        stored.extend(take_stored(self.prefill, &mut of_prefill));
        let base = Base::Operands { mesh, replicas: plan.degrees.dp };
        Ok(Decisions { stages, batching, base, stored, stated: [of_prefill, of_decode] })
    }
}

fn by_rule<'a>(rule: &'a Rule, groups: &'a crate::strategy::Groups, pins: &'a [Pin]) -> ByRule<'a> {
    ByRule { degrees: &rule.degrees, exchange: rule.exchange, groups, pins }
}

impl Decisions {
    /// How tokens reach their experts, where a rule says it.
    pub fn exchange(&self) -> Option<ExpertExchange> {
        match &self.base {
            Base::Rule(rule) => Some(rule.exchange),
            Base::Operands { .. } => None,
        }
    }
}

/// Moves the layouts of weights and caches out of a schedule.
fn take_stored(
    module: &Module,
    schedule: &mut Schedule,
) -> BTreeMap<(String, String), shardc_ir::layout::Layout> {
    let mut out = BTreeMap::new();
    for func in module.funcs.values() {
        let Some(decided) = schedule.funcs.get_mut(&func.name) else { continue };
        for &param in func.params.iter().filter(|&&p| func.ty(p).kind.is_stored()) {
            if let Some(layout) = decided.params.remove(&param) {
                out.insert((func.name.clone(), func.values[param].name.clone()), layout);
            }
        }
    }
    out
}

/// A complete schedule with what is stated in its place; what the operators that are stated read and
/// hand on passes through no layout that only the old ones wanted.
fn overlaid(module: &Module, mut base: Schedule, over: &Schedule) -> Schedule {
    let nothing = FuncSchedule::default();
    for func in module.funcs.values() {
        let over = over.funcs.get(&func.name).unwrap_or(&nothing);
        let into = base.funcs.entry(func.name.clone()).or_default();
        for (&inst, assignment) in &over.assignments {
            if into.assignments.get(&inst) != Some(assignment) {
                release(func, inst, into);
                into.assignments.insert(inst, assignment.clone());
            }
        }
        into.ways.extend(over.ways.iter().map(|(at, way)| (*at, way.clone())));
        into.params.extend(over.params.iter().map(|(v, layout)| (*v, layout.clone())));
    }
    base
}

/// Forgets what followed from an operator's old assignment.
fn release(func: &Func, inst: Inst, decided: &mut FuncSchedule) {
    let data = &func.insts[inst];
    for value in data.operands.iter().filter(|&&v| func.ty(v).kind.is_stored()) {
        decided.params.remove(value);
    }
    let made = |v: &Value| data.results.contains(v);
    decided.ways.retain(|&(reader, position), _| {
        let taken = func.insts[reader].operands.get(position);
        reader != inst && !taken.is_some_and(made)
    });
}

/// Degrees that say whether replicas step together: they do where some collective goes over axes
/// that split requests.
pub(super) fn together(degrees: Degrees, lowered: &Lowered) -> Degrees {
    let dp = lowered.groups.axes("dp");
    if dp.is_empty() {
        return degrees;
    }
    let mixed = [&lowered.prefill.0, &lowered.decode.0].iter().any(|m| mixes(m, dp));
    match (mixed && degrees.dp > 1, degrees.lockstep()) {
        (true, false) => Degrees { ep: degrees.stage_devices(), etp: 1, ..degrees },
        (false, true) => Degrees { ep: 1, etp: degrees.tp.saturating_mul(degrees.cp), ..degrees },
        _ => degrees,
    }
}

/// Whether a collective of a local program moves values along some axes.
fn mixes(module: &Module, axes: &[AxisRef]) -> bool {
    let Some(mesh) = &module.mesh else { return false };
    let along = |layout: &shardc_ir::layout::Layout| -> Vec<(usize, AxisRef)> {
        let split = layout.dims.iter().enumerate();
        let split = split.flat_map(|(d, list)| list.iter().map(move |a| (d, *a)));
        let pending = layout.unreduced_axes().into_iter().map(|a| (usize::MAX, a));
        let on = |a: &AxisRef| axes.iter().any(|b| axes::overlap(mesh, *a, *b));
        split.chain(pending).filter(|(_, a)| on(a)).collect()
    };
    module.funcs.values().any(|func| {
        let moves = func.body.iter().map(|&i| &func.insts[i]).filter(|d| {
            d.op.info().family == Family::Collective && !matches!(d.op, Op::AllSlice(_))
        });
        let mut pairs = moves.flat_map(|d| d.operands.iter().zip(&d.results));
        pairs.any(|(&from, &to)| match (func.layout(from), func.layout(to)) {
            (Some(from), Some(to)) => along(from) != along(to),
            _ => false,
        })
    })
}
