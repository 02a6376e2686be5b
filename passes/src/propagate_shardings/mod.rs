//! `propagate-shardings`: from pinned layouts to a layout for every value.
//!
//! Pins come first. Then one deterministic sweep after another carries axes through the factors of
//! each operator, forward and backward and into and out of the layers that `repeat` runs, until
//! nothing changes; an axis goes where it is legal, free and undisputed, and only to dimensions that
//! the user left open. What remains stays replicated.
//!
//! Dimensions with a lower priority number spread first; later ones only get what is left. Where
//! layouts dispute a factor, those of weights and caches win, as these stay where they are stored;
//! among activations the part on which they agree spreads.

mod provenance;
mod site;
mod state;
mod sweep;

pub use provenance::{Entry, Origin, Provenance};

use crate::edits::Edits;
use crate::precondition;
use crate::registry::{Options, Report};
use shardc_ir::diag::Result;
use shardc_ir::graph::Module;
use state::State;
use sweep::Sweeper;

/// Gives every value a layout; an edit is a dimension that gains axes.
///
/// # Errors
/// `S101` without a mesh.
pub fn propagate_shardings(module: &mut Module, options: &Options) -> Result<Report> {
    let mesh = precondition::mesh(module, "propagate-shardings")?;
    let mut state = State::new(module, &mesh);
    let mut provenance = Provenance::default();
    provenance.pins(module, &state);
    let sites = site::sites(module);
    let bind = module.bind(&options.sizes());
    let mut edits = Edits::new(options);
    for priority in state.priorities.clone() {
        let mut sweeper = Sweeper {
            module,
            mesh: &mesh,
            bind: &bind,
            state: &mut state,
            priority,
            provenance: &mut provenance,
            edits: &mut edits,
            clock: 0,
        };
        sweeper.run(&sites);
    }
    state.store(module);
    Ok(Report { edits: edits.made(), provenance, ..Report::default() })
}
