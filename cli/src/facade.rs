//! Compiling a model for a cluster: the steps of `shardc compile` as a library.
//!
//! ```no_run
//! use shardc::facade::{Request, compile};
//! # fn main() -> shardc_ir::diag::Result<()> {
//! let config = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}"#;
//! let request = Request::new(config, shardc_cost::machine::preset("h100x8")?);
//! let plan = compile(&request, &mut |_, _| {})?;
//! println!("{}", plan.best.degrees);
//! # Ok(())
//! # }
//! ```

use shardc_cost::machine::Cluster;
use shardc_cost::profile::Profile;
use shardc_cost::serving::Load;
use shardc_frontend::config::{self, Options};
use shardc_frontend::graph::{self, GraphOptions};
use shardc_frontend::spec::{DType, ModelSpec};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::Module;
use shardc_passes::absorb_latent::absorb_latent_attention;
use shardc_passes::evaluate::{Breakdown, Pricing, StepModel};
use shardc_passes::search::{
    self, Evaluated, Evaluator, Lowered, Method, Reading, bindings, explain_infeasible,
};
use shardc_passes::strategy::Degrees;
use shardc_passes::strategy::megatron::Phase;
use std::collections::BTreeMap;

/// What to compile, and for what.
#[derive(Clone, Debug)]
pub struct Request {
    /// Text of the model's `config.json`.
    pub config: String,
    /// Name of the model for people.
    pub name: String,
    /// Family to read the configuration as, whatever it says.
    pub assume: Option<String>,
    /// The cluster, all of whose devices are used.
    pub cluster: Cluster,
    /// Whose kernels are priced.
    pub profile: Profile,
    /// What is asked of the service.
    pub load: Load,
    /// Longest context that memory must hold; `isl + osl` where absent.
    pub max_len: Option<u64>,
    /// Part of device memory that may be used.
    pub mem_fraction: f64,
    /// Format of weights and activations, against the model's own.
    pub dtype: Option<DType>,
    /// Format of the KV cache.
    pub kv_dtype: Option<DType>,
    /// How to search.
    pub method: Method,
    /// Degrees that the user forces.
    pub layout: Option<Degrees>,
    /// Text of the user's pin file.
    pub pins: Option<String>,
}

impl Request {
    /// A request with the defaults of the command line.
    pub fn new(config: &str, cluster: Cluster) -> Self {
        Request {
            config: config.to_string(),
            name: String::new(),
            assume: None,
            cluster,
            profile: Profile::default(),
            load: Load::new(1024, 1024),
            max_len: None,
            mem_fraction: 1.0,
            dtype: None,
            kv_dtype: None,
            method: Method::Degrees,
            layout: None,
            pins: None,
        }
    }
}

/// A model read from its description.
#[derive(Clone, Debug)]
pub struct Model {
    /// Every decision of the description.
    pub spec: ModelSpec,
    /// Warnings of the reader.
    pub notes: Vec<Diagnostic>,
    /// What it computes.
    pub logical: Module,
    /// Format of the KV cache.
    pub kv_dtype: DType,
}

/// One phase of a plan.
#[derive(Clone, Debug)]
pub struct PhasePlan {
    /// Which phase.
    pub phase: Phase,
    /// Time of one step at the plan's batch, ns.
    pub time_ns: u64,
    /// Time by category.
    pub breakdown: Breakdown,
    /// Collectives that one device executes in one step.
    pub collectives: BTreeMap<&'static str, u64>,
    /// The program after each pass, in order.
    pub dumps: Vec<(&'static str, Module)>,
}

/// A compiled plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The model.
    pub model: Model,
    /// Degrees, memory and the predicted service.
    pub best: Evaluated,
    /// The reading that a rule without suffix took.
    pub reading: Option<Reading>,
    /// Plans that were evaluated.
    pub evaluations: u64,
    /// Prefill, then decode.
    pub phases: Vec<PhasePlan>,
}

/// Reads a model description and builds its logical IR.
///
/// # Errors
/// The errors of the configuration reader and of the graph builder.
pub fn read_model(request: &Request) -> Result<Model> {
    let options = Options { name: request.name.clone(), assume: request.assume.clone() };
    let reading = config::read(&request.config, &options)?;
    let graph_options =
        GraphOptions { all_logits: false, kv_dtype: request.kv_dtype, dtype: request.dtype };
    let logical = graph::build(&reading.spec, &graph_options)?;
    let kv_dtype = request.kv_dtype.or(request.dtype).unwrap_or(reading.spec.dtype);
    Ok(Model { spec: reading.spec, notes: reading.notes, logical, kv_dtype })
}

/// Compiles a model; `progress` is told evaluations done and to do.
///
/// # Errors
/// The model cannot be read, a pin or layout does not fit it, or (class infeasible) no plan fits.
pub fn compile(request: &Request, progress: &mut dyn FnMut(u64, u64)) -> Result<Plan> {
    let model = read_model(request)?;
    let prefill = model.logical.clone();
    let mut decode = model.logical.clone();
    absorb_latent_attention(&mut decode)?;
    let max_len = request.max_len.unwrap_or(request.load.isl.saturating_add(request.load.osl));
    let evaluator = Evaluator::new(
        &prefill,
        &decode,
        &request.cluster,
        &request.profile,
        request.load,
        max_len,
        request.mem_fraction,
        request.pins.as_deref(),
    );
    let found = search::search(&evaluator, request.method, request.layout, progress)?
        .map_err(|nothing| explain_infeasible(&evaluator, &nothing))?;
    let phases = describe(&evaluator, &found.best)?;
    Ok(Plan {
        best: found.best,
        reading: found.reading,
        evaluations: found.evaluations,
        phases,
        model,
    })
}

/// Lowers the chosen plan once more, keeping the program after each pass.
fn describe(evaluator: &Evaluator<'_>, best: &Evaluated) -> Result<Vec<PhasePlan>> {
    let mut dumps: BTreeMap<Phase, Vec<(&'static str, Module)>> = BTreeMap::new();
    let lowered = evaluator.lower(&best.degrees, best.exchange, &mut |phase, pass, module| {
        dumps.entry(phase).or_default().push((pass, module.clone()));
    })?;
    let Lowered { prefill, decode, .. } = &lowered;
    let serving = &best.serving;
    let replicas = best.degrees.dp;
    let isl = evaluator.load.isl.max(2);
    let sizes = [
        (Phase::Prefill, &prefill.0, serving.prefill_requests, isl, isl, serving.prefill_step),
        (
            Phase::Decode,
            &decode.0,
            serving.micro_batch,
            1,
            evaluator.load.mean_context(),
            serving.decode_step,
        ),
    ];
    let pricing = Pricing { cluster: evaluator.cluster, profile: evaluator.profile };
    let phase =
        |(phase, module, requests, new, context, step): (Phase, &Module, u64, u64, u64, _)| {
            let model = StepModel::of(module, evaluator.cluster)?;
            let bind = bindings(module, replicas.saturating_mul(requests), new, context);
            let step: shardc_cost::time::Ns = step;
            Ok(PhasePlan {
                phase,
                time_ns: step.get(),
                breakdown: model.breakdown(pricing, &bind),
                collectives: model.collectives(),
                dumps: dumps.remove(&phase).unwrap_or_default(),
            })
        };
    sizes.into_iter().map(phase).collect()
}
