//! From the layouts along a way to steps with arguments, neighbouring steps fused.

use super::bound::bytes;
use super::op::{AxisMove, Op, OpKind};
use super::thin::holds_the_same;
use super::{Request, Step, StepCost};
use shardc_ir::layout::{Layout, axes};
use shardc_ir::mesh::{AxisRef, Mesh};

/// The steps along `way`, which lists collectives and the layouts after them; `None` where a layout
/// does not follow from the one before by its collective.
pub fn steps(request: &Request<'_>, way: &[(OpKind, Layout)]) -> Option<Vec<Step>> {
    let mesh = request.mesh;
    let mut before = request.from.normalise(mesh);
    let mut out: Vec<Step> = Vec::new();
    let mut base = before.clone();
    for (kind, layout) in way {
        let after = layout.normalise(mesh);
        let step = step(request, &before, &after, *kind)?;
        if let Some(last) = out.last()
            && let Some(fused) = fuse(request, &base, last, &step)
        {
            out.pop();
            out.push(fused);
        } else {
            base.clone_from(&before);
            out.push(step);
        }
        before = after;
    }
    Some(out)
}

/// The step of `kind` from `before` to `after`.
pub fn step(request: &Request<'_>, before: &Layout, after: &Layout, kind: OpKind) -> Option<Step> {
    let mesh = request.mesh;
    let op = match kind {
        OpKind::AllGather => Op::AllGather { axes: tails(mesh, before, after)? },
        OpKind::AllSlice => Op::AllSlice { axes: tails(mesh, after, before)? },
        OpKind::AllToAll => Op::AllToAll { moves: moves(mesh, before, after)? },
        OpKind::CollectivePermute => Op::CollectivePermute,
        OpKind::ReduceScatter => Op::ReduceScatter {
            kind: before.unreduced.first()?.kind,
            axes: tails(mesh, after, before)?,
        },
        OpKind::AllReduce => {
            let (was, is) = (before.unreduced_axes(), after.unreduced_axes());
            let axes = axes::normalise_set(mesh, &axes::subtract(mesh, &was, &is));
            Op::AllReduce { kind: before.unreduced.first()?.kind, axes }
        }
    };
    let sound = match kind {
        OpKind::CollectivePermute => permutes(request, before, after),
        _ => op.apply(mesh, before).as_ref() == Some(after),
    };
    sound.then(|| priced(request, before, op, after.clone()))
}

/// Whether a permute takes `before` to `after`: equal parts of every dimension, equal pending axes.
fn permutes(request: &Request<'_>, before: &Layout, after: &Layout) -> bool {
    let same = |(dim, &extent): (usize, &u64)| {
        let sizes = |l: &Layout| -> Vec<u64> {
            l.digits(request.mesh, dim).iter().map(|d| d.size).collect()
        };
        before.sharded_factor(request.mesh, dim) == after.sharded_factor(request.mesh, dim)
            && super::moves::same_parts(extent, &sizes(before), &sizes(after))
    };
    before.unreduced == after.unreduced && request.dims.iter().enumerate().all(same)
}

fn priced(request: &Request<'_>, before: &Layout, op: Op, out: Layout) -> Step {
    let group = request.mesh.size_of(&op.group_axes());
    let (b, after) = (local_bytes(request, before), local_bytes(request, &out));
    let stays = matches!(op, Op::CollectivePermute) && holds_the_same(request, before, &out);
    let wire_bytes = if stays { 0 } else { op.kind().wire_bytes(b, after, group) };
    Step { op, out, wire_bytes }
}

/// What there is to price of a step that leaves `before`.
pub fn step_cost(request: &Request<'_>, before: &Layout, step: &Step) -> StepCost {
    StepCost {
        kind: step.op.kind(),
        axes: axes::normalise_set(request.mesh, &step.op.group_axes()),
        before_bytes: local_bytes(request, before),
        after_bytes: local_bytes(request, &step.out),
        wire_bytes: step.wire_bytes,
    }
}

/// What there is to price of a permute at `layout`.
pub fn permute(request: &Request<'_>, layout: &Layout) -> StepCost {
    let bytes = local_bytes(request, layout);
    let kind = OpKind::CollectivePermute;
    StepCost { kind, axes: Vec::new(), before_bytes: bytes, after_bytes: bytes, wire_bytes: bytes }
}

fn local_bytes(request: &Request<'_>, layout: &Layout) -> u64 {
    bytes(layout.local_elements(request.mesh, request.dims), request.bits)
}

/// Per dimension what `long` has beyond `short`.
fn tails(mesh: &Mesh, long: &Layout, short: &Layout) -> Option<Vec<Vec<AxisRef>>> {
    let pairs = long.dims.iter().zip(&short.dims);
    pairs.map(|(l, s)| axes::strip_prefix(mesh, l, s)).collect()
}

fn moves(mesh: &Mesh, before: &Layout, after: &Layout) -> Option<Vec<AxisMove>> {
    let mut lost = vec![Vec::new(); before.dims.len()];
    let mut gained = lost.clone();
    for (dim, (b, a)) in before.dims.iter().zip(&after.dims).enumerate() {
        match axes::strip_prefix(mesh, b, a) {
            Some(tail) => lost[dim] = tail,
            None => gained[dim] = axes::strip_prefix(mesh, a, b)?,
        }
    }
    let sources = lost.into_iter().enumerate().filter(|(_, axes)| !axes.is_empty());
    sources
        .map(|(src, axes)| {
            let tgt = gained.iter().position(|g| *g == axes)?;
            Some(AxisMove { axes, src, tgt })
        })
        .collect()
}

/// One step for two that follow each other, if it is the same collective and costs no more.
fn fuse(request: &Request<'_>, base: &Layout, first: &Step, second: &Step) -> Option<Step> {
    let kind = first.op.kind();
    let fusible = matches!(kind, OpKind::AllGather | OpKind::AllSlice | OpKind::ReduceScatter);
    let same_reduction = match (&first.op, &second.op) {
        (Op::ReduceScatter { kind: a, .. }, Op::ReduceScatter { kind: b, .. }) => a == b,
        _ => true,
    };
    if !fusible || kind != second.op.kind() || !same_reduction {
        return None;
    }
    let fused = step(request, base, &second.out, kind)?;
    (fused.wire_bytes <= first.wire_bytes + second.wire_bytes).then_some(fused)
}
