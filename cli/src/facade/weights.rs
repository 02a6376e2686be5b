//! Which tensors of a checkpoint fill which parameter of a model's programs.

use super::Model;
use super::launch::broken;
use shardc_frontend::graph;
use shardc_frontend::spec::ModelSpec;
use shardc_ir::diag::Result;
use shardc_ir::weights::Source;

/// The sources of every weight parameter, in parameter order.
pub fn sources(spec: &ModelSpec) -> Vec<Source> {
    graph::weights(spec)
}

/// The sources of every weight parameter of a model, held to the checker.
///
/// # Errors
/// `S103` where the checker refuses them.
pub fn checked_sources(model: &Model) -> Result<Vec<Source>> {
    let sources = sources(&model.published);
    let refused = |found| broken("the map of weights", found);
    shardc_check::weights::check(&sources, &model.logical).map_err(refused)?;
    Ok(sources)
}
