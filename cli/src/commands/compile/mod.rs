//! `shardc compile`: from a model and a cluster to a plan.

mod directory;
mod document;
mod request;
mod screen;
mod sources;

use crate::args::ModelArgs;
use crate::failure::{Failure, InSource, Outcome};
use crate::input::{self, ModelFiles};
use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use shardc::facade::{self, Model, Plan, Request};
use shardc_frontend::index;
use shardc_ir::diag::Diagnostic;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Compiles a model for a cluster.
///
/// Chooses parallel degrees for prefill and decode, lowers the model to what every GPU runs, and
/// predicts memory, step times, TTFT, TPOT and throughput.
#[derive(Clone, Debug, clap::Args)]
pub struct CompileArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// A preset such as h100x8 or h100x8x4 (`shardc clusters` lists them), or a cluster file
    /// (docs/cluster.md)
    #[arg(long, value_name = "PRESET|FILE")]
    cluster: String,
    /// Use the first N devices: N up to a node, or whole nodes; `auto`: the fewest that meet the
    /// request
    #[arg(long, value_name = "N|auto", allow_negative_numbers = true)]
    gpus: Option<request::Gpus>,
    /// Tokens of a prompt
    #[arg(long, value_name = "N", default_value_t = 1024, allow_negative_numbers = true)]
    isl: u64,
    /// Tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 1024, allow_negative_numbers = true)]
    osl: u64,
    /// Requests in flight [default: what the objective likes best]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    concurrency: Option<u64>,
    /// What the best plan is
    #[arg(long, value_enum, default_value_t = request::Goal::Throughput)]
    objective: request::Goal,
    /// Largest mean time to the first token, ms
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    ttft: Option<f64>,
    /// Largest mean time of each later token, ms
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    tpot: Option<f64>,
    /// Format of the KV cache [default: that of the activations]
    #[arg(long, value_name = "D")]
    kv_dtype: Option<String>,
    /// Longest context that memory must hold, tokens [default: isl + osl]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    max_len: Option<u64>,
    /// Part of device memory that may be used; driver and communication buffers are counted apart
    #[arg(long, value_name = "F", default_value_t = 1.0, allow_negative_numbers = true)]
    mem_fraction: f64,
    /// How to search: degrees, megatron-2021[:min|half|tp8], megatron-folded[:min|half|tp8]
    #[arg(long, value_name = "NAME", default_value = "degrees")]
    search: String,
    /// Force the degrees: tp=4,dp=2,ep=8; missing ones are 1, and etp is tp without ep
    #[arg(long, value_name = "DEGREES")]
    layout: Option<String>,
    /// Layers of each pipeline stage, such as 16,32 [default: as equal as they can be]
    #[arg(long, value_name = "N,N,…", requires = "layout", value_delimiter = ',')]
    stages: Option<Vec<u64>>,
    /// Pin layouts: a file of lines `op-pattern: layout`, such as `*/attn.o: [{dp}, {}, {tp}]`
    #[arg(long, value_name = "FILE")]
    pin: Option<PathBuf>,
    /// Seed of searches that draw at random; the ones above do not
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Whose kernels are priced: vllm, sglang, trtllm, shardc
    #[arg(long, value_name = "NAME", default_value = "vllm")]
    profile: String,
    /// Write plan.json and the program after each pass into this directory
    #[arg(short = 'o', value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// Errors: input that cannot be read, a request that nothing satisfies, output that cannot be
/// written.
pub fn run(args: &CompileArgs) -> Outcome {
    let files = input::model(&args.model.path)?;
    let pins = args.pin.as_deref().map(input::pins).transpose()?;
    let request = request::build(args, &files, pins.as_ref())?;
    let mut model = facade::read_model(&request.model).in_source(&files.config)?;
    model.notes.extend(check_index(&files, &model)?);
    let plan = choose(args, &request, &model).map_err(|failure| match &pins {
        Some(pins) => failure.within(pins),
        None => failure,
    })?;
    let document = document::Document { plan: &plan, request: &request, args };
    let written = match &args.out {
        Some(out) => directory::write(out, &document.files())?,
        None => Vec::new(),
    };
    output::print(&match args.json {
        true => format!("{:#}\n", document.summary(&written)),
        false => screen::show(&document, &written),
    })
}

/// Compares the index beside the model, if there is one.
fn check_index(files: &ModelFiles, model: &Model) -> Outcome<Vec<Diagnostic>> {
    let Some(source) = &files.index else { return Ok(Vec::new()) };
    Ok(index::check(&model.published, &source.text).in_source(source)?.notes)
}

fn choose(args: &CompileArgs, request: &Request, model: &Model) -> Result<Plan, Failure> {
    let bar = std::io::stderr().is_terminal().then(progress_bar);
    let mut progress = |done: u64, total: u64| {
        if let Some(bar) = &bar {
            bar.set_length(total);
            bar.set_position(done);
        }
    };
    let plan = match args.gpus {
        Some(request::Gpus::Auto) => facade::plan_fewest(request, model, &mut progress),
        _ => facade::plan(request, model, &mut progress),
    };
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    Ok(plan?)
}

fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(1);
    if let Ok(style) = ProgressStyle::with_template("search {bar:40} {pos} of {len} plans") {
        bar.set_style(style);
    }
    bar
}
