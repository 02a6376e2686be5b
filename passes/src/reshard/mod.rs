//! Lowers a change of layout to collectives: exact target, least peak, then fewest bytes.
//!
//! [`plan`] searches over layouts. [`units`] cuts the axes into pieces that move as a whole,
//! [`space`] packs layouts of those pieces and bounds what remains, [`moves`] lists the steps out of
//! a layout, [`search`] finds the cheapest way, [`emit`] turns it into steps, [`fallback`] gives
//! ways without a search, [`thin`] sees to dimensions with fewer elements than parts. [`simulate`](mod@simulate) runs steps on index sets, independently of all that.

mod bound;
mod check;
pub mod codes;
mod emit;
mod fallback;
mod moves;
mod op;
mod planner;
mod search;
pub mod simulate;
mod space;
mod thin;
mod torn;
mod units;

pub use op::{AxisMove, Op, OpKind};
pub use planner::{Planner, plan};
pub use simulate::simulate;

use shardc_ir::layout::Layout;
use shardc_ir::mesh::{AxisRef, Mesh};

/// What is to be resharded.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The mesh.
    pub mesh: &'a Mesh,
    /// Global extents.
    pub dims: &'a [u64],
    /// Bits per element.
    pub bits: u64,
    /// Layout before.
    pub from: &'a Layout,
    /// Layout after.
    pub to: &'a Layout,
}

/// Extents to plan with where some are known only at run time: those become the least multiple of
/// the mesh's devices that is not below `typical`, so that every split of them is even.
pub fn representative_extents(mesh: &Mesh, dims: &[Option<u64>], typical: u64) -> Vec<u64> {
    let even = typical.max(1).checked_next_multiple_of(mesh.devices()).unwrap_or(typical);
    dims.iter().map(|extent| extent.unwrap_or(even)).collect()
}

/// One step to be priced on a machine.
#[derive(Clone, Debug)]
pub struct StepCost {
    /// The collective.
    pub kind: OpKind,
    /// Axes whose devices communicate; empty for a permute.
    pub axes: Vec<AxisRef>,
    /// Padded local bytes before the step.
    pub before_bytes: u64,
    /// Padded local bytes after the step.
    pub after_bytes: u64,
    /// Bytes that each device sends in a ring.
    pub wire_bytes: u64,
}

/// Prices of steps on a machine, in any unit, such as nanoseconds.
pub trait Prices {
    /// What a step takes.
    fn price(&self, step: &StepCost) -> u64;

    /// What no sequence of steps that moves `bytes` per device undercuts. It guides the search, and
    /// must not grow by more than a step's price where a step's wire bytes are added. 0 is always
    /// right, and slow.
    fn least(&self, bytes: u64) -> u64;
}

/// Prices without a machine: wire bytes, and for every step the bytes that a link would carry while
/// a collective starts. It keeps small reshards to few steps.
#[derive(Clone, Copy, Debug)]
pub struct StartupBytes(pub u64);

impl Prices for StartupBytes {
    fn price(&self, step: &StepCost) -> u64 {
        step.wire_bytes.saturating_add(self.0)
    }

    fn least(&self, bytes: u64) -> u64 {
        if bytes == 0 { 0 } else { bytes.saturating_add(self.0) }
    }
}

/// What a plan minimises.
#[derive(Clone, Copy, Default)]
pub enum Objective<'a> {
    /// Peak local elements, then wire bytes, then steps.
    #[default]
    PeakThenBytes,
    /// Wire bytes, then steps, whatever the peak.
    Bytes,
    /// Peak local elements, then the sum of the prices of steps, then wire bytes.
    PeakThenPrice(&'a dyn Prices),
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub op: Op,
    /// The layout after it, in normal form.
    pub out: Layout,
    /// Bytes that each device sends, in a ring.
    pub wire_bytes: u64,
}

/// A way that was considered and not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The way, in words.
    pub what: &'static str,
    /// Its steps by name.
    pub steps: Vec<OpKind>,
    /// Its wire bytes.
    pub wire_bytes: u64,
    /// Its peak of local elements.
    pub peak_elements: u64,
}

/// How a reshard is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReshardPlan {
    /// The steps; none if both layouts place the value alike.
    pub steps: Vec<Step>,
    /// Bytes that each device sends over all steps.
    pub wire_bytes: u64,
    /// The largest padded local size before, between and after the steps, in elements.
    pub peak_elements: u64,
    /// Bytes that the worst device must receive whatever the steps.
    pub lower_bound_bytes: u64,
    /// Whether the search ended with a proof that nothing it allows is better; otherwise a limit on
    /// the number of states was met.
    pub proven: bool,
    /// What was considered instead.
    pub rejected: Vec<Rejected>,
}

#[cfg(test)]
mod tests;
