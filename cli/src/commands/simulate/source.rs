//! The plan that is simulated: a directory that `shardc compile -o` wrote, or a model compiled
//! here.

use super::SimulateArgs;
use super::load::TOKENS;
use crate::args::{self, ModelArgs, Overlapping};
use crate::commands::plan_file::{self, cluster_of, damaged, verified};
use crate::failure::{InSource, Outcome};
use crate::input;
use serde::Deserialize;
use shardc::codes;
use shardc::facade::service::Service;
use shardc::facade::{self, ModelRequest, Request};
use shardc_cost::memory::Memory;
use shardc_ir::diag::Diagnostic;
use shardc_ir::graph::{FuncKind, Level, Module};
use shardc_passes::search::Method;
use shardc_passes::strategy::Degrees;
use std::path::Path;

/// A plan that can be simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The model's name.
    pub name: String,
    /// Its programs and their machine.
    pub service: Service,
    /// Tokens of a prompt and of an answer that it was made for.
    pub isl: u64,
    /// Tokens of an answer.
    pub osl: u64,
    /// Requests that a replica may run to keep the limits it was made for, if it was.
    pub batch: Option<u64>,
    /// Tokens of a prefill step that it was made for, if it says so.
    pub chunk: Option<u64>,
    /// Longest context of the model.
    pub positions: Option<u64>,
    /// Warnings of the model's reader.
    pub notes: Vec<Diagnostic>,
}

/// Opens a plan's directory, or compiles a model for requests of the mean lengths.
///
/// Errors: files that cannot be read, a cluster that is missing, a model that does not fit.
pub fn open(args: &SimulateArgs, path: &Path, mean: Option<(u64, u64)>) -> Outcome<Plan> {
    match path.join("plan.json").is_file() {
        true => read(args, path),
        false => compile(args, path, mean),
    }
}

/// What is read of a `plan.json`.
#[derive(Deserialize)]
struct PlanFile {
    model: Named,
    plan: Chosen,
    files: Vec<String>,
    request: Asked,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    max_positions: Option<u64>,
}

#[derive(Deserialize)]
struct Chosen {
    phases: Vec<Split>,
    memory: Bytes,
    batch: u64,
    chunk_tokens: Option<u64>,
}

/// Degrees of a phase.
#[derive(Deserialize)]
struct Split {
    tp: u64,
    pp: u64,
    dp: u64,
    cp: u64,
    ep: u64,
    etp: u64,
    kvp: u64,
    rep: u64,
}

/// Memory of the fullest device; `reserve` includes communication.
#[derive(Deserialize)]
struct Bytes {
    weights: u64,
    kv_cache: u64,
    activations: u64,
    workspace: u64,
    reserve: u64,
    capacity: u64,
    usable: u64,
}

#[derive(Deserialize)]
struct Asked {
    cluster: String,
    devices: u64,
    isl: u64,
    osl: u64,
    ttft_ms: Option<f64>,
    tpot_ms: Option<f64>,
    profile: String,
    #[serde(default)]
    overlap: Overlapping,
}

fn read(args: &SimulateArgs, directory: &Path) -> Outcome<Plan> {
    let file: PlanFile = plan_file::read(directory, "plan.json")?;
    let first = file.plan.phases.first().ok_or_else(|| damaged("the plan has no phase"))?;
    let degrees = first.degrees();
    let asked = &file.request;
    if degrees.devices() != asked.devices || degrees.devices() == 0 {
        return Err(damaged("the plan's degrees do not make its devices").into());
    }
    let cluster = cluster_of(args.cluster.as_deref(), &asked.cluster)?.take(asked.devices)?;
    let bytes = &file.plan.memory;
    if cluster.device.memory.capacity_bytes != bytes.capacity {
        let message = format!("the plan was made for another device than that of {}", cluster.name);
        let help = "name the cluster file of the plan with --cluster";
        return Err(Box::new(Diagnostic::error(codes::PLAN, message).help(help)).into());
    }
    let module = |phase: &str| local(directory, &file.files, phase, degrees.pp);
    let programs = (module("prefill")?, module("decode")?);
    let name = args.profile.as_deref().unwrap_or(&asked.profile);
    let profile = args::profile(name, args.overlap.unwrap_or(asked.overlap))?;
    let limited = asked.ttft_ms.is_some() || asked.tpot_ms.is_some();
    Ok(Plan {
        name: file.model.name,
        positions: file.model.max_positions,
        service: Service::new(programs, degrees, cluster, profile, bytes.memory()),
        isl: asked.isl,
        osl: asked.osl,
        batch: limited.then(|| file.plan.batch.div_ceil(degrees.dp.max(1)).max(1)),
        chunk: file.plan.chunk_tokens.map(|tokens| tokens.max(1)),
        notes: Vec::new(),
    })
}

impl Split {
    fn degrees(&self) -> Degrees {
        let Split { tp, pp, dp, cp, ep, etp, kvp, rep } = *self;
        // Cached tokens split, and copies of attention, make up a stage as tensor parallelism does.
        let tp = tp.saturating_mul(kvp).saturating_mul(rep);
        Degrees { tp, pp, dp, cp, ep, etp }
    }
}

impl Bytes {
    fn memory(&self) -> Memory {
        Memory {
            weights: self.weights,
            kv_cache: self.kv_cache,
            activations: self.activations,
            workspace: self.workspace,
            communication: 0,
            reserve: self.reserve,
            capacity: self.capacity,
            usable: self.usable,
        }
    }
}

/// The local program of a phase: the last of its files, one `program` a stage.
fn local(directory: &Path, files: &[String], phase: &str, stages: u64) -> Outcome<Module> {
    let prefix = format!("ir/{phase}/");
    let name = files.iter().rfind(|name| name.starts_with(&prefix) && !name.contains(".."));
    let name = name.ok_or_else(|| damaged(format!("the plan lists no program of {phase}")))?;
    let source = input::program(&directory.join(name))?;
    let module = verified(&source)?;
    let programs = module.funcs.values().filter(|f| f.kind == FuncKind::Program).count() as u64;
    if module.level != Level::Local || programs != stages {
        let message = format!("{} does not hold one local program a stage", source.name);
        return Err(damaged(message).into());
    }
    Ok(module)
}

fn compile(args: &SimulateArgs, path: &Path, mean: Option<(u64, u64)>) -> Outcome<Plan> {
    let Some(cluster) = &args.cluster else {
        let message =
            format!("{} is not a plan's directory, and no cluster is named", path.display());
        let help = "name a directory that `shardc compile -o` wrote, or add --cluster";
        return Err(Box::new(Diagnostic::error(codes::USAGE, message).help(help)).into());
    };
    let cluster = input::cluster(cluster)?;
    let cluster = args.gpus.map_or(Ok(cluster.clone()), |n| cluster.take(n))?;
    let files = input::model(path)?;
    let (isl, osl) = mean.unwrap_or((args.isl.unwrap_or(TOKENS), args.osl.unwrap_or(TOKENS)));
    let name = args.profile.as_deref().unwrap_or("vllm");
    let profile = args::profile(name, args.overlap.unwrap_or_default())?;
    let model = ModelArgs {
        path: path.to_path_buf(),
        assume: args.assume.clone(),
        dtype: args.dtype.clone(),
    };
    let request = Request {
        model: ModelRequest {
            kv_dtype: args.kv_dtype.as_deref().map(args::dtype).transpose()?,
            ..model.request(&files)?
        },
        load: profile.load_of(isl, osl).choosing_prefill_steps(),
        profile,
        mem_fraction: args.mem_fraction.unwrap_or(1.0),
        method: Method::parse(&args.search)?,
        layout: args.layout.as_deref().map(Degrees::parse).transpose()?,
        ..Request::new("", cluster)
    };
    let model = facade::read_model(&request.model).in_source(&files.config)?;
    let plan = facade::plan(&request, &model, &mut |_| {})?;
    let service = Service::of(&plan, &request).ok_or_else(|| damaged("the plan has no program"))?;
    let (positions, notes) = (model.spec.max_positions, model.notes);
    let chunk = Some(plan.best.chunk);
    Ok(Plan { name: files.name, service, isl, osl, batch: None, chunk, positions, notes })
}
