//! The command line as types. Each command's own flags stand with the command.

use crate::commands::{
    bench, check, clusters, compile, completions, cost, degrees, diff, evaluate, explain, families,
    ops, opt, passes, reshard, run, simulate, verify,
};
use crate::failure::{InSource, Outcome};
use crate::input::{ModelFiles, Source};
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Deserialize;
use shardc::codes;
use shardc::facade::ModelRequest;
use shardc_cost::profile::{Overlap, Profile};
use shardc_frontend::config::read_quantisation;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dtype::DType;
use std::path::PathBuf;

const AFTER: &str = "\
Exit codes: 0 done; 1 the input or the command line is wrong; 2 nothing satisfies the request;
3 a bug in the compiler; 4 a device or tool is missing.

With --json, a failure prints {\"error\": {\"code\", \"message\", \"place\", \"notes\", \"help\"}} on
standard output, and its text on standard error.";

/// A sharding compiler for LLM inference.
#[derive(Debug, Parser)]
#[command(name = "shardc", version, after_help = AFTER, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compile a model for a cluster: choose a plan, lower it, say what it costs
    Compile(Box<compile::CompileArgs>),
    /// List every parallel degree of a model, legal or not, and why
    Degrees(degrees::DegreesArgs),
    /// Plan a change of layout as a sequence of collectives
    Reshard(reshard::ReshardArgs),
    /// List the model families that are read
    Families(families::FamiliesArgs),
    /// List the cluster presets
    Clusters(clusters::ClustersArgs),
    /// Predict the latency of every row of a table of measured kernels or collectives
    Cost(cost::CostArgs),
    /// Answer questions about layouts, one JSON object a line: memory, TTFT, TPOT, throughput
    Evaluate(evaluate::EvaluateArgs),
    /// Compare two plans: what differs, and by how much
    Diff(diff::DiffArgs),
    /// Explain a plan: what every operator and reshard costs, why layouts are what they are, and
    /// what others would cost
    Explain(Box<explain::ExplainArgs>),
    /// List the operators of the IR, or describe one with an example and its sharding rule
    Ops(ops::OpsArgs),
    /// Simulate a plan that serves a trace or random arrivals
    Simulate(Box<simulate::SimulateArgs>),
    /// Hold the programs of a plan against its model, run at reduced sizes
    Verify(verify::VerifyArgs),
    /// Check a plan: its certificate, and its launch plans: memory, events, order of collectives
    Check(check::CheckArgs),
    /// Run a plan's programs with the weights of a checkpoint, on simulated devices
    Run(run::RunArgs),
    /// Run passes on a program of the IR and print what they leave: the pass workbench
    Opt(opt::OptArgs),
    /// List the passes and pipelines, or describe one
    Passes(passes::PassesArgs),
    /// Time compiling, and show the memory it needs
    Bench(Box<bench::BenchArgs>),
    /// Print a shell's completion script
    Completions(completions::CompletionsArgs),
}

impl Command {
    /// Whether the answer is to be JSON.
    pub fn json(&self) -> bool {
        match self {
            Command::Compile(args) => args.json,
            Command::Degrees(args) => args.json,
            Command::Reshard(args) => args.json,
            Command::Families(args) => args.json,
            Command::Clusters(args) => args.json,
            Command::Cost(args) => args.json,
            Command::Diff(args) => args.json,
            Command::Explain(args) => args.json,
            Command::Ops(args) => args.json,
            Command::Simulate(args) => args.json,
            Command::Passes(args) => args.json,
            Command::Verify(args) => args.json,
            Command::Check(args) => args.json,
            Command::Run(args) => args.json,
            Command::Evaluate(_)
            | Command::Opt(_)
            | Command::Bench(_)
            | Command::Completions(_) => false,
        }
    }
}

/// Which model, and how to read it.
#[derive(Clone, Debug, Args)]
pub struct ModelArgs {
    /// A config.json, or a directory that holds one; a model.safetensors.index.json beside it is
    /// checked against the model, a hf_quant_config.json says how its weights are stored
    #[arg(value_name = "MODEL")]
    pub path: PathBuf,
    /// Read the file as this family, whatever it says (`shardc families` lists them)
    #[arg(long, value_name = "FAMILY")]
    pub assume: Option<String>,
    /// Format of weights and activations instead of the model's own: bf16, f16, f32; or f8e4m3,
    /// f8e5m2 for weights alone
    #[arg(long, value_name = "D")]
    pub dtype: Option<String>,
}

impl ModelArgs {
    /// The model of these flags, from its files.
    ///
    /// Errors: `U008`, or what is wrong with the quantisation beside the configuration.
    pub fn request(&self, files: &ModelFiles) -> Outcome<ModelRequest> {
        let stored = |source: &Source| read_quantisation(&source.text).in_source(source);
        Ok(ModelRequest {
            quantisation: files.quantisation.as_ref().map(stored).transpose()?,
            config: files.config.text.clone(),
            name: files.name.clone(),
            assume: self.assume.clone(),
            dtype: self.dtype.as_deref().map(dtype).transpose()?,
            kv_dtype: None,
        })
    }
}

/// Whether collectives run beside kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Overlapping {
    /// They take turns
    #[default]
    None,
    /// A collective runs beside the kernels that do not wait for it, on a stream of its own as in
    /// launch plans (docs/cost.md)
    Modelled,
}

/// The profile of a name, with collectives beside its kernels or not.
///
/// Errors: `U009`.
pub fn profile(name: &str, overlap: Overlapping) -> Result<Profile> {
    let profile = Profile::named(name).ok_or_else(|| {
        let message = format!("there is no profile `{name}`");
        let help = format!("choose one of {}", Profile::NAMES.join(", "));
        Box::new(Diagnostic::error(codes::UNKNOWN_PROFILE, message).help(help))
    })?;
    let overlap = match overlap {
        Overlapping::None => Overlap::None,
        Overlapping::Modelled => Overlap::STREAMS,
    };
    Ok(Profile { overlap, ..profile })
}

/// The number format of a name, as the text of the IR or the field writes it.
///
/// Errors: `U008`.
pub fn dtype(name: &str) -> Result<DType> {
    const ALIASES: [(&str, DType); 9] = [
        ("bfloat16", DType::Bf16),
        ("fp16", DType::F16),
        ("float16", DType::F16),
        ("half", DType::F16),
        ("fp32", DType::F32),
        ("float32", DType::F32),
        ("fp8", DType::F8E4M3),
        ("fp8_e4m3", DType::F8E4M3),
        ("fp8_e5m2", DType::F8E5M2),
    ];
    let lower = name.trim().to_ascii_lowercase();
    let alias = ALIASES.iter().find(|(alias, _)| *alias == lower).map(|(_, d)| *d);
    alias.or_else(|| DType::from_name(&lower)).ok_or_else(|| {
        let message = format!("there is no number format `{name}`");
        let help = "choose bf16, f16, f32, f8e4m3 or f8e5m2";
        Box::new(Diagnostic::error(codes::UNKNOWN_DTYPE, message).help(help))
    })
}
