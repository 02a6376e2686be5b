//! The plan that is explained: compiled here, or read from the directory of an earlier one.

use super::ExplainArgs;
use crate::args::{self, Overlapping};
use crate::commands::compile;
use crate::commands::plan_file::{self, cluster_of, damaged, verified};
use crate::failure::{InSource, Outcome};
use crate::input;
use serde::Deserialize;
use shardc_cost::machine::Cluster;
use shardc_cost::profile::Profile;
use shardc_cost::serving::Load;
use shardc_ir::graph::{Level, Module};
use shardc_passes::evaluate::Pricing;
use shardc_passes::explain::{Stated, Subject};
use shardc_passes::schedule::tree::Node;
use shardc_passes::schedule::{self, Schedule};
use shardc_passes::search::{Evaluator, step_sizes};
use shardc_passes::strategy::megatron::Phase;
use shardc_passes::strategy::{Degrees, Facts, Groups};
use std::path::Path;

/// A plan that can be explained.
#[derive(Debug)]
pub struct Source {
    /// The model's name.
    pub name: String,
    /// Degrees of the plan; of one by schedule only how stages and replicas are cut.
    pub degrees: Degrees,
    /// Whether layouts are decided operator by operator.
    pub scheduled: bool,
    /// The machine.
    pub cluster: Cluster,
    profile: Profile,
    groups: Groups,
    stage_layers: Vec<u64>,
    phases: Vec<Stated>,
    max_len: u64,
}

/// What is read of a `plan.json`.
#[derive(Deserialize)]
struct PlanFile {
    model: Named,
    plan: Chosen,
    stages: Vec<Stage>,
    files: Vec<String>,
    request: Asked,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Chosen {
    phases: Vec<PhaseFile>,
}

#[derive(Deserialize)]
struct PhaseFile {
    name: String,
    tp: u64,
    pp: u64,
    dp: u64,
    cp: u64,
    ep: u64,
    etp: u64,
    micro_batch_requests: u64,
    micro_batch_tokens: u64,
}

#[derive(Deserialize)]
struct Stage {
    layers: [u64; 2],
}

#[derive(Deserialize)]
struct Asked {
    cluster: String,
    devices: u64,
    isl: u64,
    osl: u64,
    max_len: u64,
    profile: String,
    #[serde(default)]
    overlap: Overlapping,
}

impl Source {
    /// Opens a plan's directory, or compiles a model.
    ///
    /// Errors: files that cannot be read, a request that nothing satisfies.
    pub fn open(args: &ExplainArgs) -> Outcome<Source> {
        let path = &args.request.model.path;
        match path.join("plan.json").is_file() {
            true => read(path, args.request.cluster.as_deref()),
            false => compiled(args),
        }
    }

    /// The plan as passes see it.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            phases: self.phases.clone(),
            groups: self.groups.clone(),
            stage_layers: self.stage_layers.clone(),
            pricing: Pricing { cluster: &self.cluster, profile: &self.profile },
            max_len: self.max_len,
            replicas: self.degrees.dp,
        }
    }
}

/// A phase as it was stated: `isl` and `osl` tokens a request, `requests` in a micro-batch.
fn stated(
    phase: Phase,
    (logical, schedule): (Module, Option<Schedule>),
    degrees: &Degrees,
    requests: u64,
    (isl, context, max_len): (u64, u64, u64),
) -> Stated {
    let (new, context) = match phase {
        Phase::Prefill => (isl, isl),
        Phase::Decode => (1, context),
    };
    Stated {
        phase,
        logical,
        schedule,
        requests: degrees.dp.saturating_mul(requests),
        new,
        context,
        sizes: step_sizes(phase, degrees, isl, max_len),
    }
}

fn compiled(args: &ExplainArgs) -> Outcome<Source> {
    let (request, plan) = compile::compiled(&args.request)?;
    let layouts = plan.best.layouts.as_deref();
    let degrees = plan.best.degrees;
    let sizes = (plan.load.isl, plan.load.mean_context(), request.context());
    let phases = plan.phases.iter().filter_map(|phase| {
        let (_, logical) = phase.dumps.first()?;
        let decided = (logical.clone(), layouts.map(|l| l.of(phase.phase).clone()));
        Some(stated(phase.phase, decided, &degrees, phase.requests, sizes))
    });
    Ok(Source {
        phases: phases.collect(),
        scheduled: layouts.is_some(),
        name: plan.model.spec.name.clone(),
        degrees,
        cluster: plan.cluster,
        profile: request.profile.clone(),
        groups: plan.best.groups,
        stage_layers: plan.stage_layers,
        max_len: request.context(),
    })
}

fn read(directory: &Path, cluster: Option<&str>) -> Outcome<Source> {
    let file: PlanFile = plan_file::read(directory, "plan.json")?;
    let asked = &file.request;
    let cluster = cluster_of(cluster, &asked.cluster)?.take(asked.devices)?;
    let profile = args::profile(&asked.profile, asked.overlap)?;
    let program = |phase: &str| logical(directory, &file.files, phase);
    let programs = [program("prefill")?, program("decode")?];
    let layers = |stage: &Stage| stage.layers[1].saturating_sub(stage.layers[0]);
    let mut decided = match file.files.iter().any(|name| name.ends_with("-apply-schedule.sir")) {
        true => by_schedule(directory, &file, &programs, &cluster, &profile)?,
        false => by_degrees(&file, &programs, &cluster)?,
    };
    let context = asked.isl.saturating_add(asked.osl.div_ceil(2));
    let mut phases = Vec::new();
    for phase in &file.plan.phases {
        let kind = if phase.name == "prefill" { Phase::Prefill } else { Phase::Decode };
        let program = (programs[kind as usize].clone(), decided.schedules[kind as usize].take());
        let isl = if kind == Phase::Prefill { phase.micro_batch_tokens } else { asked.isl };
        let sizes = (isl, context, asked.max_len);
        phases.push(stated(kind, program, &decided.degrees, phase.micro_batch_requests, sizes));
    }
    Ok(Source {
        name: file.model.name,
        degrees: decided.degrees,
        scheduled: decided.scheduled,
        profile,
        cluster,
        groups: decided.groups,
        stage_layers: file.stages.iter().map(layers).collect(),
        phases,
        max_len: asked.max_len,
    })
}

/// What a directory says of layouts.
struct Decided {
    degrees: Degrees,
    groups: Groups,
    scheduled: bool,
    schedules: [Option<Schedule>; 2],
}

/// Layouts by degrees, which the programs' pins say.
fn by_degrees(file: &PlanFile, programs: &[Module; 2], cluster: &Cluster) -> Outcome<Decided> {
    let first = file.plan.phases.first().ok_or_else(|| damaged("the plan has no phase"))?;
    let PhaseFile { tp, pp, dp, cp, ep, etp, .. } = *first;
    let degrees = Degrees { tp, pp, dp, cp, ep, etp };
    let groups = Groups::new(&degrees, &Facts::of(&programs[0]), cluster.node.devices);
    if programs.iter().any(|program| program.mesh.as_ref() != Some(&groups.mesh)) {
        return Err(damaged("the plan's programs are for another mesh than its degrees").into());
    }
    Ok(Decided { degrees, groups, scheduled: false, schedules: [None, None] })
}

/// Layouts operator by operator, which the plan's schedule says.
fn by_schedule(
    directory: &Path,
    file: &PlanFile,
    [prefill, decode]: &[Module; 2],
    cluster: &Cluster,
    profile: &Profile,
) -> Outcome<Decided> {
    let source = input::schedule(directory)?;
    let node = Node::parse(&source.text).in_source(&source)?;
    let asked = &file.request;
    let load = Load::new(asked.isl, asked.osl);
    let evaluator =
        Evaluator::new(prefill, decode, cluster, profile, load, asked.max_len, 1.0, None);
    let read = schedule::read(&evaluator.site(), &node).map_err(|fault| fault.diagnostic);
    let decisions = read.in_source(&source)?;
    let layouts = evaluator.resolve(&decisions)?;
    Ok(Decided {
        degrees: decisions.degrees(),
        groups: layouts.groups,
        scheduled: true,
        schedules: [Some(layouts.prefill), Some(layouts.decode)],
    })
}

/// The logical program of a phase, with its pins.
fn logical(directory: &Path, files: &[String], phase: &str) -> Outcome<Module> {
    let prefix = format!("ir/{phase}/01-");
    let name = files.iter().find(|name| name.starts_with(&prefix) && !name.contains(".."));
    let name = name.ok_or_else(|| damaged(format!("the plan lists no program of {phase}")))?;
    let source = input::program(&directory.join(name))?;
    let module = verified(&source)?;
    match module.level {
        Level::Logical => Ok(module),
        _ => Err(damaged(format!("{} is not a logical program", source.name)).into()),
    }
}
