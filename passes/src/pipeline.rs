//! The pipeline: from a logical module and a strategy to local programs.

use crate::insert_reshards::insert_reshards;
use crate::localize::localize;
use crate::optimize_collectives::optimize_collectives;
use crate::propagate::{Provenance, propagate_shardings};
use crate::reshard_to_collectives::reshard_to_collectives;
use crate::strategy::{Groups, Pin, pins};
use shardc_ir::diag::Result;
use shardc_ir::graph::Module;

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

/// Lowers a logical module to local programs.
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

    // Every value gets a layout; nothing moves yet.
    let provenance = propagate_shardings(&mut module)?;
    observe("propagate-shardings", &module);

    // Where layouts differ, a reshard. From here on the program says where everything is.
    insert_reshards(&mut module)?;
    observe("insert-reshards", &module);

    // Who sends what: no reshard survives past here.
    reshard_to_collectives(&mut module, lowering.sizes)?;
    observe("reshard-to-collectives", &module);
    optimize_collectives(&mut module)?;
    observe("optimize-collectives", &module);

    // One device's view: no global extent survives past here.
    localize(&mut module, lowering.stage_layers)?;
    observe("localize", &module);

    Ok((module, provenance))
}

/// Layers per stage: equal, the first stages one more where they do not divide.
pub fn balanced_stages(layers: u64, stages: u64) -> Vec<u64> {
    let stages = stages.max(1);
    (0..stages).map(|i| layers / stages + u64::from(i < layers % stages)).collect()
}
