//! Schedules: every decision about a program's layouts, operator by operator.
//!
//! Degrees and pins leave much to propagation; a schedule leaves nothing. It says on which mesh a
//! program runs, how its parameters lie, which axes each operator gives to which of its factors, and
//! through which layouts values pass on the way to who reads them.

mod apply;

pub use apply::apply_schedule;

use shardc_ir::flow::Assignment;
use shardc_ir::graph::{Inst, Value};
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;
use std::collections::BTreeMap;

/// All decisions for a logical module.
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
