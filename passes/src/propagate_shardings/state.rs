//! What propagation knows about every value of a module.

use shardc_ir::entity::{EntityId, SecondaryMap};
use shardc_ir::graph::{Func, FuncId, Module, Value};
use shardc_ir::layout::{Layout, Sharding};
use shardc_ir::mesh::{AxisRef, Mesh};

/// What propagation knows.
pub(super) struct State {
    funcs: Vec<FuncState>,
    /// The rounds, ascending.
    pub(super) priorities: Vec<u32>,
}

/// What propagation knows about the values of one function.
#[derive(Default)]
pub(super) struct FuncState {
    /// Axes of each dimension so far.
    pub(super) dims: SecondaryMap<Value, Vec<Vec<AxisRef>>>,
    /// Which dimensions may gain axes.
    pub(super) open: SecondaryMap<Value, Vec<bool>>,
    /// From which round on a dimension's axes spread.
    pub(super) priority: SecondaryMap<Value, Vec<u32>>,
    /// Axes that may not split the value: pending or pinned as replicated.
    pub(super) banned: SecondaryMap<Value, Vec<AxisRef>>,
    /// The number of the last change of the value.
    pub(super) changed: SecondaryMap<Value, u64>,
}

impl State {
    pub(super) fn new(module: &Module, mesh: &Mesh) -> Self {
        let funcs: Vec<FuncState> =
            module.funcs.values().map(|func| FuncState::new(func, mesh)).collect();
        let mut priorities = vec![0];
        for (func, state) in module.funcs.values().zip(&funcs) {
            priorities.extend(func.values.keys().flat_map(|v| state.priority[v].iter().copied()));
        }
        priorities.sort_unstable();
        priorities.dedup();
        State { funcs, priorities }
    }

    pub(super) fn of(&self, func: FuncId) -> &FuncState {
        &self.funcs[func.index()]
    }

    pub(super) fn of_mut(&mut self, func: FuncId) -> &mut FuncState {
        &mut self.funcs[func.index()]
    }

    /// Writes the layouts into the module.
    pub(super) fn store(self, module: &mut Module) {
        for (func, state) in module.funcs.values_mut().zip(self.funcs) {
            for value in func.values.keys() {
                let data = &mut func.values[value];
                let pinned = data.sharding.take();
                let unreduced = pinned.map(|s| s.layout.unreduced).unwrap_or_default();
                let layout = Layout { dims: state.dims[value].clone(), unreduced };
                data.sharding = Some(Sharding::decided(layout));
            }
        }
    }
}

impl FuncState {
    fn new(func: &Func, mesh: &Mesh) -> Self {
        let mut state = FuncState::default();
        for (value, data) in func.values.iter() {
            let rank = data.ty.rank();
            let mut sharding = match &data.sharding {
                Some(sharding) => sharding.normalise(mesh),
                None => Sharding::default(),
            };
            sharding.layout.dims.resize(rank, Vec::new());
            let annotated = data.sharding.is_some();
            let each = |d| sharding.annotation(d);
            state.open[value] = (0..rank).map(|d| !annotated || each(d).open).collect();
            state.priority[value] = (0..rank).map(|d| each(d).priority.unwrap_or(0)).collect();
            let mut banned = sharding.layout.unreduced_axes();
            banned.extend(&sharding.replicated);
            state.banned[value] = banned;
            state.dims[value] = sharding.layout.dims;
        }
        state
    }
}
