//! `propagate-shardings`: from pinned layouts to a layout for every value.
//!
//! Pins come first. Then one deterministic sweep after another carries axes through the factors of
//! each operator, forward and backward, until nothing changes; an axis goes where it is legal, free
//! and undisputed, and only to dimensions that the user left open. What remains stays replicated.

mod provenance;
mod sweep;

pub use provenance::{Origin, Provenance};

use crate::precondition;
use shardc_ir::diag::Result;
use shardc_ir::entity::SecondaryMap;
use shardc_ir::graph::{Func, FuncId, Level, Module, Value};
use shardc_ir::layers::Interface;
use shardc_ir::layout::{Layout, Sharding};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;

/// Gives every value a layout.
///
/// # Errors
/// `S101` without a mesh, or beyond logical level.
pub fn propagate_shardings(module: &mut Module) -> Result<Provenance> {
    let mesh = precondition::mesh(module, "propagate-shardings")?;
    precondition::level(module, "propagate-shardings", Level::Logical)?;
    seed_layers(module);
    let mut provenance = Provenance::default();
    for id in module.funcs.keys().collect::<Vec<_>>() {
        pin_around_repeats(module, id);
        let func = &mut module.funcs[id];
        let mut state = State::new(func, &mesh);
        provenance.pins(func, &state.dims);
        for priority in state.priorities.clone() {
            sweep::run(func, &mesh, &mut state, priority, &mut provenance);
        }
        state.store(func);
    }
    Ok(provenance)
}

/// What propagation knows about one function.
struct State {
    /// Axes of each dimension of each value so far.
    dims: SecondaryMap<Value, Vec<Vec<AxisRef>>>,
    /// Which dimensions may gain axes.
    open: SecondaryMap<Value, Vec<bool>>,
    /// From which round on a dimension's axes spread.
    priority: SecondaryMap<Value, Vec<u32>>,
    /// Axes that may not split the value: pending or pinned as replicated.
    banned: SecondaryMap<Value, Vec<AxisRef>>,
    /// The rounds, ascending.
    priorities: Vec<u32>,
}

impl State {
    fn new(func: &Func, mesh: &Mesh) -> Self {
        let mut state = State {
            dims: SecondaryMap::default(),
            open: SecondaryMap::default(),
            priority: SecondaryMap::default(),
            banned: SecondaryMap::default(),
            priorities: vec![0],
        };
        for (value, data) in func.values.iter() {
            let rank = data.ty.rank();
            let empty = Sharding { layout: Layout::replicated(rank), ..Sharding::default() };
            let sharding = data.sharding.as_ref().unwrap_or(&empty);
            let sharding = sharding.normalise(mesh);
            let annotated = data.sharding.is_some();
            let each = |d| sharding.annotation(d);
            state.dims[value] = sharding.layout.dims.clone();
            state.open[value] = (0..rank).map(|d| !annotated || each(d).open).collect();
            state.priority[value] = (0..rank).map(|d| each(d).priority.unwrap_or(0)).collect();
            state.priorities.extend(&state.priority[value]);
            let mut banned = sharding.layout.unreduced_axes();
            banned.extend(&sharding.replicated);
            state.banned[value] = banned;
        }
        state.priorities.sort_unstable();
        state.priorities.dedup();
        state
    }

    /// Writes the layouts into the function.
    fn store(&self, func: &mut Func) {
        for value in func.values.keys() {
            let data = &mut func.values[value];
            let pinned = data.sharding.take();
            let unreduced = pinned.map(|s| s.layout.unreduced).unwrap_or_default();
            let layout = Layout { dims: self.dims[value].clone(), unreduced };
            data.sharding = Some(Sharding::decided(layout));
        }
    }
}

/// Gives unpinned parameters of layer functions the layouts of the outer values they come from.
fn seed_layers(module: &mut Module) {
    let mut seeds: Vec<(FuncId, Value, Sharding)> = Vec::new();
    for func in module.funcs.values() {
        for inst in func.body.iter().map(|&i| &func.insts[i]) {
            let Op::Repeat(repeat) = &inst.op else { continue };
            let Ok(interface) = Interface::of(module, repeat) else { continue };
            for (slot, &operand) in interface.operands.iter().zip(&inst.operands) {
                let Some(pin) = &func.values[operand].sharding else { continue };
                let inner = slot.inner_sharding(pin);
                seeds.extend(slot.inner.iter().map(|&(id, param)| (id, param, inner.clone())));
            }
        }
    }
    for (id, param, pin) in seeds {
        let slot = &mut module.funcs[id].values[param].sharding;
        *slot = slot.take().or(Some(pin));
    }
}

/// Pins the unannotated values around `repeat` to the layouts decided inside the layer functions.
fn pin_around_repeats(module: &mut Module, id: FuncId) {
    let mut pins: Vec<(Value, Layout)> = Vec::new();
    let func = &module.funcs[id];
    for inst in func.body.iter().map(|&i| &func.insts[i]) {
        let Op::Repeat(repeat) = &inst.op else { continue };
        let Ok(interface) = Interface::of(module, repeat) else { continue };
        let slots = interface.operands.iter().zip(&inst.operands);
        for (slot, &value) in slots.chain(interface.results.iter().zip(&inst.results)) {
            pins.extend(slot.outer_layout(module).map(|layout| (value, layout)));
        }
    }
    let func = &mut module.funcs[id];
    for (value, layout) in pins {
        let sharding = &mut func.values[value].sharding;
        *sharding = sharding.take().or_else(|| Some(Sharding::decided(layout)));
    }
}
