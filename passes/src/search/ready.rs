//! A plan whose programs are lowered once and priced under any load.

use super::candidate::{
    Evaluated, Refusal, WORKSPACE_BYTES, bindings, clearly_better, step_bindings,
};
use crate::evaluate::{
    Basis, Category, MemoryModel, MixedSizes, MixedSteps, Pricing, Shared, StepModel,
};
use crate::strategy::megatron::{ExpertExchange, Phase};
use crate::strategy::{Degrees, Groups};
use shardc_cost::machine::Cluster;
use shardc_cost::memory::Memory;
use shardc_cost::profile::Profile;
use shardc_cost::serving::{Engine, Load, Mixed, Scheduling, Serving, StepTime, serve};
use shardc_cost::time::Ns;
use shardc_ir::diag::Result;
use shardc_ir::graph::Module;

/// The programs of a plan with the work of their steps.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Degrees.
    pub degrees: Degrees,
    /// How tokens reach their experts.
    pub exchange: ExpertExchange,
    /// Mesh and axis groups of a stage.
    pub groups: Groups,
    prefill: Priceable,
    decode: Priceable,
}

/// A local program and the work of its steps.
#[derive(Clone, Debug)]
pub(super) struct Priceable {
    module: Module,
    steps: StepModel,
    memory: MemoryModel,
}

impl Priceable {
    /// Reads the work of a local program.
    ///
    /// # Errors
    /// `S101` at another level.
    pub(super) fn of(module: Module, cluster: &Cluster) -> Result<Self> {
        let (steps, memory) = (StepModel::of(&module, cluster)?, MemoryModel::of(&module));
        Ok(Priceable { module, steps, memory })
    }

    /// A step of `requests` for each of `dp` replicas, of `new` tokens each after a cache that
    /// ends at `context`.
    fn step(&self, terms: &Terms<'_>, dp: u64, requests: u64, new: u64, context: u64) -> StepTime {
        let bind = bindings(&self.module, dp.saturating_mul(requests), new, context);
        self.steps.time(terms.pricing(), &bind)
    }

    /// A step of whole prompts.
    pub(super) fn prompts(
        &self,
        terms: &Terms<'_>,
        dp: u64,
        requests: u64,
        tokens: u64,
    ) -> StepTime {
        self.step(terms, dp, requests, tokens, tokens)
    }

    /// A step of a chunk of prompts beside decoding; this is the program of prompts.
    fn mixed(
        &self,
        decode: Option<&Priceable>,
        terms: &Terms<'_>,
        dp: u64,
        step: &Mixed,
    ) -> StepTime {
        let requests = dp.saturating_mul(step.prompts);
        let decodes = dp.saturating_mul(step.decodes);
        let sizes = MixedSizes {
            shared: Shared::of(&self.module, dp, step),
            prompts: bindings(&self.module, requests, step.isl, step.isl),
            chunks: step.chunks,
            decoding: decode
                .map_or_else(Default::default, |d| bindings(&d.module, decodes, 1, step.context)),
            served: step.served(),
        };
        let decoding = decode.map(|d| &d.steps);
        MixedSteps { prompts: &self.steps, decoding }.time(terms.pricing(), &sizes)
    }

    /// What whole prompts take at least, whether they run by themselves or ride in decode steps.
    pub(super) fn least(&self, terms: &Terms<'_>, dp: u64, requests: u64, isl: u64) -> StepTime {
        if !terms.load.mixes() {
            return self.prompts(terms, dp, requests, isl);
        }
        let step = Mixed::of(&terms.load, requests, 0);
        let one = self.mixed(None, terms, dp, &step);
        let all = |time: Ns| Ns::from_ns(time.as_f64() * step.chunks as f64);
        StepTime { latency: all(one.latency), interval: all(one.interval) }
    }
}

/// Under which terms a plan is judged.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Whose kernels are priced.
    pub profile: &'a Profile,
    /// What is asked of the service.
    pub load: Load,
    /// Longest context that memory must hold, in tokens.
    pub max_len: u64,
    /// Part of device memory that may be used.
    pub mem_fraction: f64,
}

impl<'a> Terms<'a> {
    fn pricing(&self) -> Pricing<'a> {
        Pricing { cluster: self.cluster, profile: self.profile }
    }
}

/// Requests of a replica in a decode step that memory has room for at least: the largest batch that
/// vLLM 0.6 admits unless told otherwise (`max_num_seqs`).
const DECODE_REQUESTS: u64 = 256;

impl Ready {
    /// A plan from the programs of prefill and decoding.
    pub(super) fn new(
        degrees: &Degrees,
        exchange: ExpertExchange,
        groups: Groups,
        (prefill, decode): (Priceable, Priceable),
    ) -> Ready {
        Ready { degrees: *degrees, exchange, groups, prefill, decode }
    }

    /// The local programs of prefill and of decoding.
    pub fn programs(&self) -> [&Module; 2] {
        [&self.prefill.module, &self.decode.module]
    }

    /// Memory and predicted service of the plan with the best of the prefill steps that the load leaves
    /// to choose from, or why it is not possible.
    ///
    /// # Errors
    /// Weights and fixed items exceed memory, or the load cannot be served.
    pub fn serve(&self, terms: &Terms<'_>) -> std::result::Result<Evaluated, Refusal> {
        let mut outcomes = terms.load.prefill_steps().map(|load| {
            let terms = Terms { load, ..*terms };
            self.serve_by(&terms)
        });
        let first = outcomes.next().unwrap_or_else(|| self.serve_by(terms));
        outcomes.fold(first, |best, next| match clearly_better(&terms.load, &best, &next) {
            true => next,
            false => best,
        })
    }

    /// As [`serve`](Self::serve), with the prefill step of the load.
    fn serve_by(&self, terms: &Terms<'_>) -> std::result::Result<Evaluated, Refusal> {
        match self.chosen_batch(terms) {
            Some(found) => Ok(found),
            None => self.serve_as_asked(terms),
        }
    }

    /// The service at the batch that is asked for, where it is the one that would be chosen anyway:
    /// then it is known what keeps it from growing.
    fn chosen_batch(&self, terms: &Terms<'_>) -> Option<Evaluated> {
        let load = terms.load;
        let batch = load.batch?;
        let free = Load { batch: None, micro_batches: None, ..load };
        let found = self.serve_as_asked(&Terms { load: free, ..*terms }).ok()?;
        let cut = |load: &Load| load.micro_batches(batch, self.degrees.pp);
        (found.serving.replica_batch == batch && cut(&free) == cut(&load)).then_some(found)
    }

    fn serve_as_asked(&self, terms: &Terms<'_>) -> std::result::Result<Evaluated, Refusal> {
        let mut together = DECODE_REQUESTS;
        loop {
            let outcome = self.serve_with_room(terms, together)?;
            // A batch beyond what memory had room for is served again with that room, which only
            // makes it smaller.
            let batch = outcome.serving.micro_batch;
            if batch <= together
                || self.fixed_memory(terms, batch) == self.fixed_memory(terms, together)
            {
                return Ok(outcome);
            }
            together = batch;
        }
    }

    /// As [`serve`](Self::serve), with room for the activations of `together` requests of each
    /// replica in a decode step.
    fn serve_with_room(
        &self,
        terms: &Terms<'_>,
        together: u64,
    ) -> std::result::Result<Evaluated, Refusal> {
        let (memory, kv_per_request) = self.fixed_memory(terms, together);
        if !memory.fits() {
            return Err(Refusal::Weights { memory, exact: true });
        }
        let dp = self.degrees.dp;
        let prefill = |requests, tokens| self.prefill.prompts(terms, dp, requests, tokens);
        let decode = |requests, context| self.decode.step(terms, dp, requests, 1, context);
        let mixed = |step: &Mixed| self.prefill.mixed(Some(&self.decode), terms, dp, step);
        let engine = Engine {
            devices: self.degrees.devices(),
            replicas: self.degrees.dp,
            lockstep: self.degrees.lockstep(),
            stages: self.degrees.pp,
            kv_budget: memory.kv_budget(),
            kv_bytes_per_request: kv_per_request,
            prefill: &prefill,
            decode: &decode,
            mixed: &mixed,
        };
        let scheduling = Scheduling { lag: self.lag(terms), ..terms.load.scheduling };
        match serve(&engine, &Load { scheduling, ..terms.load }) {
            Err(cause) => Err(Refusal::Service { memory, cause }),
            Ok(serving) => {
                let kv_cache = kv_per_request.saturating_mul(serving.replica_batch);
                Ok(Evaluated {
                    degrees: self.degrees,
                    exchange: self.exchange,
                    groups: self.groups.clone(),
                    memory: Memory { kv_cache, ..memory },
                    serving,
                    chunk: terms.load.prefill_tokens,
                    layouts: None,
                    algebra: None,
                })
            }
        }
    }

    /// Part of the requests in flight that wait outside the engine's scheduler.
    fn lag(&self, terms: &Terms<'_>) -> f64 {
        let (load, host) = (&terms.load, &terms.profile.host);
        let Some(asked) = load.concurrency.filter(|_| host.lag > 0.0) else { return 0.0 };
        let dp = self.degrees.dp.max(1);
        let batch = asked.div_ceil(dp).min(load.max_batch);
        let (_, together) = load.micro_batches(batch, self.degrees.pp);
        let module = &self.decode.module;
        let bind = bindings(module, dp.saturating_mul(together), 1, load.mean_context());
        let device = self.decode.steps.device_times(terms.pricing(), &bind).into_iter().max();
        host.lagging(device.unwrap_or_default().as_f64(), together)
    }

    /// Time by category of one micro-batch through all stages, at the batch of a service, and what
    /// it rests on.
    pub fn bases(
        &self,
        phase: Phase,
        serving: &Serving,
        terms: &Terms<'_>,
    ) -> Vec<(Category, Basis)> {
        let program = match phase {
            Phase::Prefill => &self.prefill,
            Phase::Decode => &self.decode,
        };
        let at = (self.degrees.dp, serving);
        let bind = step_bindings(&program.module, phase, at, &terms.load);
        program.steps.bases(terms.pricing(), &bind)
    }

    /// What a device takes for itself; buffers for communication only where some program
    /// communicates.
    fn device(&self, terms: &Terms<'_>) -> Memory {
        let talks = |program: &Priceable| !program.steps.collectives().is_empty();
        let devices = match talks(&self.prefill) || talks(&self.decode) {
            true => self.degrees.devices(),
            false => 1,
        };
        Memory::of_device(&terms.cluster.device, devices, terms.mem_fraction)
    }

    /// Memory of a device of each pipeline stage without requests, and the KV bytes of one there.
    /// Activations have room for decode steps of `together` requests of each replica, or of
    /// [`DECODE_REQUESTS`].
    pub fn stage_memory(&self, terms: &Terms<'_>, together: u64) -> Vec<(Memory, u64)> {
        let Terms { load, max_len, .. } = *terms;
        let device = self.device(terms);
        let (prefill, decode) = (&self.prefill.memory, &self.decode.memory);
        let dp = self.degrees.dp;
        let prompts = (load.prefill_tokens / load.isl.max(1)).max(1);
        let isl = load.isl;
        let prompts = bindings(&self.prefill.module, dp.saturating_mul(prompts), isl, isl);
        let decoding = dp.saturating_mul(together.max(DECODE_REQUESTS));
        let tokens = bindings(&self.decode.module, decoding, 1, max_len);
        let one = bindings(&self.decode.module, dp, 1, max_len);
        let peaks = prefill.all_activations(&prompts).into_iter();
        let peaks = peaks.map(|peak| if load.prefilled { 0 } else { peak });
        let peaks = peaks.zip(decode.all_activations(&tokens)).map(|(a, b)| a.max(b));
        let of_stage = |(stage, activations): (usize, u64)| {
            let weights = decode.weights(stage, &one);
            let memory = Memory { weights, activations, workspace: WORKSPACE_BYTES, ..device };
            (memory, decode.caches(stage, &one))
        };
        peaks.enumerate().map(of_stage).collect()
    }

    /// Memory of the worst device before any request, and the KV bytes of one request there.
    fn fixed_memory(&self, terms: &Terms<'_>, together: u64) -> (Memory, u64) {
        let room = |(memory, kv): &(Memory, u64)| {
            let fits = i128::from(memory.usable) - i128::from(memory.total());
            if fits < 0 { fits } else { fits / i128::from((*kv).max(1)) }
        };
        let device = self.device(terms);
        self.stage_memory(terms, together).into_iter().min_by_key(room).unwrap_or((device, 0))
    }
}
