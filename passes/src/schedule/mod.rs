//! Schedules: every decision about a program's layouts, operator by operator.
//!
//! Degrees and pins leave much to propagation; a schedule can say all. It says on which mesh a
//! program runs, how its parameters lie, which axes each operator gives to which of its factors, and
//! through which layouts values pass on the way to who reads them. What a schedule does not state
//! has a default: `complete` fills it in, `stated` leaves out what it would fill in.
//!
//! [`Decisions`] are those of a whole plan: both phases, stages, batches.

mod apply;
mod decisions;
mod extract;
mod fault;
mod illegal;
mod pinned;
mod read;
mod sections;
mod site;
pub mod tree;
mod walk;
mod write;

pub(crate) use apply::applied_whole;
pub use apply::{apply_schedule, complete, stated};
pub use decisions::{Base, Batching, Decisions, Rule};
pub use extract::extract;
pub use fault::{Checked, Fault};
pub use pinned::pinned;
pub use read::{KEYS, VERSION, batching, devices, read, without_batching};
pub use site::Site;
pub use write::write;

use shardc_ir::flow::Assignment;
use shardc_ir::graph::{Inst, Module, Value};
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;
use std::collections::BTreeMap;

/// Decisions for a logical module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The devices of one pipeline stage.
    pub mesh: Mesh,
    /// Decisions by function name.
    pub funcs: BTreeMap<String, FuncSchedule>,
}

/// The decisions for one function; ids are those of the logical function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FuncSchedule {
    /// Layouts of parameters; those not named are replicated.
    pub params: BTreeMap<Value, Layout>,
    /// Axes of the factors of operators; those not named split nothing.
    pub assignments: BTreeMap<Inst, Assignment>,
    /// Layouts through which an operand passes, by instruction and position, in order; whatever is
    /// then missing to what the assignment demands follows in one step.
    pub ways: BTreeMap<(Inst, usize), Vec<Layout>>,
}

impl FuncSchedule {
    /// Whether nothing is decided.
    pub fn is_empty(&self) -> bool {
        self.params.is_empty() && self.assignments.is_empty() && self.ways.is_empty()
    }
}

impl Schedule {
    /// A schedule that states nothing.
    pub fn empty(mesh: Mesh) -> Self {
        Schedule { mesh, funcs: BTreeMap::new() }
    }

    /// Layouts of weights and caches of `from`, a program of the same model under another schedule,
    /// for the values of the same names in `module`. Both phases of a plan store them once.
    pub fn stored_as(&self, from: &Module, module: &Module) -> Schedule {
        let mut out = Schedule::empty(self.mesh.clone());
        for func in module.funcs.values() {
            let Some(other) = from.func(&func.name).map(|id| &from.funcs[id]) else { continue };
            let Some(decided) = self.funcs.get(&func.name) else { continue };
            let stored = |&p: &Value| {
                let same = other.value(&func.values[p].name)?;
                let layout = decided.params.get(&same)?;
                let kept = func.ty(p).kind.is_stored() && func.ty(p).rank() == layout.dims.len();
                kept.then(|| (p, layout.clone()))
            };
            let params: BTreeMap<Value, Layout> = func.params.iter().filter_map(stored).collect();
            out.funcs.insert(func.name.clone(), FuncSchedule { params, ..Default::default() });
        }
        out
    }
}
