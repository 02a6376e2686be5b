//! Where every axis of every layout came from.

use shardc_ir::entity::SecondaryMap;
use shardc_ir::graph::{Func, Inst, Value};
use shardc_ir::mesh::{AxisRef, Mesh};

/// Why a dimension carries an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The user or the strategy pinned it.
    Pin,
    /// It came through a factor of an instruction, from another value.
    Through {
        /// The instruction.
        inst: Inst,
        /// Name of the factor in the rule.
        factor: String,
        /// Where the axis stood before.
        from: Value,
    },
}

/// One axis of one dimension of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Function name.
    pub func: String,
    /// The value.
    pub value: Value,
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
    /// Records the pins of a function.
    pub(super) fn pins(&mut self, func: &Func, dims: &SecondaryMap<Value, Vec<Vec<AxisRef>>>) {
        for value in func.values.keys() {
            for (dim, axes) in dims[value].iter().enumerate() {
                self.record(func, value, dim, axes, &Origin::Pin);
            }
        }
    }

    /// Records axes that a dimension gained.
    pub(super) fn record(
        &mut self,
        func: &Func,
        value: Value,
        dim: usize,
        axes: &[AxisRef],
        origin: &Origin,
    ) {
        let entry = |&axis: &AxisRef| Entry {
            func: func.name.clone(),
            value,
            dim,
            axis,
            origin: origin.clone(),
        };
        self.entries.extend(axes.iter().map(entry));
    }

    /// One line per axis of `func`: what, where, and why.
    pub fn describe(&self, func: &Func, mesh: &Mesh) -> Vec<String> {
        let name = |v: Value| &func.values[v].name;
        let line = |e: &Entry| {
            let why = match &e.origin {
                Origin::Pin => "pinned".to_string(),
                Origin::Through { inst, factor, from } => {
                    let op = func.insts[*inst].op.info().name;
                    format!("from %{} through `{op}`, factor {factor}", name(*from))
                }
            };
            format!("%{} dim {} {}: {why}", name(e.value), e.dim, mesh.show(e.axis))
        };
        self.entries.iter().filter(|e| e.func == func.name).map(line).collect()
    }
}
