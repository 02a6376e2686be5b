//! The programs of a plan, phase by phase and pass by pass.

use crate::{Verified, codes, is_global};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::{FuncKind, Level, Module};
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::text::print;
use shardc_passes::registry::{Options, Pass};
use std::collections::BTreeMap;

/// Which programs: those of prompts or those of decode steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Prompts.
    Prefill,
    /// One new token a request.
    Decode,
}

impl Phase {
    /// Both, in order.
    pub const ALL: [Phase; 2] = [Phase::Prefill, Phase::Decode];

    /// Name in reports and files.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Prefill => "prefill",
            Phase::Decode => "decode",
        }
    }
}

/// A program after a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The pass, or `logical` for the model itself.
    pub pass: String,
    /// The program.
    pub module: Module,
}

impl Program {
    /// The row of this program in a report.
    pub(crate) fn verified(&self, phase: Phase) -> Verified {
        let instructions = self.module.funcs.values().map(|f| f.body.len()).sum();
        Verified { phase: phase.name(), pass: self.pass.clone(), instructions }
    }
}

/// The programs of both phases in the order of the passes; the first of each is the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// Programs of prompts.
    pub prefill: Vec<Program>,
    /// Programs of decode steps.
    pub decode: Vec<Program>,
}

impl Programs {
    /// The programs of a phase.
    pub fn of(&self, phase: Phase) -> &[Program] {
        match phase {
            Phase::Prefill => &self.prefill,
            Phase::Decode => &self.decode,
        }
    }

    /// Every program above local level, the model of prompts first.
    pub(crate) fn global(&self) -> Vec<(Phase, &Program)> {
        let of = |phase| self.of(phase).iter().map(move |p| (phase, p));
        let all = Phase::ALL.into_iter().flat_map(of);
        all.filter(|(_, p)| is_global(&p.module)).collect()
    }

    /// The local program of a phase.
    pub(crate) fn local(&self, phase: Phase) -> Option<&Program> {
        self.of(phase).iter().find(|p| p.module.level == Level::Local)
    }

    /// The mesh of a stage.
    ///
    /// # Errors
    /// `C001`: the programs do not start with the model, or have different meshes.
    pub(crate) fn mesh(&self) -> Result<Mesh> {
        for phase in Phase::ALL {
            let first = self.of(phase).first().map(|p| p.module.level);
            if first != Some(Level::Logical) {
                let name = phase.name();
                return Err(codes::unrelated(format!("{name} has no logical program")));
            }
        }
        let mut meshes = self.global().into_iter().map(|(_, p)| &p.module.mesh);
        let mesh = meshes.next().cloned().flatten();
        let mesh = mesh.ok_or_else(|| codes::unrelated("the programs have no mesh"))?;
        match meshes.all(|m| m.as_ref() == Some(&mesh)) {
            true => Ok(mesh),
            false => Err(codes::unrelated("the programs have different meshes")),
        }
    }

    /// Layers of each pipeline stage, of the local programs; one stage without any.
    ///
    /// # Errors
    /// `C001`: the phases have different stages.
    pub(crate) fn stages(&self) -> Result<Vec<u64>> {
        let locals: Vec<&Program> = Phase::ALL.iter().filter_map(|&p| self.local(p)).collect();
        let stages: Vec<Vec<u64>> = locals.iter().map(|p| stage_layers(&p.module)).collect();
        match &stages[..] {
            [] => Ok(vec![0]),
            [first, rest @ ..] if rest.iter().all(|s| s == first) => Ok(first.clone()),
            _ => Err(codes::unrelated("prefill and decode have different pipeline stages")),
        }
    }

    /// Checks that every program above local level takes what the model takes: sizes are reduced by
    /// name, and would hide other extents.
    ///
    /// # Errors
    /// `C001` with the first parameter that differs.
    pub(crate) fn check_params(&self) -> Result<()> {
        for phase in Phase::ALL {
            let Some(model) = self.of(phase).first() else { continue };
            let wanted = extents(&model.module);
            for program in self.of(phase).iter().filter(|p| is_global(&p.module)) {
                let own = extents(&program.module);
                let names = wanted.keys().chain(own.keys());
                let Some(name) = names.into_iter().find(|n| wanted.get(*n) != own.get(*n)) else {
                    continue;
                };
                let show = |dims: Option<&Vec<Option<u64>>>| match dims {
                    None => "not at all".to_string(),
                    Some(dims) => {
                        let dim = |d: &Option<u64>| d.map_or("?".to_string(), |n| n.to_string());
                        format!("as [{}]", dims.iter().map(dim).collect::<Vec<_>>().join(", "))
                    }
                };
                let (own, wanted) = (show(own.get(name)), show(wanted.get(name)));
                let place = format!("{} after {}", phase.name(), program.pass);
                let message = format!("{place} takes %{name} {own}, and the model {wanted}");
                return Err(codes::unrelated(message));
            }
        }
        Ok(())
    }

    /// Checks that the local programs are what the programs before them lower to.
    ///
    /// # Errors
    /// `C004` with the first line that differs.
    pub(crate) fn check_local(&self, stages: &[u64]) -> Result<()> {
        for phase in Phase::ALL {
            let Some(local) = self.local(phase) else { continue };
            let before = self.of(phase).iter().rfind(|p| p.module.level == Level::Collective);
            let Some(before) = before else {
                let message = format!("{} has no program at collective level", phase.name());
                return Err(codes::unrelated(message));
            };
            let mut made = before.module.clone();
            let options = Options { stage_layers: stages.to_vec(), ..Options::default() };
            Pass::find("localize")?.apply(&mut made, &options)?;
            if let Some(problem) = differing_line(phase, &print(&made), &print(&local.module)) {
                return Err(problem);
            }
        }
        Ok(())
    }
}

/// The fixed extents of what a program takes, by name; none for those that depend on a symbol.
fn extents(module: &Module) -> BTreeMap<&str, Vec<Option<u64>>> {
    let main = module.func("main").map(|id| &module.funcs[id]);
    let params = main.into_iter().flat_map(|f| f.params.iter().map(move |&p| &f.values[p]));
    let dims = |p: &shardc_ir::graph::ValueData| p.ty.dims.iter().map(|d| d.as_fixed()).collect();
    params.map(|p| (p.name.as_str(), dims(p))).collect()
}

/// Layers that each program runs.
fn stage_layers(module: &Module) -> Vec<u64> {
    let programs = module.funcs.values().filter(|f| f.kind == FuncKind::Program);
    let layers = |f: &shardc_ir::graph::Func| {
        let repeats = f.insts.values().filter_map(|inst| match &inst.op {
            Op::Repeat(repeat) => Some(repeat.count()),
            _ => None,
        });
        repeats.sum()
    };
    programs.map(layers).collect()
}

fn differing_line(phase: Phase, made: &str, given: &str) -> Option<Box<Diagnostic>> {
    if made == given {
        return None;
    }
    let mut lines = made.lines().zip(given.lines()).enumerate();
    let at = lines.position(|(_, (a, b))| a != b);
    let line = at.unwrap_or_else(|| made.lines().count().min(given.lines().count()));
    let show = |text: &str| text.lines().nth(line).unwrap_or("the end").trim().to_string();
    let message = format!("the local program of {} differs in line {}", phase.name(), line + 1);
    Some(Box::new(
        Diagnostic::error(codes::STALE, message)
            .note(format!("it says {}", show(given)))
            .note(format!("where the program before it lowers to {}", show(made)))
            .help("change the program before it too, or compile again"),
    ))
}
