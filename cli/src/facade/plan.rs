//! From a model to a plan: search, then the chosen program once more with its numbers.

use super::{Exchange, Model, Request, alternatives, check, notes, scheduled};
use shardc_cost::machine::Cluster;
use shardc_cost::serving::Load;
use shardc_cost::time::Ns;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::Module;
use shardc_passes::absorb_latent_attention::absorb_latent_attention;
use shardc_passes::evaluate::{Basis, Breakdown, Category, Pricing, StepModel};
use shardc_passes::registry;
use shardc_passes::schedule::Decisions;
use shardc_passes::schedule::tree::Node;
use shardc_passes::search::outer::{Memory, Recall};
use shardc_passes::search::{
    self, Chosen, Evaluated, Evaluator, Found, Lowered, Method, Proof, Reading, State, bindings,
    step_of,
};
use shardc_passes::strategy::megatron::Phase;
use std::collections::BTreeMap;

/// One phase of a plan.
#[derive(Clone, Debug)]
pub struct PhasePlan {
    /// Which phase.
    pub phase: Phase,
    /// Time of one step at the plan's batch, ns.
    pub time_ns: u64,
    /// Requests of each replica in one micro-batch.
    pub requests: u64,
    /// New tokens of each request.
    pub tokens: u64,
    /// Time by category, of one micro-batch through all stages.
    pub breakdown: Breakdown,
    /// What these times rest on.
    pub bases: Vec<(Category, Basis)>,
    /// Collectives that one device executes for one micro-batch.
    pub collectives: BTreeMap<&'static str, u64>,
    /// How tokens reach experts of other devices, if any travel.
    pub exchange: Option<Exchange>,
    /// Micro-batches of a step, one behind the other through the stages.
    pub micro_batches: u64,
    /// Time of the slowest stage: between two micro-batches, ns.
    pub interval_ns: u64,
    /// Whether operators are laid out otherwise than the degrees say.
    pub mixed: bool,
    /// The program after each pass, in order.
    pub dumps: Vec<(&'static str, Module)>,
}

impl PhasePlan {
    /// The program of each pipeline stage.
    pub fn local(&self) -> Option<&Module> {
        self.dumps.last().map(|(_, module)| module)
    }
}

/// A compiled plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The model.
    pub model: Model,
    /// The devices that are used.
    pub cluster: Cluster,
    /// Degrees, memory and the predicted service.
    pub best: Evaluated,
    /// The reading that a rule without suffix took.
    pub reading: Option<Reading>,
    /// What was asked of the service.
    pub load: Load,
    /// Where the search was `auto`: which one ran, and why.
    pub chosen: Option<Chosen<Method>>,
    /// Plans that were evaluated.
    pub evaluations: u64,
    /// How good the plan is, where the search knows.
    pub proof: Option<Proof>,
    /// Layers of each pipeline stage.
    pub stage_layers: Vec<u64>,
    /// Prefill, then decode.
    pub phases: Vec<PhasePlan>,
    /// All decisions, as `--schedule` takes them.
    pub schedule: Node,
    /// Warnings about the model and the request.
    pub notes: Vec<Diagnostic>,
    /// What the search leaves to later ones, if it is one plan by plan.
    pub memory: Option<Memory>,
}

/// Plans a model on all devices of the request's cluster.
///
/// # Errors
/// A number of the request is out of range, a pin or layout does not fit the model, or (class
/// infeasible) no plan fits.
pub fn plan(request: &Request, model: &Model, progress: &mut dyn FnMut(&State)) -> Result<Plan> {
    check::request(request)?;
    if let Some(schedule) = &request.schedule {
        return scheduled::plan(request, model, schedule);
    }
    let programs = Programs::of(model)?;
    let evaluator = programs.evaluator(request, &request.cluster, request.pins.as_deref());
    let about = about(request, model);
    let recall = Recall { memory: request.memory.as_ref(), about: &about };
    let (method, layout) = (request.method, request.layout);
    let (outcome, memory) = search::search_recalling(&evaluator, method, layout, recall, progress)?;
    match outcome {
        Ok(found) => {
            let plan = programs.describe(request, model, &evaluator, found, None)?;
            Ok(Plan { memory, ..plan })
        }
        Err(nothing) => Err(alternatives::explain(request, model, *nothing)?),
    }
}

/// What is searched, in words: plans of one are plans of another only where these are equal.
fn about(request: &Request, model: &Model) -> String {
    let Request { cluster, profile, load, .. } = request;
    format!(
        "{} ({:?}) on {} devices of {} as {}, memory {} of {}, {load:?}",
        model.spec.name,
        (model.spec.dtype, model.kv_dtype),
        cluster.devices(),
        cluster.name,
        profile.name,
        request.mem_fraction,
        request.context(),
    )
}

/// Plans a model on the fewest devices of the request's cluster that meet the request: part of a
/// node, or whole nodes.
///
/// # Errors
/// As [`plan`]; where no count meets the request, why all devices do not.
pub fn plan_fewest(
    request: &Request,
    model: &Model,
    progress: &mut dyn FnMut(&State),
) -> Result<Plan> {
    check::request(request)?;
    if let Some(degrees) = request.layout {
        let cluster = request.cluster.take(degrees.devices())?;
        return plan(&Request { cluster, ..request.clone() }, model, progress);
    }
    let programs = Programs::of(model)?;
    for count in request.cluster.counts() {
        let cluster = request.cluster.take(count)?;
        let evaluator = programs.evaluator(request, &cluster, request.pins.as_deref());
        let nothing = Recall::default();
        match search::search_recalling(&evaluator, request.method, None, nothing, progress)?.0 {
            Ok(found) => return programs.describe(request, model, &evaluator, found, None),
            Err(_) => continue,
        }
    }
    plan(request, model, progress)
}

/// The logical program of each phase.
#[derive(Debug)]
pub struct Programs {
    /// Of prefill.
    pub prefill: Module,
    /// Of decoding.
    pub decode: Module,
}

impl Programs {
    /// The programs of a model.
    ///
    /// # Errors
    /// A pass refuses them.
    pub fn of(model: &Model) -> Result<Self> {
        let mut decode = model.logical.clone();
        absorb_latent_attention(&mut decode, &registry::Options::default())?;
        Ok(Programs { prefill: model.logical.clone(), decode })
    }

    /// What judges plans on a cluster, which need not be the request's.
    pub fn evaluator<'a>(
        &'a self,
        request: &'a Request,
        cluster: &'a Cluster,
        pins: Option<&'a str>,
    ) -> Evaluator<'a> {
        let mut evaluator = Evaluator::new(
            &self.prefill,
            &self.decode,
            cluster,
            &request.profile,
            request.load,
            request.context(),
            request.mem_fraction,
            pins,
        );
        evaluator.stage_layers = request.stages.as_deref();
        evaluator
    }

    /// The plan of what a search found, or of decisions that were given.
    pub(super) fn describe(
        &self,
        request: &Request,
        model: &Model,
        evaluator: &Evaluator<'_>,
        found: Found,
        given: Option<&Decisions>,
    ) -> Result<Plan> {
        let best = match request.egraph {
            true => evaluator.with_algebra(&found.best)?,
            false => found.best,
        };
        let mut phases = phases(evaluator, &best)?;
        if evaluator.pins.is_some() {
            let mut plain = self.evaluator(request, evaluator.cluster, None);
            plain.stage_layers = evaluator.stage_layers;
            let plain = plain.lower(&best.degrees, best.exchange, &mut |_, _, _| {})?;
            let programs = [&plain.prefill.0, &plain.decode.0];
            for (phase, program) in phases.iter_mut().zip(programs) {
                phase.mixed = phase.local() != Some(program);
            }
        }
        let mut warnings = model.notes.clone();
        warnings.extend(check::warnings(request, model));
        warnings.extend(notes::of_pins(request, evaluator.pins, &best.groups, &phases)?);
        let schedule = scheduled::schedule_of(evaluator, &best, given)?;
        check::countable(&best.serving, evaluator.cluster)?;
        Ok(Plan {
            model: model.clone(),
            cluster: evaluator.cluster.clone(),
            stage_layers: evaluator.stages(&best.degrees)?,
            reading: found.reading,
            load: Load { prefill_tokens: best.chunk, ..evaluator.load },
            best,
            chosen: chosen(request, evaluator),
            evaluations: found.evaluations,
            proof: found.proof,
            phases,
            schedule,
            notes: warnings,
            memory: None,
        })
    }
}

/// What `auto` ran, where it was asked.
fn chosen(request: &Request, evaluator: &Evaluator<'_>) -> Option<Chosen<Method>> {
    let decided = request.layout.is_some() || request.schedule.is_some();
    (request.method == Method::Auto && !decided).then(|| search::choose(evaluator))
}

/// Lowers the chosen plan once more, keeping the program after each pass.
fn phases(evaluator: &Evaluator<'_>, best: &Evaluated) -> Result<Vec<PhasePlan>> {
    let mut dumps: BTreeMap<Phase, Vec<(&'static str, Module)>> = BTreeMap::new();
    let lowered = evaluator.lower_plan(best, &mut |phase, pass, module| {
        dumps.entry(phase).or_default().push((pass, module.clone()));
    })?;
    let Lowered { prefill, decode, .. } = &lowered;
    let (serving, load) = (&best.serving, &evaluator.load);
    let pricing = Pricing { cluster: evaluator.cluster, profile: evaluator.profile };
    let mut phase = |phase, module: &Module, step: Ns| -> Result<_> {
        let (requests, new, context) = step_of(phase, serving, load);
        let model = StepModel::of(module, evaluator.cluster)?;
        let bind = bindings(module, best.degrees.dp.saturating_mul(requests), new, context);
        let bases = model.bases(pricing, &bind);
        Ok(PhasePlan {
            phase,
            time_ns: step.get(),
            requests,
            tokens: new,
            breakdown: Breakdown::of(&bases),
            bases,
            collectives: model.collectives(),
            exchange: Exchange::of(module),
            micro_batches: match phase {
                Phase::Prefill => 1,
                Phase::Decode => serving.replica_batch.div_ceil(serving.micro_batch.max(1)),
            },
            interval_ns: model.time(pricing, &bind).interval.get(),
            mixed: best.layouts.is_some(),
            dumps: dumps.remove(&phase).unwrap_or_default(),
        })
    };
    Ok(vec![
        phase(Phase::Prefill, &prefill.0, serving.prefill_step)?,
        phase(Phase::Decode, &decode.0, serving.decode_step)?,
    ])
}
