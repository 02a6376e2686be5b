//! What `repeat` hands to the layer functions it runs, operand by operand.

use crate::graph::{FuncId, Module, Value};
use crate::layout::{DimAnnotation, Layout, Sharding};
use crate::ops::control::Repeat;
use crate::types::Type;

/// An operand or a result of `repeat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The values inside the layer functions: parameters of an operand, returned values of a result.
    pub inner: Vec<(FuncId, Value)>,
    /// Number of layers, if the outer value stacks one slice per layer.
    pub stacked: Option<u64>,
}

/// The operands and results of `repeat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Carried, shared, then per distinct function its weights and its caches.
    pub operands: Vec<Slot>,
    /// Carried, then per distinct function its caches.
    pub results: Vec<Slot>,
}

impl Interface {
    /// The interface of `repeat` in `module`.
    ///
    /// # Errors
    /// A layer function is missing, or two differ in what they carry and share.
    pub fn of(module: &Module, repeat: &Repeat) -> Result<Self, String> {
        let mut out = Interface::default();
        for (i, (name, layers)) in repeat.distinct().into_iter().enumerate() {
            let id = module.func(name).ok_or_else(|| format!("there is no function @{name}"))?;
            let func = &module.funcs[id];
            let signature = func.layer_signature();
            let common = signature.carried.iter().chain(&signature.shared).copied();
            let common: Vec<Value> = common.collect();
            let carried = signature.carried.len();
            if i == 0 {
                out.operands = vec![Slot { inner: Vec::new(), stacked: None }; common.len()];
                out.results = vec![Slot { inner: Vec::new(), stacked: None }; carried];
            }
            if out.operands.iter().filter(|s| s.stacked.is_none()).count() != common.len()
                || out.results.iter().filter(|s| s.stacked.is_none()).count() != carried
            {
                return Err(format!(
                    "@{name} carries or shares other values than the layers before"
                ));
            }
            for (slot, param) in out.operands.iter_mut().zip(common) {
                slot.inner.push((id, param));
            }
            for (slot, &value) in out.results.iter_mut().zip(&func.returns[..carried]) {
                slot.inner.push((id, value));
            }
            let stacked = |&v: &Value| Slot { inner: vec![(id, v)], stacked: Some(layers) };
            out.operands.extend(signature.weights.iter().chain(&signature.caches).map(stacked));
            out.results.extend(func.returns[carried..].iter().map(stacked));
        }
        Ok(out)
    }
}

impl Slot {
    /// The type of the outer value, from the first layer function.
    pub fn outer_type(&self, module: &Module) -> Option<Type> {
        let &(func, value) = self.inner.first()?;
        let mut ty = module.funcs[func].ty(value).clone();
        if let Some(layers) = self.stacked {
            ty.dims.insert(0, layers.into());
            if let Some(blocks) = &mut ty.elem.blocks {
                blocks.batch += 1;
                blocks.split += 1;
            }
        }
        Some(ty)
    }

    /// The layout of the outer value, from the first layer function.
    pub fn outer_layout(&self, module: &Module) -> Option<Layout> {
        let &(func, value) = self.inner.first()?;
        let mut layout = module.funcs[func].layout(value)?.clone();
        if self.stacked.is_some() {
            layout.dims.insert(0, Vec::new());
        }
        Some(layout)
    }

    /// What an annotation of the outer value says inside the layer functions.
    pub fn inner_sharding(&self, outer: &Sharding) -> Sharding {
        let mut inner = outer.clone();
        if self.stacked.is_some() {
            if !inner.layout.dims.is_empty() {
                inner.layout.dims.remove(0);
            }
            if !inner.dims.is_empty() {
                let _: DimAnnotation = inner.dims.remove(0);
            }
        }
        inner
    }
}
