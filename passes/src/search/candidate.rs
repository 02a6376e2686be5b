//! Evaluating one tuple of degrees: lower both phases, price them, fit memory, predict the service.

use super::algebra::Algebra;
use super::layouts::Layouts;
use super::prune::Weights;
use super::ready::{Priceable, Ready, Terms};
use crate::codes;
use crate::evaluate::Pricing;
use crate::pipeline::{Lowering, Observer, balanced_stages, lower, shard};
use crate::propagate_shardings::Provenance;
use crate::strategy::megatron::{self, ExpertExchange, Phase};
use crate::strategy::{Degrees, Facts, Groups, Pin};
use shardc_cost::machine::Cluster;
use shardc_cost::memory::Memory;
use shardc_cost::profile::Profile;
use shardc_cost::serving::{Load, Objective, Serving, Unservable, most_output};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dim::Bindings;
use shardc_ir::graph::Module;
use std::cmp::Ordering;

/// Scratch space of kernels, bytes: split-KV partial results, GEMM workspaces. A guess that engines'
/// defaults (32 to 256 MiB) bracket.
pub const WORKSPACE_BYTES: u64 = 128 << 20;

/// Evaluates plans of one model on one cluster under one load.
#[derive(Clone, Debug)]
pub struct Evaluator<'a> {
    /// The logical program of each phase.
    pub(super) prefill: &'a Module,
    pub(super) decode: &'a Module,
    pub(super) facts: Facts,
    pub(super) weights: Weights,
    /// The cluster, all of whose devices are used.
    pub cluster: &'a Cluster,
    /// Whose kernels are priced.
    pub profile: &'a Profile,
    /// What is asked of the service.
    pub load: Load,
    /// Longest context that memory must hold, in tokens.
    pub max_len: u64,
    /// Part of device memory that may be used.
    pub mem_fraction: f64,
    /// The text of the user's pin file, read anew for every mesh.
    pub pins: Option<&'a str>,
    /// Layers of each pipeline stage; balanced where `None`.
    pub stage_layers: Option<&'a [u64]>,
}

/// A plan with its numbers.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// Degrees.
    pub degrees: Degrees,
    /// How tokens reach their experts.
    pub exchange: ExpertExchange,
    /// Mesh and axis groups of a stage.
    pub groups: Groups,
    /// Memory of the worst device.
    pub memory: Memory,
    /// The predicted service.
    pub serving: Serving,
    /// Tokens of a prefill step.
    pub chunk: u64,
    /// Where layouts are chosen operator by operator, all of them; the degrees then only say how
    /// stages and replicas are cut.
    pub layouts: Option<Box<Layouts>>,
    /// Where the e-graph looked at the programs: what it found.
    pub algebra: Option<Box<Algebra>>,
}

/// Why a plan is not possible.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Weights and fixed items exceed memory.
    Weights {
        /// Memory without any request.
        memory: Memory,
        /// Whether the items are exact; otherwise they are lower bounds that suffice to refuse.
        exact: bool,
    },
    /// The load cannot be served.
    Service {
        /// Memory without the KV cache.
        memory: Memory,
        /// Why.
        cause: Unservable,
    },
    /// It is sure to be worse than the plan that it was held against.
    Outdone,
}

impl Refusal {
    /// Memory of the fullest device without requests, where it was looked at.
    pub fn memory(&self) -> Option<&Memory> {
        match self {
            Refusal::Weights { memory, .. } | Refusal::Service { memory, .. } => Some(memory),
            Refusal::Outdone => None,
        }
    }
}

/// The lowered phases of a plan.
#[derive(Debug)]
pub struct Lowered {
    /// Prefill program and the origin of its layouts.
    pub prefill: (Module, Provenance),
    /// Decode program and the origin of its layouts.
    pub decode: (Module, Provenance),
    /// Mesh and axis groups of a stage.
    pub groups: Groups,
}

/// What Megatron's rule is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByRule<'a> {
    pub degrees: &'a Degrees,
    pub exchange: ExpertExchange,
    pub groups: &'a Groups,
    /// Pins that win over the rule's.
    pub pins: &'a [Pin],
}

impl Ways {
    /// The programs of a plan that is decided.
    pub fn one(first: Ready) -> Ways {
        Ways { first, second: None }
    }
}

impl<'a> Evaluator<'a> {
    /// An evaluator; `prefill` and `decode` are logical programs of one model.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        prefill: &'a Module,
        decode: &'a Module,
        cluster: &'a Cluster,
        profile: &'a Profile,
        load: Load,
        max_len: u64,
        mem_fraction: f64,
        pins: Option<&'a str>,
    ) -> Self {
        let (facts, weights) = (Facts::of(prefill), Weights::of(decode));
        Evaluator {
            prefill,
            decode,
            facts,
            weights,
            cluster,
            profile,
            load,
            max_len,
            mem_fraction,
            pins,
            stage_layers: None,
        }
    }

    /// The sizes of the model.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Devices in all.
    pub fn devices(&self) -> u64 {
        self.cluster.devices()
    }

    pub(super) fn pricing(&self) -> Pricing<'_> {
        Pricing { cluster: self.cluster, profile: self.profile }
    }

    /// Under which terms plans are judged.
    pub fn terms(&self) -> Terms<'_> {
        Terms {
            cluster: self.cluster,
            profile: self.profile,
            load: self.load,
            max_len: self.max_len,
            mem_fraction: self.mem_fraction,
        }
    }

    /// Lowers both phases of a plan; `observe` sees the program after each pass, by phase.
    ///
    /// # Errors
    /// A user's pin matches nothing, or a pass refuses the program.
    pub fn lower(
        &self,
        degrees: &Degrees,
        exchange: ExpertExchange,
        observe: &mut dyn FnMut(Phase, &'static str, &Module),
    ) -> Result<Lowered> {
        let groups = self.groups(degrees);
        let pins = self.user_pins(&groups)?;
        let by = ByRule { degrees, exchange, groups: &groups, pins: &pins };
        let mut run = |phase: Phase| self.lower_phase(phase, &by, observe);
        let (prefill, decode) = (run(Phase::Prefill)?, run(Phase::Decode)?);
        Ok(Lowered { prefill, decode, groups })
    }

    /// Mesh and axis groups of degrees.
    pub fn groups(&self, degrees: &Degrees) -> Groups {
        Groups::new(degrees, &self.facts, self.cluster.node.devices)
    }

    /// The user's pins on a mesh.
    fn user_pins(&self, groups: &Groups) -> Result<Vec<Pin>> {
        self.pins.map_or(Ok(Vec::new()), |text| Pin::parse_file(text, groups))
    }

    /// Lowers a phase as Megatron's rule says, further pins winning.
    pub(super) fn lower_phase(
        &self,
        phase: Phase,
        by: &ByRule<'_>,
        observe: &mut dyn FnMut(Phase, &'static str, &Module),
    ) -> Result<(Module, Provenance)> {
        self.lower_form(phase, phase, by, &mut |pass, module| observe(phase, pass, module))
    }

    /// Lowers the logical program of the phase `form` as Megatron's rule lays out another phase.
    pub(super) fn lower_form(
        &self,
        phase: Phase,
        form: Phase,
        by: &ByRule<'_>,
        observe: Observer<'_>,
    ) -> Result<(Module, Provenance)> {
        let stage_layers = self.stages(by.degrees)?;
        self.with_rule(phase, by, |lowering| {
            let lowering = Lowering { stage_layers: &stage_layers, ..*lowering };
            lower(self.program(form), &lowering, observe)
        })
    }

    /// Brings a phase to sharded level as Megatron's rule says.
    pub(super) fn shard_phase(&self, phase: Phase, by: &ByRule<'_>) -> Result<Module> {
        self.with_rule(phase, by, |lowering| shard(self.program(phase), lowering))
    }

    fn with_rule<T>(
        &self,
        phase: Phase,
        by: &ByRule<'_>,
        lower: impl FnOnce(&Lowering<'_>) -> Result<T>,
    ) -> Result<T> {
        let ByRule { degrees, exchange, groups, pins: further } = *by;
        let mut pins = megatron::pins(groups, phase, exchange);
        pins.extend_from_slice(further);
        let sizes = step_sizes(phase, degrees, self.load.isl, self.max_len);
        lower(&Lowering { groups, pins: &pins, sizes: &sizes, stage_layers: &[] })
    }

    /// Layers of each pipeline stage of a plan.
    ///
    /// # Errors
    /// `S107` where the user's stages are not pp in number, or do not hold every layer once.
    pub fn stages(&self, degrees: &Degrees) -> Result<Vec<u64>> {
        let layers = self.facts.layers;
        let Some(stages) = self.stage_layers else {
            return Ok(balanced_stages(layers, degrees.pp));
        };
        let bad = |message: String, help: String| {
            Err(Box::new(Diagnostic::error(codes::BAD_DEGREES, message).help(help)))
        };
        if stages.len() as u64 != degrees.pp {
            let message = format!("{} stages are given, and pp is {}", stages.len(), degrees.pp);
            return bad(message, format!("give pp={}, or {} stages", stages.len(), degrees.pp));
        }
        let sum = stages.iter().fold(0, |sum: u64, n| sum.saturating_add(*n));
        if sum != layers || stages.contains(&0) {
            let message = format!("stages hold {sum} layers, and the model has {layers}");
            let even: Vec<String> =
                balanced_stages(layers, degrees.pp).iter().map(u64::to_string).collect();
            let even = even.join(",");
            return bad(message, format!("give every stage a layer, such as {even}"));
        }
        Ok(stages.to_vec())
    }

    /// Memory of a plan that is too small for its weights alone, as found without lowering it;
    /// items are lower bounds. The user's pins may move weights, so with them nothing is known.
    fn too_heavy(&self, degrees: &Degrees) -> Option<Memory> {
        if self.pins.is_some() {
            return None;
        }
        let groups = self.groups(degrees);
        let pins = megatron::pins(&groups, Phase::Decode, ExpertExchange::AllToAll);
        // Replicas of a dense model need not talk to each other.
        let talking = degrees.devices() / if degrees.lockstep() { 1 } else { degrees.dp.max(1) };
        let device = Memory::of_device(&self.cluster.device, talking, self.mem_fraction);
        let weights = self.weights.at_least(&pins, &groups.mesh, degrees.pp);
        let memory = Memory { weights, workspace: WORKSPACE_BYTES, ..device };
        (!memory.fits()).then_some(memory)
    }

    /// Evaluates a plan with the better way to reach experts; plans that cannot hold their weights
    /// are refused without lowering.
    ///
    /// # Errors
    /// A user's pin matches nothing, or a pass refuses the program.
    pub fn evaluate(&self, degrees: &Degrees) -> Result<std::result::Result<Evaluated, Refusal>> {
        self.evaluate_against(degrees, None)
    }

    /// As [`evaluate`](Self::evaluate), but a plan that is sure to be worse than `best` need not be
    /// evaluated to the end.
    ///
    /// # Errors
    /// A user's pin matches nothing, or a pass refuses the program.
    pub fn evaluate_against(
        &self,
        degrees: &Degrees,
        best: Option<&Evaluated>,
    ) -> Result<std::result::Result<Evaluated, Refusal>> {
        match self.too_heavy(degrees) {
            Some(memory) => Ok(Err(Refusal::Weights { memory, exact: false })),
            None => self.evaluate_lowered(degrees, best),
        }
    }

    /// As [`evaluate`](Self::evaluate), with exact items of memory in refusals.
    ///
    /// # Errors
    /// A user's pin matches nothing, or a pass refuses the program.
    pub fn evaluate_exactly(
        &self,
        degrees: &Degrees,
    ) -> Result<std::result::Result<Evaluated, Refusal>> {
        self.evaluate_lowered(degrees, None)
    }

    fn evaluate_lowered(
        &self,
        degrees: &Degrees,
        best: Option<&Evaluated>,
    ) -> Result<std::result::Result<Evaluated, Refusal>> {
        let first = self.evaluate_with(degrees, ExpertExchange::AllToAll, best)?;
        if !self.exchange_matters(degrees) {
            return Ok(first);
        }
        let second = self.evaluate_with(degrees, ExpertExchange::AllGather, best)?;
        Ok(match better(&self.load, &first, &second) {
            true => second,
            false => first,
        })
    }

    /// Whether the ways to reach experts differ: they do not where every rank that holds experts
    /// has all their tokens anyway.
    fn exchange_matters(&self, degrees: &Degrees) -> bool {
        let groups = self.groups(degrees);
        let pins = |phase, exchange| megatron::pins(&groups, phase, exchange);
        let (all_to_all, all_gather) = (ExpertExchange::AllToAll, ExpertExchange::AllGather);
        self.facts.is_moe()
            && [Phase::Prefill, Phase::Decode]
                .iter()
                .any(|&phase| pins(phase, all_to_all) != pins(phase, all_gather))
    }

    /// The programs of a plan: for each way to reach experts that differs from the others.
    ///
    /// # Errors
    /// A user's pin matches nothing, or a pass refuses the program.
    pub fn prepare(&self, degrees: &Degrees) -> Result<Ways> {
        let prepared = |exchange| -> Result<Ready> {
            let lowered = self.lower(degrees, exchange, &mut |_, _, _| {})?;
            let read = |module| Priceable::of(module, self.cluster);
            let phases = (read(lowered.prefill.0)?, read(lowered.decode.0)?);
            Ok(Ready::new(degrees, exchange, lowered.groups, phases))
        };
        let second = match self.exchange_matters(degrees) {
            true => Some(prepared(ExpertExchange::AllGather)?),
            false => None,
        };
        Ok(Ways { first: prepared(ExpertExchange::AllToAll)?, second })
    }

    /// Evaluates a plan with one way to reach experts.
    fn evaluate_with(
        &self,
        degrees: &Degrees,
        exchange: ExpertExchange,
        best: Option<&Evaluated>,
    ) -> Result<std::result::Result<Evaluated, Refusal>> {
        let groups = self.groups(degrees);
        let pins = self.user_pins(&groups)?;
        let by = ByRule { degrees, exchange, groups: &groups, pins: &pins };
        let run = |phase| {
            let module = self.lower_phase(phase, &by, &mut |_, _, _| {})?;
            Priceable::of(module.0, self.cluster)
        };
        let prefill = run(Phase::Prefill)?;
        if best.is_some_and(|best| self.is_outdone(degrees, &prefill, best)) {
            return Ok(Err(Refusal::Outdone));
        }
        let decode = run(Phase::Decode)?;
        Ok(Ready::new(degrees, exchange, groups, (prefill, decode)).serve(&self.terms()))
    }

    /// Whether prefill alone keeps a plan below the throughput of `best`.
    fn is_outdone(&self, degrees: &Degrees, prefill: &Priceable, best: &Evaluated) -> bool {
        // Rates are quotients of a few floating-point operations; this much is beyond rounding.
        const SLACK: f64 = 1e-9;
        let most = self.load.prefill_steps().map(|load| {
            let terms = Terms { load, ..self.terms() };
            let step = |requests, tokens| prefill.least(&terms, degrees.dp, requests, tokens);
            most_output(degrees.devices(), degrees.dp, &load, &step)
        });
        let most = most.fold(0.0, f64::max);
        self.load.objective == Objective::Throughput
            && most < best.serving.tokens_per_s_per_device * (1.0 - SLACK)
    }

    /// Orders plans by the objective, better ones greater; ties prefer fewer collectives, that is
    /// smaller degrees in the order pp, tp, ep, etp.
    pub fn compare(&self, a: &Evaluated, b: &Evaluated) -> Ordering {
        compare(&self.load, a, b)
    }
}

/// From a request to the end of its answer, ns.
fn time(load: &Load, plan: &Evaluated) -> f64 {
    let (ttft, tpot) = (plan.serving.ttft.as_f64(), plan.serving.tpot.as_f64());
    ttft + tpot * load.osl.saturating_sub(1) as f64
}

/// What is maximised: output tokens a second and device; for the objective latency, requests a second
/// of one that is alone.
pub(super) fn worth(load: &Load, plan: &Evaluated) -> f64 {
    match load.objective {
        Objective::Throughput => plan.serving.tokens_per_s_per_device,
        Objective::Latency => 1e9 / time(load, plan),
    }
}

/// Orders plans by the objective of a load, as [`Evaluator::compare`].
fn compare(load: &Load, a: &Evaluated, b: &Evaluated) -> Ordering {
    let key = |e: &Evaluated| {
        let d = e.degrees;
        (d.pp, d.tp, d.ep, d.etp, d.cp)
    };
    let main = match load.objective {
        Objective::Latency => time(load, b).total_cmp(&time(load, a)),
        Objective::Throughput => {
            let rate = |e: &Evaluated| e.serving.tokens_per_s_per_device;
            rate(a).total_cmp(&rate(b))
        }
    };
    main.then_with(|| key(b).cmp(&key(a))).then_with(|| b.exchange.cmp(&a.exchange))
}

/// The programs of a plan, for one or two ways to reach experts.
#[derive(Clone, Debug)]
pub struct Ways {
    first: Ready,
    second: Option<Ready>,
}

/// The better way under these terms, with what it comes to.
pub fn best<'a>(
    ways: &'a Ways,
    terms: &Terms<'_>,
) -> (&'a Ready, std::result::Result<Evaluated, Refusal>) {
    let first = ways.first.serve(terms);
    let Some(ready) = &ways.second else { return (&ways.first, first) };
    let second = ready.serve(terms);
    match better(&terms.load, &first, &second) {
        true => (ready, second),
        false => (&ways.first, first),
    }
}

/// Whether the second of two outcomes is better by more than the steady state errs, so that another
/// prefill step than the engine's own is worth asking for.
pub(super) fn clearly_better(
    load: &Load,
    first: &std::result::Result<Evaluated, Refusal>,
    second: &std::result::Result<Evaluated, Refusal>,
) -> bool {
    const ERROR: f64 = 0.05;
    prefers(first, second, |a, b| worth(load, b) > worth(load, a) * (1.0 + ERROR))
}

/// Whether the second of two outcomes is better.
fn better(
    load: &Load,
    first: &std::result::Result<Evaluated, Refusal>,
    second: &std::result::Result<Evaluated, Refusal>,
) -> bool {
    prefers(first, second, |a, b| compare(load, b, a).is_gt())
}

/// Whether a plan is better than another, or is one where the other is none.
fn prefers(
    first: &std::result::Result<Evaluated, Refusal>,
    second: &std::result::Result<Evaluated, Refusal>,
    better: impl Fn(&Evaluated, &Evaluated) -> bool,
) -> bool {
    match (first, second) {
        (Ok(a), Ok(b)) => better(a, b),
        (first, second) => first.is_err() && second.is_ok(),
    }
}

/// Sizes for which passes choose collectives, by the names of the symbols: 64 requests a replica, the
/// new tokens of each, the longest context.
pub fn step_sizes(
    phase: Phase,
    degrees: &Degrees,
    isl: u64,
    max_len: u64,
) -> [(&'static str, u64); 3] {
    let new = match phase {
        Phase::Prefill => isl,
        Phase::Decode => 1,
    };
    [("B", degrees.dp.saturating_mul(64)), ("S", new), ("C", max_len)]
}

/// Requests of a replica, new tokens and context of a step of a phase, at the batch of a service.
pub fn step_of(phase: Phase, serving: &Serving, load: &Load) -> (u64, u64, u64) {
    match phase {
        Phase::Prefill => (serving.prefill_requests, load.isl, load.isl),
        Phase::Decode => (serving.micro_batch, 1, load.mean_context()),
    }
}

/// Values of the symbols in such a step of `dp` replicas.
pub fn step_bindings(
    module: &Module,
    phase: Phase,
    (dp, serving): (u64, &Serving),
    load: &Load,
) -> Bindings {
    let (requests, new, context) = step_of(phase, serving, load);
    bindings(module, dp.saturating_mul(requests), new, context)
}

/// Values of the symbols of a phase: requests, new tokens, cached tokens, and what windows keep.
pub fn bindings(module: &Module, requests: u64, new: u64, context: u64) -> Bindings {
    let mut bind = Bindings::default();
    for (sym, data) in module.syms.iter() {
        let value = match data.name.as_str() {
            "B" => requests,
            "S" => new,
            "C" => context,
            name if name.starts_with("C.") => context.min(data.hi),
            _ => data.hi,
        };
        bind.set(sym, value);
    }
    bind
}
