//! A plan in service: the step times, KV sizes and replicas that the simulator asks for.

use super::{Plan, Request};
use shardc_cost::machine::Cluster;
use shardc_cost::memory::Memory;
use shardc_cost::profile::Profile;
use shardc_cost::serving::StepTime;
use shardc_cost::simulate::{Engine, KvSizes, Parts, Tables};
use shardc_cost::time::Ns;
use shardc_ir::diag::Result;
use shardc_ir::dim::Bindings;
use shardc_ir::graph::Module;
use shardc_passes::evaluate::{MemoryModel, Pricing, StepModel, Work};
use shardc_passes::search::bindings;
use shardc_passes::strategy::Degrees;

/// A plan whose steps can be priced at any batch.
#[derive(Clone, Debug)]
pub struct Service {
    /// The local program of prefill.
    prefill: Module,
    /// The local program of decoding.
    decode: Module,
    /// Parallel degrees.
    pub degrees: Degrees,
    /// The devices.
    pub cluster: Cluster,
    /// Whose kernels are priced.
    pub profile: Profile,
    /// Memory of the fullest device.
    pub memory: Memory,
    /// The pipeline stage of that device.
    stage: usize,
}

/// The largest steps that a service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Largest {
    /// Requests of a replica.
    pub batch: u64,
    /// Tokens that a request attends to.
    pub context: u64,
    /// New tokens of a request in a step.
    pub tokens: u64,
}

impl Service {
    /// The service of a plan that was just made.
    pub fn of(plan: &Plan, request: &Request) -> Option<Service> {
        let local = |i: usize| Some(plan.phases.get(i)?.local()?.clone());
        Some(Service::new(
            (local(0)?, local(1)?),
            plan.best.degrees,
            plan.cluster.clone(),
            request.profile.clone(),
            plan.best.memory,
        ))
    }

    /// The service of local programs of prefill and decoding, one `program` a stage each, whose
    /// fullest device has `memory`.
    pub fn new(
        (prefill, decode): (Module, Module),
        degrees: Degrees,
        cluster: Cluster,
        profile: Profile,
        memory: Memory,
    ) -> Service {
        let model = MemoryModel::of(&decode);
        let one = bindings(&decode, degrees.dp, 1, 1 << 12);
        let fullest = |stage: &usize| {
            (model.weights(*stage, &one) == memory.weights, model.caches(*stage, &one))
        };
        let stage = (0..model.stages.len()).max_by_key(fullest).unwrap_or(0);
        Service { prefill, decode, degrees, cluster, profile, memory, stage }
    }

    /// Devices of an instance.
    pub fn devices(&self) -> u64 {
        self.degrees.devices()
    }

    /// KV memory of a replica in blocks of `block` tokens for requests of up to `longest` tokens.
    /// What prefill steps of `tokens` tokens keep live beyond the plan's own is taken from it.
    pub fn kv(&self, block: u64, longest: u64, tokens: u64) -> KvSizes {
        let (degrees, decode) = (&self.degrees, MemoryModel::of(&self.decode));
        let bind = bindings(&self.prefill, degrees.dp, tokens.max(1), tokens.max(1));
        let prefill = MemoryModel::of(&self.prefill);
        let live = match prefill.stages.len() {
            stages if self.stage < stages => prefill.activations(self.stage, &bind),
            _ => 0,
        };
        let activations = self.memory.activations.max(live);
        let budget = Memory { activations, ..self.memory }.kv_budget();
        KvSizes::new(block, budget, longest, |tokens| {
            let bind = bindings(&self.decode, degrees.dp, 1, tokens);
            if self.stage < decode.stages.len() { decode.caches(self.stage, &bind) } else { 0 }
        })
    }

    /// Step times up to the largest steps.
    ///
    /// # Errors
    /// `S101` where a program is not local.
    pub fn steps(&self, largest: &Largest) -> Result<Tables> {
        let prefill = Phase::of(&self.prefill, self)?;
        let decode = Phase::of(&self.decode, self)?;
        let of = |new: u64| if new > 1 { &prefill } else { &decode };
        let dense = |requests: u64, new: u64| of(new).dense(requests, new, new);
        let experts = |requests: u64, new: u64| {
            let all = of(new).without_attention(requests, new, new);
            less(all, dense(requests, new))
        };
        let prompt = |requests: u64, new: u64, past: u64| {
            let phase = of(new);
            let all = phase.all(requests, new, past.saturating_add(new));
            less(all, phase.without_attention(requests, new, new))
        };
        let attention =
            |requests: u64, context: u64| prompt(requests, 1, context.saturating_sub(1));
        Ok(Tables::sample(&Parts {
            dense: &dense,
            experts: &experts,
            decode: &attention,
            prefill: &prompt,
            batch: largest.batch,
            context: largest.context,
            tokens: largest.tokens,
        }))
    }

    /// An instance with its KV memory and step times.
    pub fn engine<'a>(&self, kv: &'a KvSizes, steps: &'a Tables) -> Engine<'a> {
        let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let degrees = &self.degrees;
        Engine {
            replicas: count(degrees.dp),
            lockstep: self.lockstep(),
            stages: count(degrees.pp),
            kv,
            steps,
        }
    }

    /// Whether experts span data-parallel replicas, which then step together.
    pub fn lockstep(&self) -> bool {
        self.degrees.lockstep()
    }
}

/// What a step takes beyond another.
fn less(all: StepTime, part: StepTime) -> StepTime {
    StepTime {
        latency: all.latency.saturating_sub(part.latency),
        interval: all.interval.saturating_sub(part.interval),
    }
}

/// Prices of one phase's steps.
struct Phase<'a> {
    service: &'a Service,
    module: &'a Module,
    all: StepModel,
    without_attention: StepModel,
    /// Without attention and experts.
    dense: StepModel,
}

impl<'a> Phase<'a> {
    fn of(module: &'a Module, service: &'a Service) -> Result<Self> {
        let all = StepModel::of(module, &service.cluster)?;
        let only = |keep: &dyn Fn(&Work) -> bool| {
            let mut model = all.clone();
            model.stages.iter_mut().for_each(|items| items.retain(|item| keep(&item.work)));
            model
        };
        let attention = |work: &Work| matches!(work, Work::Attention { .. });
        let experts = |work: &Work| matches!(work, Work::Experts { .. });
        let without_attention = only(&|work| !attention(work));
        let dense = only(&|work| !attention(work) && !experts(work));
        Ok(Phase { service, module, all, without_attention, dense })
    }

    fn bind(&self, requests: u64, new: u64, context: u64) -> Bindings {
        let all = self.service.degrees.dp.saturating_mul(requests);
        bindings(self.module, all, new, context)
    }

    fn time(&self, model: &StepModel, bind: &Bindings) -> StepTime {
        let Service { cluster, profile, .. } = self.service;
        model.time(Pricing { cluster, profile }, bind)
    }

    /// A step of `requests` a replica.
    fn all(&self, requests: u64, new: u64, context: u64) -> StepTime {
        self.time(&self.all, &self.bind(requests, new, context))
    }

    /// The same without attention.
    fn without_attention(&self, requests: u64, new: u64, context: u64) -> StepTime {
        self.time(&self.without_attention, &self.bind(requests, new, context))
    }

    /// The same without attention and experts.
    fn dense(&self, requests: u64, new: u64, context: u64) -> StepTime {
        self.time(&self.dense, &self.bind(requests, new, context))
    }
}

/// Time of a transfer's small message and bytes/s of one device, between nodes where there are
/// several, else inside the node.
pub fn link(cluster: &Cluster) -> (f64, Ns) {
    let (network, node) = (&cluster.network, &cluster.node);
    match cluster.nodes {
        0 | 1 => (node.link_bytes_per_s * node.link_achieved, Ns::from_ns(node.link_latency_ns)),
        _ => (network.bytes_per_s * network.achieved, Ns::from_ns(network.latency_ns)),
    }
}
