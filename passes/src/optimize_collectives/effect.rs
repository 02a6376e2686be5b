//! The layout that a collective leaves.

use shardc_ir::attr::AxisList;
use shardc_ir::layout::{Layout, axes};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;

/// The layout after `op`, or `None` where it does not fit the layout before.
pub(crate) fn after(op: &Op, from: &Layout, mesh: &Mesh) -> Option<Layout> {
    let out = match op {
        Op::AllGather(gather) => {
            let mut out = from.clone();
            for (dim, list) in gather.axes.iter().enumerate() {
                out.dims[dim] = axes::strip_suffix(mesh, from.dims.get(dim)?, &list.0)?;
            }
            out
        }
        Op::AllSlice(slice) => append(from.clone(), &slice.axes, mesh),
        Op::AllReduce(reduce) => from.clone().without_pending(mesh, &reduce.axes.0),
        Op::ReduceScatter(scatter) => {
            let complete = from.clone().without_pending(mesh, &flat(&scatter.axes));
            append(complete, &scatter.axes, mesh)
        }
        Op::AllToAll(exchange) => {
            let mut out = from.clone();
            for step in &exchange.moves {
                let source = out.dims.get(step.src)?;
                out.dims[step.src] = axes::strip_suffix(mesh, source, &step.axes)?;
            }
            let append = |l: Layout, step: &shardc_ir::ops::collective::Move| {
                l.append(mesh, step.tgt, &step.axes)
            };
            exchange.moves.iter().fold(out, append)
        }
        _ => return None,
    };
    out.check(mesh, from.dims.len()).ok()?;
    Some(out.normalise(mesh))
}

fn append(layout: Layout, lists: &[AxisList], mesh: &Mesh) -> Layout {
    lists.iter().enumerate().fold(layout, |l, (dim, list)| l.append(mesh, dim, &list.0))
}

/// All axes of a list per dimension.
pub(crate) fn flat(lists: &[AxisList]) -> Vec<AxisRef> {
    lists.iter().flat_map(|l| l.0.iter().copied()).collect()
}
