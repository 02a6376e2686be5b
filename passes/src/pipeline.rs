//! The pipelines: which passes run, in which order, and why in that order.

use crate::propagate_shardings::Provenance;
use crate::registry::{Options, Pass};
use crate::schedule::{Schedule, apply_schedule};
use crate::strategy::{Groups, Pin, pins};
use shardc_ir::diag::Result;
use shardc_ir::graph::Module;

/// Passes under one name.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline {
    /// Name, which `--passes` takes like that of a pass.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// The parts in order: names of passes.
    parts: &'static [&'static [&'static str]],
}

/// Makes a program smaller before anything is decided about it.
const SIMPLIFY: &[&str] = &[
    // Equal operators look equal only in canonical form.
    "canonicalize",
    "cse",
    // What the other two have bypassed goes.
    "dce",
];

/// From a logical program with pins to what each device runs.
const LOWER: &[&str] = &[
    // Every value gets a layout; nothing moves yet.
    "propagate-shardings",
    // Where layouts differ, a reshard. From here on the program says where everything is.
    "insert-reshards",
    // Who sends what: no reshard survives past here.
    "reshard-to-collectives",
    "optimize-collectives",
    // One device's view: no global extent survives past here.
    "localize",
];

/// Every pipeline.
pub const PIPELINES: &[Pipeline] = &[
    Pipeline {
        name: "default",
        summary: "a logical program with pinned layouts, simplified and lowered to local programs",
        parts: &[SIMPLIFY, LOWER],
    },
    Pipeline {
        name: "simplify",
        summary: "the same program in fewer operators, at its level",
        parts: &[SIMPLIFY],
    },
    Pipeline {
        name: "lower",
        summary: "a logical program with pinned layouts, lowered to local programs",
        parts: &[LOWER],
    },
];

impl Pipeline {
    /// The passes, in order.
    pub fn passes(&self) -> impl Iterator<Item = &'static Pass> + use<> {
        self.parts.iter().copied().flatten().filter_map(|name| Pass::named(name))
    }
}

/// What the pipeline is told beside the program.
#[derive(Clone, Debug)]
pub struct Lowering<'a> {
    /// Mesh and axis groups.
    pub groups: &'a Groups,
    /// Layouts fixed before propagation; later ones win.
    pub pins: &'a [Pin],
    /// Values of symbols by name, for choosing collectives; the upper bounds of the others.
    pub sizes: &'a [(&'a str, u64)],
    /// Layers of each pipeline stage.
    pub stage_layers: &'a [u64],
}

/// Called after each pass with its name.
pub type Observer<'a> = &'a mut dyn FnMut(&'static str, &Module);

/// Lowers a logical module to local programs by the pipeline `lower`.
///
/// # Errors
/// A pin matches nothing, or a pass refuses the program.
pub fn lower(
    logical: &Module,
    lowering: &Lowering<'_>,
    observe: Observer<'_>,
) -> Result<(Module, Provenance)> {
    let mut module = logical.clone();

    // The strategy speaks first: the mesh of one stage and the layouts it fixes.
    module.mesh = Some(lowering.groups.mesh.clone());
    pins::apply(&mut module, lowering.pins)?;
    observe("logical", &module);

    let sizes = lowering.sizes.iter().map(|(name, value)| (name.to_string(), *value));
    let options = Options {
        sizes: sizes.collect(),
        stage_layers: lowering.stage_layers.to_vec(),
        ..Options::default()
    };
    let mut provenance = Provenance::default();
    for pass in LOWER.iter().filter_map(|name| Pass::named(name)) {
        let report = pass.apply(&mut module, &options)?;
        provenance.entries.extend(report.provenance.entries);
        observe(pass.name, &module);
    }
    Ok((module, provenance))
}

/// Brings a logical module to sharded level by the first passes of the pipeline `lower`.
///
/// # Errors
/// As [`lower`].
pub fn shard(logical: &Module, lowering: &Lowering<'_>) -> Result<Module> {
    let mut module = logical.clone();
    module.mesh = Some(lowering.groups.mesh.clone());
    pins::apply(&mut module, lowering.pins)?;
    let sizes = lowering.sizes.iter().map(|(name, value)| (name.to_string(), *value));
    let options = Options { sizes: sizes.collect(), ..Options::default() };
    for pass in LOWER.iter().take(2).filter_map(|name| Pass::named(name)) {
        pass.apply(&mut module, &options)?;
    }
    Ok(module)
}

/// Lowers a logical module to local programs as a schedule says: the schedule stands for the passes
/// that decide layouts and insert reshards.
///
/// # Errors
/// The schedule does not fit the program, or a pass refuses it.
pub fn lower_scheduled(
    logical: &Module,
    schedule: &Schedule,
    options: &Options,
    observe: Observer<'_>,
) -> Result<Module> {
    let mut module = logical.clone();
    module.mesh = Some(schedule.mesh.clone());
    observe("logical", &module);
    apply_schedule(&mut module, schedule)?;
    observe("apply-schedule", &module);
    lower_sharded(module, options, observe)
}

/// Lowers a module at sharded level to local programs by the last passes of the pipeline `lower`.
///
/// # Errors
/// A pass refuses the program.
pub(crate) fn lower_sharded(
    mut module: Module,
    options: &Options,
    observe: Observer<'_>,
) -> Result<Module> {
    for pass in LOWER.iter().skip(2).filter_map(|name| Pass::named(name)) {
        pass.apply(&mut module, options)?;
        observe(pass.name, &module);
    }
    Ok(module)
}

/// Layers per stage: equal, the first stages one more where they do not divide.
pub fn balanced_stages(layers: u64, stages: u64) -> Vec<u64> {
    let stages = stages.max(1);
    (0..stages).map(|i| layers / stages + u64::from(i < layers % stages)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_name_passes() {
        for name in PIPELINES.iter().flat_map(|p| p.parts.iter().copied().flatten()) {
            assert!(Pass::named(name).is_some(), "no pass is called {name}");
        }
    }
}
