//! The global tensors behind values: above local level the values themselves, at local level what
//! their shares add up to.

use super::report::Reporter;
use crate::dim::Dim;
use crate::graph::{FuncId, Inst, Level, Value};
use crate::layout::Layout;
use crate::mesh::Mesh;
use crate::ops::Op;
use crate::types::Type;

/// The global extents whose shares under `layout` are `local`; `None` where there are none.
pub(super) fn dims(local: &[Dim], layout: &Layout, mesh: &Mesh) -> Vec<Option<Dim>> {
    let one = |(dim, axes): (&Dim, &Vec<_>)| whole(*dim, mesh.size_of(axes));
    local.iter().zip(&layout.dims).map(one).collect()
}

/// The extent whose share over `parts` devices is `local`. An uneven share says its divisor; an
/// even one has none.
fn whole(local: Dim, parts: u64) -> Option<Dim> {
    let (coeff, sym, div) = local.parts();
    if div == 1 {
        return local.times(parts);
    }
    if div.is_multiple_of(parts) { Dim::from_parts(coeff, sym, div / parts) } else { None }
}

impl Reporter<'_> {
    /// The global type of a value. Local extents that are no shares stand as they are; the section
    /// on shares reports them.
    pub(super) fn global_type(&self, id: FuncId, value: Value) -> Type {
        let func = self.func(id);
        let ty = func.ty(value);
        match func.layout(value).filter(|_| self.module.level == Level::Local) {
            Some(layout) => {
                let globals = dims(&ty.dims, layout, &self.mesh());
                let known = globals.iter().zip(&ty.dims).map(|(g, d)| g.unwrap_or(*d));
                ty.with_dims(known.collect())
            }
            None => ty.clone(),
        }
    }

    /// The operator with the extents in its attributes made global.
    pub(super) fn global_op(&self, id: FuncId, inst: Inst) -> Op {
        let data = &self.func(id).insts[inst];
        match data.results.first().filter(|_| self.module.level == Level::Local) {
            Some(&result) => data.op.with_extents(&self.global_type(id, result).dims),
            None => data.op.clone(),
        }
    }
}
