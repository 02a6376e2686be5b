//! Fleets: how many instances of which plans serve a stream of requests best under limits that most
//! requests have to meet.
//!
//! A fleet is judged by simulation, event by event: the largest rate of arrivals at which nine of ten
//! requests meet both limits. Instances are whole, pools are coarse, and waits are not additive, so this
//! is no problem for dynamic programming.

mod guess;
mod space;

pub use space::FleetSpace;

use super::service::{Largest, Service, link};
use super::{Programs, Request};
use crate::slots::Slots;
use shardc_cost::machine::Cluster;
use shardc_cost::serving::Load;
use shardc_cost::simulate::{
    Arrival, Engine, Fleet, KvSizes, Limits, Link, Policy, Pool, Report, Router, Tables, Workload,
    run,
};
use shardc_ir::diag::Result;
use shardc_passes::search::{Evaluated, Refusal, Terms, Ways, best};
use shardc_passes::strategy::Degrees;

/// One pool: instances of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolPlan {
    /// Degrees of an instance.
    pub degrees: Degrees,
    /// Instances.
    pub instances: u64,
}

/// A fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetPlan {
    /// Everything, or prompts where there is a pool for decoding.
    pub first: PoolPlan,
    /// Decoding.
    pub decode: Option<PoolPlan>,
    /// Tokens of a step that mixes prompts and decoding; none runs prompts whole.
    pub chunk: Option<u64>,
    /// Most requests of a replica.
    pub max_batch: u64,
}

/// What a fleet comes to at its largest rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// Requests a second at which enough requests meet the limits; 0 where none does.
    pub rate: f64,
    /// Part of the requests that meet them, at that rate, or at the least that was tried.
    pub good: f64,
    /// The time to first token that nine of ten do not exceed over its limit, there, and of TPOT.
    pub over: [f64; 2],
}

/// Part of the requests that has to meet the limits.
pub const ENOUGH: f64 = 0.9;
/// Tokens of a block of KV memory.
const BLOCK: u64 = 16;
/// Rates that are tried, as powers of two around one request a second and device.
const RATES: (f64, f64) = (-8.0, 4.0);
/// Halvings of that range: the rate is right within 0.9 %.
const HALVINGS: u32 = 10;
/// Most requests of a replica that step times are sampled for.
const BATCH: u64 = 1024;

/// A plan of an instance with its step times.
struct Instance {
    service: Service,
    steps: Tables,
}

/// What is known of an instance.
type Known = std::result::Result<Instance, Refusal>;

/// The devices of an instance, and its programs with each way to reach experts.
struct Prepared {
    devices: Cluster,
    ways: Ways,
}

/// Judges fleets of one model on one cluster under one stream of requests.
pub struct FleetJudge<'a> {
    programs: &'a Programs,
    /// What is asked, with memory for the longest request of the stream.
    request: Request,
    /// The devices of all instances.
    cluster: &'a Cluster,
    /// Requests as they arrive at one a second.
    requests: Vec<Arrival>,
    limits: Limits,
    prompts: guess::Prompts,
    prepared: Slots<Degrees, Result<Prepared>>,
    instances: Slots<Degrees, Result<Known>>,
}

impl<'a> FleetJudge<'a> {
    /// A judge; `requests` in order of arrival, of which only relative times count.
    pub fn new(
        programs: &'a Programs,
        request: &'a Request,
        requests: &[Arrival],
        limits: Limits,
    ) -> Self {
        let last = requests.iter().map(|r| r.at).max().unwrap_or(0).max(1);
        let scale = requests.len() as f64 * 1e9 / last as f64;
        let at = |r: &Arrival| Arrival { at: (r.at as f64 * scale).round() as u64, ..*r };
        let longest = longest(requests);
        FleetJudge {
            programs,
            request: Request { max_len: Some(longest + 1), ..request.clone() },
            cluster: &request.cluster,
            requests: requests.iter().map(at).collect(),
            limits,
            prompts: guess::Prompts::of(requests),
            prepared: Slots::default(),
            instances: Slots::default(),
        }
    }

    /// Devices of all instances.
    pub fn devices(&self) -> u64 {
        self.cluster.devices()
    }

    fn longest(&self) -> u64 {
        longest(&self.requests)
    }

    /// The best plan of an instance's degrees on devices of its own, or why there is none, in the
    /// steady state that the request asks for.
    ///
    /// # Errors
    /// The devices are no part of the cluster, or a pass refuses the program.
    pub fn instance_plan(
        &self,
        degrees: &Degrees,
    ) -> Result<std::result::Result<Evaluated, Refusal>> {
        self.steady(degrees, self.request.load)
    }

    /// What an instance comes to in the steady state of a load.
    fn steady(
        &self,
        degrees: &Degrees,
        load: Load,
    ) -> Result<std::result::Result<Evaluated, Refusal>> {
        let slot = self.prepared.slot(*degrees);
        let prepared = slot.get_or_init(|| self.prepare(degrees)).as_ref().map_err(Clone::clone)?;
        Ok(best(&prepared.ways, &self.terms(&prepared.devices, load)).1)
    }

    fn prepare(&self, degrees: &Degrees) -> Result<Prepared> {
        let devices = self.cluster.take(degrees.devices())?;
        let ways = self.programs.evaluator(&self.request, &devices, None).prepare(degrees)?;
        Ok(Prepared { devices, ways })
    }

    fn terms<'b>(&'b self, devices: &'b Cluster, load: Load) -> Terms<'b> {
        Terms {
            cluster: devices,
            profile: &self.request.profile,
            load,
            max_len: self.request.context(),
            mem_fraction: self.request.mem_fraction,
        }
    }

    fn instance(&self, degrees: &Degrees) -> Result<Known> {
        let slot = self.prepared.slot(*degrees);
        let prepared = slot.get_or_init(|| self.prepare(degrees)).as_ref().map_err(Clone::clone)?;
        let devices = &prepared.devices;
        // A pool for prompts alone may decode slowly: limits are the simulation's to judge.
        let load = Load { ttft_limit: None, tpot_limit: None, ..self.request.load };
        let (ready, outcome) = best(&prepared.ways, &self.terms(devices, load));
        let plan = match outcome {
            Err(refusal) => return Ok(Err(refusal)),
            Ok(plan) => plan,
        };
        let [prefill, decode] = ready.programs().map(Clone::clone);
        let profile = self.request.profile.clone();
        let service =
            Service::new((prefill, decode), *degrees, devices.clone(), profile, plan.memory);
        let longest = self.longest();
        let largest = Largest { batch: BATCH, context: longest + 1, tokens: longest };
        let steps = service.steps(&largest)?;
        Ok(Ok(Instance { service, steps }))
    }

    /// What a fleet comes to, or why an instance is not possible.
    ///
    /// # Errors
    /// An instance's devices are no part of the cluster, or a pass refuses its program.
    pub fn serve(&self, fleet: &FleetPlan) -> Result<std::result::Result<Served, Refusal>> {
        let slots = [Some(&fleet.first), fleet.decode.as_ref()]
            .map(|pool| pool.map(|pool| self.instances.slot(pool.degrees)));
        let mut pools: Vec<&Instance> = Vec::new();
        let plans = std::iter::once(&fleet.first).chain(&fleet.decode);
        for (slot, plan) in slots.iter().flatten().zip(plans) {
            match slot.get_or_init(|| self.instance(&plan.degrees)) {
                Ok(Ok(instance)) => pools.push(instance),
                Ok(Err(refusal)) => return Ok(Err(refusal.clone())),
                Err(problem) => return Err(problem.clone()),
            }
        }
        let tokens = fleet.chunk.unwrap_or(self.longest());
        let kvs: Vec<KvSizes> =
            pools.iter().map(|i| i.service.kv(BLOCK, self.longest(), tokens)).collect();
        let policy = Policy {
            chunk: fleet.chunk,
            max_batch: fleet.max_batch,
            prefill_tokens: self.request.profile.prefill_tokens,
            router: Router::LeastLoaded,
            ..Policy::default()
        };
        let one = pool(pools[0], &kvs[0], fleet.first.instances);
        let fleet = match &fleet.decode {
            None => Fleet::Together(one),
            Some(plan) => {
                let (bytes_per_s, latency) = link(self.cluster);
                let link = Link { bytes_per_s, latency: latency.get() };
                let two = pool(pools[1], &kvs[1], plan.instances);
                Fleet::Apart { prefill: one, decode: two, link }
            }
        };
        Ok(Ok(self.largest_rate(&fleet, &policy)))
    }

    /// The largest rate at which enough requests meet the limits, by halving.
    fn largest_rate(&self, fleet: &Fleet<'_>, policy: &Policy) -> Served {
        let rate = |power: f64| power.exp2() * self.devices() as f64;
        let (mut low, mut high) = RATES;
        let mut best = self.at(fleet, policy, rate(low));
        if best.good < ENOUGH {
            return Served { rate: 0.0, ..best };
        }
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            let found = self.at(fleet, policy, rate(middle));
            if found.good >= ENOUGH {
                (low, best) = (middle, found);
            } else {
                high = middle;
            }
        }
        best
    }

    /// What a fleet comes to at so many requests a second.
    fn at(&self, fleet: &Fleet<'_>, policy: &Policy, rate: f64) -> Served {
        let at = |r: &Arrival| Arrival { at: (r.at as f64 / rate).round() as u64, ..*r };
        let requests: Vec<Arrival> = self.requests.iter().map(at).collect();
        let workload = Workload { requests: &requests, concurrency: None };
        let Ok(outcome) = run(&workload, fleet, policy, &mut |_| {}) else {
            return Served { rate, good: 0.0, over: [f64::INFINITY; 2] };
        };
        let report = Report::of(&outcome, &self.limits);
        let over = |time: shardc_cost::time::Ns, limit: Option<shardc_cost::time::Ns>| {
            limit.map_or(0.0, |l| time.as_f64() / l.as_f64().max(1.0))
        };
        let good = report.good as f64 / requests.len().max(1) as f64;
        let over =
            [over(report.ttft.p90, self.limits.ttft), over(report.tpot.p90, self.limits.tpot)];
        Served { rate, good, over }
    }
}

/// Tokens that the longest request holds.
fn longest(requests: &[Arrival]) -> u64 {
    requests.iter().map(Arrival::cached_tokens).max().unwrap_or(1)
}

fn pool<'i>(instance: &'i Instance, kv: &'i KvSizes, instances: u64) -> Pool<'i> {
    let engine: Engine<'i> = instance.service.engine(kv, &instance.steps);
    Pool { engine, instances: u32::try_from(instances).unwrap_or(u32::MAX) }
}
