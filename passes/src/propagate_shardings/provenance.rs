//! Where every axis of every layout came from, by name, so that it outlives later passes.

use super::state::State;
use shardc_ir::graph::Module;
use shardc_ir::mesh::{AxisRef, Mesh};

/// Why a dimension carries an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The user or the strategy pinned it.
    Pin,
    /// It came through a factor of an operator, from another value.
    Through {
        /// Name of the operator.
        op: &'static str,
        /// Name of the factor in its rule.
        factor: String,
        /// Function of the value where the axis stood before, if it is another one.
        from_func: Option<String>,
        /// That value.
        from: String,
    },
}

/// One axis of one dimension of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Function name.
    pub func: String,
    /// Name of the value.
    pub value: String,
    /// The dimension.
    pub dim: usize,
    /// The axis.
    pub axis: AxisRef,
    /// Why.
    pub origin: Origin,
}

/// The provenance of every axis, in the order of decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The entries.
    pub entries: Vec<Entry>,
}

impl Provenance {
    /// Records the pins of a module.
    pub(super) fn pins(&mut self, module: &Module, state: &State) {
        for (id, func) in module.funcs.iter() {
            for (value, data) in func.values.iter() {
                for (dim, axes) in state.of(id).dims[value].iter().enumerate() {
                    self.record((&func.name, &data.name, dim), axes, &Origin::Pin);
                }
            }
        }
    }

    /// Records axes that a dimension, of a function's value, gained.
    pub(super) fn record(
        &mut self,
        (func, value, dim): (&str, &str, usize),
        axes: &[AxisRef],
        origin: &Origin,
    ) {
        let entry = |&axis: &AxisRef| Entry {
            func: func.to_string(),
            value: value.to_string(),
            dim,
            axis,
            origin: origin.clone(),
        };
        self.entries.extend(axes.iter().map(entry));
    }

    /// One line per axis of the function of that name: what, where, and why.
    pub fn describe(&self, func: &str, mesh: &Mesh) -> Vec<String> {
        let line = |e: &Entry| {
            let why = match &e.origin {
                Origin::Pin => "pinned".to_string(),
                Origin::Through { op, factor, from_func, from } => {
                    let place = from_func.as_ref().map(|f| format!(" of @{f}"));
                    format!("from %{from}{} by `{op}`, factor {factor}", place.unwrap_or_default())
                }
            };
            format!("%{} dim {} {}: {why}", e.value, e.dim, mesh.show(e.axis))
        };
        self.entries.iter().filter(|e| e.func == func).map(line).collect()
    }
}
