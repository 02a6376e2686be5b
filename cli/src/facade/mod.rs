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

mod alternatives;
mod certificate;
mod check;
mod exchange;
pub mod fleet;
mod launch;
mod notes;
mod plan;
pub mod pricing;
mod scheduled;
pub mod service;
pub mod sources;
mod weights;

pub use certificate::certificate;
pub use exchange::Exchange;
pub use launch::launch_plans;
pub use plan::{PhasePlan, Plan, Programs, plan, plan_fewest};
pub use sources::ServiceErrors;
pub use weights::{checked_sources, sources};

use shardc_cost::machine::Cluster;
use shardc_cost::profile::Profile;
use shardc_cost::serving::Load;
use shardc_frontend::config::{self, Options};
use shardc_frontend::graph::{self, GraphOptions};
use shardc_frontend::spec::{DType, ModelSpec, Quantisation};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::Module;
use shardc_passes::schedule::tree::Node;
use shardc_passes::search::outer::Memory;
use shardc_passes::search::{Method, State};
use shardc_passes::strategy::Degrees;

/// Which model, and in which formats.
#[derive(Clone, Debug, Default)]
pub struct ModelRequest {
    /// Text of the model's `config.json`.
    pub config: String,
    /// Name of the model for people.
    pub name: String,
    /// What another file says of the storage of its weights.
    pub quantisation: Option<Quantisation>,
    /// Family to read the configuration as, whatever it says.
    pub assume: Option<String>,
    /// Format of weights and activations, against the model's own; an 8-bit float is the format
    /// of weights alone.
    pub dtype: Option<DType>,
    /// Format of the KV cache, against the model's own.
    pub kv_dtype: Option<DType>,
}

/// What to compile, and for what.
#[derive(Clone, Debug)]
pub struct Request {
    /// The model.
    pub model: ModelRequest,
    /// The cluster, all of whose devices are used.
    pub cluster: Cluster,
    /// What `cluster` is a part of, where it is: more of it may be proposed.
    pub pool: Option<Cluster>,
    /// Whose kernels are priced.
    pub profile: Profile,
    /// What is asked of the service.
    pub load: Load,
    /// Longest context that memory must hold; `isl + osl` where absent.
    pub max_len: Option<u64>,
    /// Part of device memory that may be used.
    pub mem_fraction: f64,
    /// How to search.
    pub method: Method,
    /// What an earlier search left, to begin with.
    pub memory: Option<Memory>,
    /// Degrees that the user forces.
    pub layout: Option<Degrees>,
    /// Layers of each pipeline stage; balanced where `None`.
    pub stages: Option<Vec<u64>>,
    /// Text of the user's pin file.
    pub pins: Option<String>,
    /// Decisions that take the place of a search (docs/schedule.md).
    pub schedule: Option<Node>,
    /// Whether the e-graph rewrites the programs of the plan that was found.
    pub egraph: bool,
}

impl Request {
    /// A request with the defaults of the command line.
    pub fn new(config: &str, cluster: Cluster) -> Self {
        Request {
            model: ModelRequest { config: config.to_string(), ..ModelRequest::default() },
            cluster,
            pool: None,
            profile: Profile::default(),
            load: Load::new(1024, 1024),
            max_len: None,
            mem_fraction: 1.0,
            method: Method::Degrees,
            memory: None,
            layout: None,
            stages: None,
            pins: None,
            schedule: None,
            egraph: false,
        }
    }

    /// Longest context that memory must hold, in tokens.
    pub fn context(&self) -> u64 {
        self.max_len.unwrap_or(self.load.isl.saturating_add(self.load.osl))
    }
}

/// A model read from its description.
#[derive(Clone, Debug)]
pub struct Model {
    /// Every decision of the description, as the file says it.
    pub published: ModelSpec,
    /// The model that is compiled: in the formats that the request asks for.
    pub spec: ModelSpec,
    /// Warnings of the reader.
    pub notes: Vec<Diagnostic>,
    /// What it computes.
    pub logical: Module,
    /// Format of the KV cache.
    pub kv_dtype: DType,
}

/// Reads a model description and builds its logical IR.
///
/// # Errors
/// The errors of the configuration reader and of the graph builder.
pub fn read_model(request: &ModelRequest) -> Result<Model> {
    let options = Options {
        name: request.name.clone(),
        assume: request.assume.clone(),
        quantisation: request.quantisation.clone(),
    };
    let reading = config::read(&request.config, &options)?;
    let options =
        GraphOptions { all_logits: false, kv_dtype: request.kv_dtype, dtype: request.dtype };
    let spec = graph::converted(&reading.spec, &options)?.into_owned();
    let logical = graph::build(&reading.spec, &options)?;
    let kv_dtype = graph::kv_dtype(&spec, &options);
    Ok(Model { published: reading.spec, spec, notes: reading.notes, logical, kv_dtype })
}

/// Compiles a model; `progress` is told evaluations done and to do.
///
/// # Errors
/// A number of the request is out of range, the model cannot be read, a pin or layout does not fit
/// it, or (class infeasible) no plan fits.
pub fn compile(request: &Request, progress: &mut dyn FnMut(u64, u64)) -> Result<Plan> {
    check::request(request)?;
    let mut told = |state: &State| progress(state.done, state.budget);
    plan(request, &read_model(&request.model)?, &mut told)
}
