//! From local programs to launch plans: steps, streams, events, rank groups and addresses.
//!
//! Both phases are lowered together, since they share weights and caches. Buffers are placed by the
//! spans in which they live, at the largest extents of a step; what may lie in the bytes of another
//! value does ([`homes`]). `docs/plan.md` says what the parts of a plan mean.

pub mod allocate;
mod events;
pub mod homes;
pub mod outline;
mod routine;
mod steps;

use crate::codes;
use crate::evaluate::MemoryModel;
use crate::precondition;
use routine::{Built, Stored, build};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dim::Bindings;
use shardc_ir::graph::{Func, FuncKind, Level, Module, Value};
use shardc_ir::launch::storage;
use shardc_ir::launch::{
    Arenas, Bound, GroupSet, LaunchPlan, Program, Promised, Source, VERSION, fingerprint,
};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::text::print;
use shardc_ir::types::Kind;
use std::collections::BTreeMap;

/// Names of the streams, in the order of their numbers.
pub const STREAMS: [&str; 2] = ["compute", "communication"];

/// Bytes for gaps and alignment, and for scratch space of kernels, that a promise has beside
/// activations.
pub use crate::search::WORKSPACE_BYTES;

/// A phase to lower.
#[derive(Clone, Debug)]
pub struct PhaseProgram<'a> {
    /// `prefill` or `decode`.
    pub name: &'a str,
    /// Its local program.
    pub module: &'a Module,
    /// The file of the program in the plan's directory.
    pub file: &'a str,
    /// Largest extents of a step.
    pub max: Bindings,
    /// Extents at which caches are laid out.
    pub held: Bindings,
}

/// Lowers the phases of a plan, which share weights and caches.
///
/// # Errors
/// `S101` where a program is not local, `S110` where the phases do not store the same, or a program
/// does what no launch plan can say.
pub fn lower(phases: &[PhaseProgram<'_>]) -> Result<Vec<LaunchPlan>> {
    for phase in phases {
        precondition::level(phase.module, "launch", Level::Local)?;
    }
    let phases: Vec<PhaseProgram<'_>> = phases.iter().cloned().map(with_room).collect();
    let phases = &phases[..];
    let stages = phases.iter().map(|p| programs(p.module).len()).max().unwrap_or(0);
    let stored: Vec<Kept> = (0..stages).map(|s| kept(phases, s)).collect::<Result<_>>()?;
    let promised: Vec<Promised> = (0..stages).map(|s| promised(phases, s)).collect();
    phases.iter().map(|phase| phase_plan(phase, &stored, &promised)).collect()
}

/// The phase with caches that are as large as its steps at least.
fn with_room(mut phase: PhaseProgram<'_>) -> PhaseProgram<'_> {
    for sym in phase.module.syms.keys() {
        phase.held.set(sym, phase.held.get(sym).max(phase.max.get(sym)));
    }
    phase
}

/// The programs of a module, in the order of their stages.
fn programs(module: &Module) -> Vec<&Func> {
    (0..).map_while(|i| module.func(&format!("stage_{i}"))).map(|id| &module.funcs[id]).collect()
}

/// Weights and caches of one stage.
struct Kept {
    offsets: Stored,
    weights: u64,
    caches: u64,
}

/// Where weights and caches of a stage lie: in the order of the parameters of all phases.
fn kept(phases: &[PhaseProgram<'_>], stage: usize) -> Result<Kept> {
    let mut found: Vec<(String, Kind, u64)> = Vec::new();
    for phase in phases {
        let Some(func) = programs(phase.module).get(stage).copied() else { continue };
        for &param in &func.params {
            let (name, ty) = (&func.values[param].name, func.ty(param));
            if !ty.kind.is_stored() {
                continue;
            }
            let bytes = storage::bytes(ty, func.layout(param), &phase.held);
            match found.iter().find(|(n, ..)| n == name) {
                None => found.push((name.clone(), ty.kind, bytes)),
                Some((_, kind, known)) if (*kind, *known) == (ty.kind, bytes) => {}
                Some((_, _, known)) => {
                    let cause = format!(
                        "%{name} takes {bytes} bytes in {} and {known} in another phase",
                        phase.name
                    );
                    return Err(refuse(cause, "give weights and caches one layout in all phases"));
                }
            }
        }
    }
    let mut out = Kept { offsets: Stored::new(), weights: 0, caches: 0 };
    for kind in [Kind::Weight, Kind::Cache] {
        let of_kind: Vec<_> = found.iter().filter(|(_, k, _)| *k == kind).collect();
        let bytes: Vec<u64> = of_kind.iter().map(|(.., bytes)| *bytes).collect();
        let placed = allocate::stack(&bytes);
        let names = of_kind.iter().map(|(name, ..)| name.clone());
        out.offsets.extend(names.zip(placed.offsets));
        let arena = if kind == Kind::Weight { &mut out.weights } else { &mut out.caches };
        *arena = placed.bytes;
    }
    Ok(out)
}

/// What the memory figures say of one stage.
fn promised(phases: &[PhaseProgram<'_>], stage: usize) -> Promised {
    let mut out = Promised { workspace: WORKSPACE_BYTES, ..Promised::default() };
    for phase in phases {
        let model = MemoryModel::of(phase.module);
        if stage < model.stages.len() {
            out.weights = out.weights.max(model.weights(stage, &phase.held));
            out.caches = out.caches.max(model.caches(stage, &phase.held));
            out.activations = out.activations.max(model.activations(stage, &phase.max));
        }
    }
    out
}

fn phase_plan(
    phase: &PhaseProgram<'_>,
    stored: &[Kept],
    promised: &[Promised],
) -> Result<LaunchPlan> {
    let mesh = precondition::mesh(phase.module, "launch")?;
    let programs = programs(phase.module);
    let mut lowering = Lowering {
        module: phase.module,
        mesh: &mesh,
        stages: programs.len() as u64,
        max: &phase.max,
        held: &phase.held,
        groups: Vec::new(),
    };
    let mut built: BTreeMap<String, Built> = BTreeMap::new();
    let mut plan = LaunchPlan {
        version: VERSION,
        phase: phase.name.to_string(),
        source: Source { file: phase.file.to_string(), sha256: fingerprint(&print(phase.module)) },
        dims: bounds(phase),
        streams: STREAMS.map(String::from).to_vec(),
        groups: Vec::new(),
        programs: Vec::new(),
        routines: Vec::new(),
    };
    for func in phase.module.funcs.values().filter(|f| f.kind == FuncKind::Func) {
        let layer = build(&mut lowering, func, &built, &Stored::new())?;
        plan.routines.push(layer.routine.clone());
        built.insert(func.name.clone(), layer);
    }
    for (stage, func) in programs.iter().enumerate() {
        let kept = &stored[stage];
        let program = build(&mut lowering, func, &built, &kept.offsets)?;
        let arenas =
            Arenas { weights: kept.weights, caches: kept.caches, scratch: program.scratch };
        plan.programs.push(Program {
            stage: stage as u64,
            ranks: [stage as u64 * mesh.devices(), mesh.devices()],
            routine: func.name.clone(),
            arenas,
            promised: promised[stage],
        });
        plan.routines.push(program.routine);
    }
    plan.groups = lowering.groups.into_iter().map(|(_, set)| set).collect();
    Ok(plan)
}

fn bounds(phase: &PhaseProgram<'_>) -> Vec<Bound> {
    let bound = |(sym, data): (_, &shardc_ir::dim::SymDim)| Bound {
        name: data.name.clone(),
        max: phase.max.get(sym),
        held: phase.held.get(sym),
    };
    phase.module.syms.iter().map(bound).collect()
}

/// What the functions of a phase are lowered with.
struct Lowering<'a> {
    module: &'a Module,
    mesh: &'a Mesh,
    stages: u64,
    max: &'a Bindings,
    held: &'a Bindings,
    groups: Vec<(Vec<AxisRef>, GroupSet)>,
}

impl Lowering<'_> {
    fn bind(&self, func: &Func, value: Value) -> &Bindings {
        if func.ty(value).kind == Kind::Cache { self.held } else { self.max }
    }

    /// Bytes of a value's buffer.
    fn bytes(&self, func: &Func, value: Value) -> u64 {
        storage::bytes(func.ty(value), func.layout(value), self.bind(func, value))
    }

    /// Elements of a value on one device.
    fn elements(&self, func: &Func, value: Value) -> u64 {
        func.ty(value).elements(self.bind(func, value))
    }

    /// The stage of a program; 0 for layers, which neither send nor receive.
    fn stage_of(&self, func: &Func) -> u64 {
        func.name.strip_prefix("stage_").and_then(|n| n.parse().ok()).unwrap_or(0)
    }

    /// Number of the set of groups over `axes`.
    fn groups_over(&mut self, axes: Vec<AxisRef>) -> usize {
        if let Some(at) = self.groups.iter().position(|(known, _)| *known == axes) {
            return at;
        }
        let set = GroupSet::over(self.mesh, &axes, self.stages);
        self.groups.push((axes, set));
        self.groups.len() - 1
    }
}

/// `S110` with a cause and a way out.
fn refuse(cause: String, help: &str) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(codes::NOT_LAUNCHABLE, cause).help(help))
}
