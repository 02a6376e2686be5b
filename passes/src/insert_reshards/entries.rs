//! In which layouts functions take their parameters.

use super::mover::Mover;
use crate::codes;
use crate::precondition;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::{FuncId, Module, Value};
use shardc_ir::layers::Interface;
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use std::collections::BTreeMap;

/// Parameters of layer functions that enter in another layout than their own, as the layers before
/// hand them on in it.
pub(super) struct Entries {
    of: BTreeMap<(FuncId, Value), Layout>,
}

/// Lets all layers that one `repeat` runs take what they carry and share in the layout of the first.
pub(super) fn agree(module: &Module, mesh: &Mesh) -> Entries {
    let mut of: BTreeMap<(FuncId, Value), Layout> = BTreeMap::new();
    for func in module.funcs.values() {
        for inst in func.body.iter().map(|&i| &func.insts[i]) {
            let Op::Repeat(repeat) = &inst.op else { continue };
            let Ok(interface) = Interface::of(module, repeat) else { continue };
            for slot in interface.operands.iter().filter(|s| s.stacked.is_none()) {
                let layout = |&(f, v): &(FuncId, Value)| {
                    let own = || Some(module.funcs[f].layout(v)?.normalise(mesh));
                    of.get(&(f, v)).cloned().or_else(own)
                };
                let Some(first) = slot.inner.first().and_then(layout) else { continue };
                slot.inner.iter().for_each(|&place| drop(of.insert(place, first.clone())));
            }
        }
    }
    Entries { of }
}

impl Entries {
    /// Lets the parameters of a function enter as its neighbours hand them on.
    pub(super) fn enter(&self, id: FuncId, mover: &mut Mover<'_, '_>) -> Result<()> {
        for &param in &mover.rewriter.old().params {
            match self.of.get(&(id, param)) {
                Some(entry) if *entry != mover.entry_layout(param) => {
                    mover.enter_in(param, entry.clone())?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Refuses a model that takes a partial value: nobody outside could have made it.
pub(super) fn check_boundaries(module: &Module) -> Result<()> {
    for func in precondition::models(module).into_iter().map(|id| &module.funcs[id]) {
        let partial = |v: &&Value| func.layout(**v).is_some_and(Layout::is_partial);
        if let Some(&param) = func.params.iter().find(partial) {
            let name = &func.values[param].name;
            let message = format!("%{name} enters @{} as a partial value", func.name);
            let help = "pin parameters to complete layouts; `to_partial` makes a value partial";
            return Err(Box::new(Diagnostic::error(codes::NO_ASSIGNMENT, message).help(help)));
        }
    }
    Ok(())
}
