//! `localize`: from global values with layouts to what one device of each pipeline stage runs.
//!
//! Extents become shares, the model becomes one program per stage, and values keep the layout that
//! says which part they are: an uneven share, a masked look-up or an expert's number needs it.

mod stacks;
mod stages;

use crate::codes;
use crate::precondition;
use crate::registry::{Options, Report};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dim::Dim;
use shardc_ir::graph::{Func, Inst, Level, Module, Value};
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::rewrite::Rewriter;
use shardc_ir::types::Type;

/// Brings a collective module to local level; an edit is a value that became a share.
///
/// # Errors
/// `S101` where the stages do not fit the layers.
pub fn localize(module: &mut Module, options: &Options) -> Result<Report> {
    let mesh = precondition::mesh(module, "localize")?;
    let models = precondition::models(module);
    let mut edits = 0;
    let mut local = Module::new(&module.name, Level::Local);
    local.attrs = module.attrs.clone();
    local.mesh = module.mesh.clone();
    local.syms = module.syms.clone();
    for id in module.funcs.keys() {
        let func = to_shares(&module.funcs[id], &mesh);
        let whole = module.funcs[id].values.values();
        edits += whole.zip(func.values.values()).filter(|(a, b)| a.ty != b.ty).count() as u64;
        if !models.contains(&id) {
            local.funcs.push(func);
            continue;
        }
        for program in stages::split(module, func, &options.stage_layers)? {
            local.funcs.push(program);
        }
    }
    *module = local;
    Ok(Report::of(edits))
}

/// The type of one device's part of a value.
pub fn local_type(ty: &Type, layout: &Layout, mesh: &Mesh) -> Type {
    let share = |(dim, axes): (&Dim, &Vec<_>)| dim.share(mesh.size_of(axes));
    ty.with_dims(ty.dims.iter().zip(&layout.dims).map(share).collect())
}

/// A function with every extent replaced by one device's share.
fn to_shares(func: &Func, mesh: &Mesh) -> Func {
    let mut rewriter = Rewriter::new(func);
    for &inst in &func.body {
        let new = rewriter.copy(inst);
        localize_attrs(rewriter.new_func_mut(), new, mesh);
    }
    let mut out = rewriter.finish();
    for value in out.values.values_mut() {
        if let Some(sharding) = &value.sharding {
            value.ty = local_type(&value.ty, &sharding.layout, mesh);
        }
    }
    out
}

/// Attributes that name extents follow the results.
fn localize_attrs(func: &mut Func, inst: Inst, mesh: &Mesh) {
    let Some(&result) = func.insts[inst].results.first() else { return };
    let Some(layout) = func.layout(result).cloned() else { return };
    let dims = local_type(func.ty(result), &layout, mesh).dims;
    match &mut func.insts[inst].op {
        Op::Reshape(reshape) => reshape.shape = dims,
        Op::Broadcast(broadcast) => broadcast.shape = dims,
        Op::Dispatch(dispatch) => dispatch.experts = dims[0],
        _ => {}
    }
}

/// An error about pipeline stages.
fn stage_error(message: impl Into<String>) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(codes::PRECONDITION, message.into()))
}

/// Whether a value is a parameter of its function.
fn is_param(func: &Func, value: Value) -> bool {
    func.params.contains(&value)
}
