//! What a run needs of a plan's directory.

use crate::codes;
use crate::exec::table::{Extents, global_dims};
use crate::weights::Source;
use shardc_check::launch::{agree, check};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dim::Bindings;
use shardc_ir::graph::Module;
use shardc_ir::launch::{LaunchPlan, fingerprint};
use shardc_ir::text::parse;
use shardc_ir::types::Kind;
use shardc_ir::weights;
use std::fs;
use std::path::{Component, Path};

/// One phase: what is launched, and the program behind it.
#[derive(Clone, Debug)]
pub struct Phase {
    /// The launch plan.
    pub launch: LaunchPlan,
    /// Its local program.
    pub module: Module,
}

/// A plan that can run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Prompts.
    pub prefill: Phase,
    /// Decode steps.
    pub decode: Phase,
    /// Where the weights come from.
    pub sources: Vec<Source>,
}

fn damaged(message: impl Into<String>) -> Box<Diagnostic> {
    let help = "compile the model again with `shardc compile MODEL -o DIR`";
    Box::new(Diagnostic::error(codes::PLAN, message.into()).help(help))
}

/// The first thing that the checker found, with how much more there is.
fn first(found: Vec<Diagnostic>) -> Box<Diagnostic> {
    let more = found.len().saturating_sub(1);
    let Some(first) = found.into_iter().next() else { return damaged("a check found nothing") };
    match more {
        0 => Box::new(first),
        _ => Box::new(first.note(format!("{more} more: see `shardc check`"))),
    }
}

fn text(directory: &Path, name: &str) -> Result<String> {
    let path = directory.join(name);
    fs::read_to_string(&path)
        .map_err(|error| damaged(format!("{} cannot be read: {error}", path.display())))
}

impl Plan {
    /// Reads a plan's directory, and checks that its launch plans may be run: that no rank would wait
    /// for ever, and every step finds what it reads.
    ///
    /// # Errors
    /// `W110` where files are missing or damaged, `K001` to `K004` where a launch plan is none or not
    /// of its program, or the maps of weights were edited; `K1xx` for what the checker refuses.
    pub fn read(directory: &Path) -> Result<Self> {
        let plan = Plan {
            prefill: Phase::read(directory, "prefill")?,
            decode: Phase::read(directory, "decode")?,
            sources: weights::read(&text(directory, weights::FILE)?)?,
        };
        if plan.prefill.launch.ranks() != plan.decode.launch.ranks() || plan.ranks() == 0 {
            return Err(damaged("the phases of the plan have different ranks"));
        }
        agree(&[&plan.prefill.launch, &plan.decode.launch]).map_err(first)?;
        Ok(plan)
    }

    /// SHA-256 of what the plan says, programs included.
    pub fn fingerprint(&self) -> String {
        let launch = [&self.prefill, &self.decode].map(|phase| phase.launch.to_text());
        fingerprint(&(launch.concat() + &weights::to_text(&self.sources)))
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.decode.launch.ranks() as usize
    }

    /// Entries of the vocabulary: the last extent of the logits, which the last stage returns.
    pub fn vocabulary(&self) -> u64 {
        let phase = &self.decode;
        let last = phase.launch.programs.iter().max_by_key(|p| p.stage);
        let routine = last.and_then(|p| phase.launch.routine(&p.routine));
        let func = routine.and_then(|r| phase.module.func(&r.function));
        let Some((func, mesh)) =
            func.map(|id| &phase.module.funcs[id]).zip(phase.module.mesh.as_ref())
        else {
            return 0;
        };
        let plain = |v: &&shardc_ir::graph::Value| func.ty(**v).kind == Kind::Tensor;
        let Some(&logits) = func.returns.iter().filter(plain).nth(1) else { return 0 };
        let layout = func.layout(logits).cloned().unwrap_or_default();
        let dims = global_dims(mesh, func.ty(logits), &layout);
        dims.last().and_then(|d| d.as_fixed()).unwrap_or(0)
    }
}

impl Phase {
    fn read(directory: &Path, phase: &str) -> Result<Self> {
        let launch = LaunchPlan::read(&text(directory, &format!("launch/{phase}.json"))?)?;
        let file = launch.source.file.clone();
        let inside = |c: Component<'_>| matches!(c, Component::Normal(_));
        if launch.phase != phase || !Path::new(&file).components().all(inside) {
            return Err(damaged(format!("launch/{phase}.json is of another plan")));
        }
        let program = text(directory, &file)?;
        launch.belongs_to(&program)?;
        let parsed = parse(&program);
        if let Some(found) = parsed.diagnostics.into_iter().next() {
            return Err(damaged(format!("{file} is not valid: {}", found.message)));
        }
        check(&launch, &parsed.module).map_err(first)?;
        Ok(Phase { launch, module: parsed.module })
    }

    /// The bounds of a symbol, if the program has it: the largest value of a step, and the value at
    /// which caches are held.
    pub fn bound(&self, name: &str) -> Option<(u64, u64)> {
        let bound = self.launch.dims.iter().find(|b| b.name == name)?;
        self.module.sym(name)?;
        Some((bound.max, bound.held))
    }

    /// Values of the symbols in steps of `requests` requests with `tokens` new tokens each; contexts
    /// are those at which caches are held.
    ///
    /// # Errors
    /// `W110` where the launch plan does not bound a symbol.
    pub fn extents(&self, requests: u64, tokens: u64) -> Result<Extents> {
        let mut out = Extents {
            step: Bindings::default(),
            bounds: Bindings::default(),
            held: Bindings::default(),
        };
        for (sym, data) in self.module.syms.iter() {
            let bound = self.bound(&data.name);
            let lost = || damaged(format!("the launch plan says nothing of %{}", data.name));
            let (max, held) = bound.ok_or_else(lost)?;
            out.bounds.set(sym, max);
            out.held.set(sym, held);
            out.step.set(
                sym,
                match data.name.as_str() {
                    "B" => requests,
                    "S" => tokens,
                    _ => held,
                },
            );
        }
        Ok(out)
    }
}
