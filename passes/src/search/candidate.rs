//! Evaluating one tuple of degrees: lower both phases, price them, fit memory, predict the service.

use super::prune::Weights;
use crate::evaluate::{MemoryModel, Pricing, StepModel};
use crate::pipeline::{Lowering, Observer, balanced_stages, lower};
use crate::propagate_shardings::Provenance;
use crate::strategy::megatron::{self, ExpertExchange, Phase};
use crate::strategy::{Degrees, Facts, Groups, Pin};
use shardc_cost::machine::Cluster;
use shardc_cost::memory::Memory;
use shardc_cost::profile::Profile;
use shardc_cost::serving::{
    Engine, Load, Objective, Serving, StepTime, Unservable, most_output, serve,
};
use shardc_ir::diag::Result;
use shardc_ir::dim::Bindings;
use shardc_ir::graph::Module;
use std::cmp::Ordering;

/// Scratch space of kernels, bytes: split-KV partial results, GEMM workspaces. A guess that engines'
/// defaults (32 to 256 MiB) bracket.
const WORKSPACE_BYTES: u64 = 128 << 20;

/// Evaluates plans of one model on one cluster under one load.
#[derive(Debug)]
pub struct Evaluator<'a> {
    /// The logical program of each phase.
    prefill: &'a Module,
    decode: &'a Module,
    facts: Facts,
    weights: Weights,
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

    fn pricing(&self) -> Pricing<'_> {
        Pricing { cluster: self.cluster, profile: self.profile }
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
        let groups = Groups::new(degrees, &self.facts, self.cluster.node.devices);
        let mut run = |phase: Phase| self.lower_phase(phase, degrees, exchange, &groups, observe);
        let (prefill, decode) = (run(Phase::Prefill)?, run(Phase::Decode)?);
        Ok(Lowered { prefill, decode, groups })
    }

    fn lower_phase(
        &self,
        phase: Phase,
        degrees: &Degrees,
        exchange: ExpertExchange,
        groups: &Groups,
        observe: &mut dyn FnMut(Phase, &'static str, &Module),
    ) -> Result<(Module, Provenance)> {
        let mut pins = megatron::pins(groups, phase, exchange);
        if let Some(text) = self.pins {
            pins.extend(Pin::parse_file(text, groups)?);
        }
        let (logical, new) = match phase {
            Phase::Prefill => (self.prefill, self.load.isl.max(2)),
            Phase::Decode => (self.decode, 1),
        };
        let requests = degrees.dp.saturating_mul(64);
        let sizes = [("B", requests), ("S", new), ("C", self.max_len)];
        let stage_layers = balanced_stages(self.facts.layers, degrees.pp);
        let lowering = Lowering { groups, pins: &pins, sizes: &sizes, stage_layers: &stage_layers };
        let observe: Observer<'_> = &mut |pass, module| observe(phase, pass, module);
        lower(logical, &lowering, observe)
    }

    /// Memory of a plan that is too small for its weights alone, as found without lowering it;
    /// items are lower bounds. The user's pins may move weights, so with them nothing is known.
    fn too_heavy(&self, degrees: &Degrees) -> Option<Memory> {
        if self.pins.is_some() {
            return None;
        }
        let groups = Groups::new(degrees, &self.facts, self.cluster.node.devices);
        let pins = megatron::pins(&groups, Phase::Decode, ExpertExchange::AllToAll);
        let device = Memory::of_device(&self.cluster.device, degrees.devices(), self.mem_fraction);
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
        Ok(match (first, second) {
            (Ok(a), Ok(b)) if self.compare(&b, &a) == Ordering::Greater => Ok(b),
            (Err(_), Ok(b)) => Ok(b),
            (first, _) => first,
        })
    }

    /// Whether the ways to reach experts differ: they do not where every rank that holds experts
    /// has all their tokens anyway.
    fn exchange_matters(&self, degrees: &Degrees) -> bool {
        let groups = Groups::new(degrees, &self.facts, self.cluster.node.devices);
        let pins = |phase, exchange| megatron::pins(&groups, phase, exchange);
        let (all_to_all, all_gather) = (ExpertExchange::AllToAll, ExpertExchange::AllGather);
        self.facts.is_moe()
            && [Phase::Prefill, Phase::Decode]
                .iter()
                .any(|&phase| pins(phase, all_to_all) != pins(phase, all_gather))
    }

    /// Evaluates a plan with one way to reach experts.
    fn evaluate_with(
        &self,
        degrees: &Degrees,
        exchange: ExpertExchange,
        best: Option<&Evaluated>,
    ) -> Result<std::result::Result<Evaluated, Refusal>> {
        let groups = Groups::new(degrees, &self.facts, self.cluster.node.devices);
        let run = |phase| self.lower_phase(phase, degrees, exchange, &groups, &mut |_, _, _| {});
        let prefill = run(Phase::Prefill)?;
        let prefill_model = StepModel::of(&prefill.0, self.cluster)?;
        let step = |model: &StepModel, module: &Module, requests: u64, new: u64, context: u64| {
            let bind = bindings(module, degrees.dp.saturating_mul(requests), new, context);
            model.time(self.pricing(), &bind)
        };
        let prefill_step = |requests: u64, tokens: u64| -> StepTime {
            step(&prefill_model, &prefill.0, requests, tokens.max(2), tokens.max(2))
        };
        if best.is_some_and(|b| self.is_outdone(degrees, &prefill_step, b)) {
            return Ok(Err(Refusal::Outdone));
        }
        let decode = run(Phase::Decode)?;
        let decode_model = StepModel::of(&decode.0, self.cluster)?;
        let decode_step = |requests: u64, context: u64| -> StepTime {
            step(&decode_model, &decode.0, requests, 1, context)
        };
        let (memory, kv_per_request) = self.fixed_memory(degrees, &prefill.0, &decode.0);
        if !memory.fits() {
            return Ok(Err(Refusal::Weights { memory, exact: true }));
        }
        let engine = Engine {
            devices: degrees.devices(),
            replicas: degrees.dp,
            stages: degrees.pp,
            kv_budget: memory.kv_budget(),
            kv_bytes_per_request: kv_per_request,
            prefill: &prefill_step,
            decode: &decode_step,
        };
        Ok(match serve(&engine, &self.load) {
            Err(cause) => Err(Refusal::Service { memory, cause }),
            Ok(serving) => {
                let kv_cache = kv_per_request.saturating_mul(serving.replica_batch);
                let memory = Memory { kv_cache, ..memory };
                Ok(Evaluated { degrees: *degrees, exchange, groups, memory, serving })
            }
        })
    }

    /// Whether prefill alone keeps a plan below the throughput of `best`.
    fn is_outdone(
        &self,
        degrees: &Degrees,
        prefill: &dyn Fn(u64, u64) -> StepTime,
        best: &Evaluated,
    ) -> bool {
        // Rates are quotients of a few floating-point operations; this much is beyond rounding.
        const SLACK: f64 = 1e-9;
        let most = most_output(degrees.devices(), degrees.dp, &self.load, prefill);
        self.load.objective == Objective::Throughput
            && most < best.serving.tokens_per_s_per_device * (1.0 - SLACK)
    }

    /// Memory of the worst device before any request, and the KV bytes of one request there.
    fn fixed_memory(
        &self,
        degrees: &Degrees,
        prefill_module: &Module,
        decode_module: &Module,
    ) -> (Memory, u64) {
        let device = Memory::of_device(&self.cluster.device, degrees.devices(), self.mem_fraction);
        let (prefill, decode) = (MemoryModel::of(prefill_module), MemoryModel::of(decode_module));
        let together = (self.load.prefill_tokens / self.load.isl.max(1)).max(1);
        let isl = self.load.isl.max(2);
        let largest =
            |m: &MemoryModel<'_>, module: &Module, stage: usize, b: u64, s: u64, c: u64| {
                m.activations(stage, &bindings(module, degrees.dp.saturating_mul(b), s, c))
            };
        let one = bindings(decode_module, degrees.dp, 1, self.max_len);
        let at_stage = |stage: usize| {
            let weights = decode.weights(stage, &one);
            let activations = largest(&prefill, prefill_module, stage, together, isl, isl)
                .max(largest(&decode, decode_module, stage, 256, 1, self.max_len));
            let memory = Memory { weights, activations, workspace: WORKSPACE_BYTES, ..device };
            (memory, decode.caches(stage, &one))
        };
        let room = |(memory, kv): &(Memory, u64)| {
            let fits = i128::from(memory.usable) - i128::from(memory.total());
            if fits < 0 { fits } else { fits / i128::from((*kv).max(1)) }
        };
        let stages = (0..decode.stages.len()).map(at_stage);
        stages.min_by_key(room).unwrap_or((device, 0))
    }

    /// Orders plans by the objective, better ones greater; ties prefer fewer collectives, that is
    /// smaller degrees in the order pp, tp, ep, etp.
    pub fn compare(&self, a: &Evaluated, b: &Evaluated) -> Ordering {
        let time = |e: &Evaluated| {
            let s = &e.serving;
            s.ttft.as_f64() + s.tpot.as_f64() * self.load.osl.saturating_sub(1) as f64
        };
        let key = |e: &Evaluated| {
            let d = e.degrees;
            (d.pp, d.tp, d.ep, d.etp, d.cp)
        };
        let main = match self.load.objective {
            Objective::Latency => time(b).total_cmp(&time(a)),
            Objective::Throughput => {
                let rate = |e: &Evaluated| e.serving.tokens_per_s_per_device;
                rate(a).total_cmp(&rate(b))
            }
        };
        main.then_with(|| key(b).cmp(&key(a))).then_with(|| b.exchange.cmp(&a.exchange))
    }
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
