//! The six steps a reshard is made of: what each does to a layout, and the bytes it moves.

use shardc_ir::layout::{Layout, ReduceKind, axes};
use shardc_ir::mesh::{AxisRef, Mesh};

/// Which collective a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpKind {
    /// Devices collect each other's parts of a dimension.
    AllGather,
    /// Each device keeps a part of what it holds; nothing is sent.
    AllSlice,
    /// Devices exchange parts of one dimension for parts of another.
    AllToAll,
    /// Each device sends its whole part to one other device.
    CollectivePermute,
    /// Partial values are completed, and each device keeps a part.
    ReduceScatter,
    /// Partial values are completed everywhere.
    AllReduce,
}

/// Axes that an [`Op::AllToAll`] moves from the minor end of one dimension to that of another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AxisMove {
    /// The axes, major first.
    pub axes: Vec<AxisRef>,
    /// Dimension that they split before.
    pub src: usize,
    /// Dimension that they split after.
    pub tgt: usize,
}

/// One step with its arguments; lists per dimension have one entry per dimension of the tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Removes the axes from the minor end of each dimension.
    AllGather {
        /// Axes per dimension.
        axes: Vec<Vec<AxisRef>>,
    },
    /// Appends the axes, which replicate the value before, to the minor end of each dimension.
    AllSlice {
        /// Axes per dimension.
        axes: Vec<Vec<AxisRef>>,
    },
    /// Moves axes between dimensions, each of which takes part in at most one move.
    AllToAll {
        /// The moves.
        moves: Vec<AxisMove>,
    },
    /// Assigns other axes, with as many parts per dimension as before.
    CollectivePermute,
    /// Completes pending axes and appends them to the minor end of each dimension.
    ReduceScatter {
        /// The reduction that is completed.
        kind: ReduceKind,
        /// Axes per dimension.
        axes: Vec<Vec<AxisRef>>,
    },
    /// Completes pending axes.
    AllReduce {
        /// The reduction that is completed.
        kind: ReduceKind,
        /// The axes.
        axes: Vec<AxisRef>,
    },
}

impl OpKind {
    /// Name in texts and JSON.
    pub fn name(self) -> &'static str {
        match self {
            OpKind::AllGather => "all_gather",
            OpKind::AllSlice => "all_slice",
            OpKind::AllToAll => "all_to_all",
            OpKind::CollectivePermute => "collective_permute",
            OpKind::ReduceScatter => "reduce_scatter",
            OpKind::AllReduce => "all_reduce",
        }
    }

    /// Bytes that each device sends in a ring over `group` devices, rounded up, given the padded
    /// local bytes `before` and `after` the step.
    pub fn wire_bytes(self, before: u64, after: u64, group: u64) -> u64 {
        let share = |bytes: u64| {
            let sent = u128::from(bytes) * u128::from(group.saturating_sub(1));
            u64::try_from(sent.div_ceil(u128::from(group.max(1)))).unwrap_or(u64::MAX)
        };
        match self {
            OpKind::AllGather => before.saturating_mul(group.saturating_sub(1)),
            OpKind::ReduceScatter => after.saturating_mul(group.saturating_sub(1)),
            OpKind::AllReduce => share(before.saturating_mul(2)),
            OpKind::AllToAll => share(before.max(after)),
            OpKind::CollectivePermute => before,
            OpKind::AllSlice => 0,
        }
    }
}

impl Op {
    /// Which collective this is.
    pub fn kind(&self) -> OpKind {
        match self {
            Op::AllGather { .. } => OpKind::AllGather,
            Op::AllSlice { .. } => OpKind::AllSlice,
            Op::AllToAll { .. } => OpKind::AllToAll,
            Op::CollectivePermute => OpKind::CollectivePermute,
            Op::ReduceScatter { .. } => OpKind::ReduceScatter,
            Op::AllReduce { .. } => OpKind::AllReduce,
        }
    }

    /// The axes whose devices communicate; none for a permute, which names its devices singly.
    pub fn group_axes(&self) -> Vec<AxisRef> {
        match self {
            Op::AllGather { axes } | Op::AllSlice { axes } | Op::ReduceScatter { axes, .. } => {
                axes.concat()
            }
            Op::AllToAll { moves } => moves.iter().flat_map(|m| &m.axes).copied().collect(),
            Op::AllReduce { axes, .. } => axes.clone(),
            Op::CollectivePermute => Vec::new(),
        }
    }

    /// Shows the step as `all_to_all [{"x"}: 2->1]`, `all_gather [{"y"}, {}]`, `all_reduce sum {"z"}`.
    pub fn show(&self, mesh: &Mesh) -> String {
        let set = |axes: &[AxisRef]| {
            let names: Vec<String> = axes.iter().map(|&a| mesh.show(a).to_string()).collect();
            format!("{{{}}}", names.join(", "))
        };
        let list = |axes: &[Vec<AxisRef>]| {
            let dims: Vec<String> = axes.iter().map(|a| set(a)).collect();
            format!("[{}]", dims.join(", "))
        };
        let name = self.kind().name();
        match self {
            Op::AllGather { axes } | Op::AllSlice { axes } => format!("{name} {}", list(axes)),
            Op::AllToAll { moves } => {
                let show = |m: &AxisMove| format!("{}: {}->{}", set(&m.axes), m.src, m.tgt);
                let moves: Vec<String> = moves.iter().map(show).collect();
                format!("{name} [{}]", moves.join(", "))
            }
            Op::CollectivePermute => name.to_string(),
            Op::ReduceScatter { kind, axes } => format!("{name} {} {}", kind.name(), list(axes)),
            Op::AllReduce { kind, axes } => format!("{name} {} {}", kind.name(), set(axes)),
        }
    }

    /// The layout after the step, in normal form, or `None` where the step does not apply.
    ///
    /// A permute's result is not implied by its arguments; it yields `None`.
    pub fn apply(&self, mesh: &Mesh, layout: &Layout) -> Option<Layout> {
        match self {
            Op::AllGather { axes } => gather(mesh, layout, axes),
            Op::AllSlice { axes } => slice(mesh, layout.clone(), axes),
            Op::AllToAll { moves } => exchange(mesh, layout, moves),
            Op::CollectivePermute => None,
            Op::ReduceScatter { kind, axes } => {
                slice(mesh, complete(mesh, layout, *kind, &axes.concat())?, axes)
            }
            Op::AllReduce { kind, axes } => complete(mesh, layout, *kind, axes),
        }
    }
}

fn gather(mesh: &Mesh, layout: &Layout, removed: &[Vec<AxisRef>]) -> Option<Layout> {
    if removed.len() != layout.dims.len() {
        return None;
    }
    let strip = |(dim, gone): (&Vec<AxisRef>, &Vec<AxisRef>)| axes::strip_suffix(mesh, dim, gone);
    let dims = layout.dims.iter().zip(removed).map(strip).collect::<Option<Vec<_>>>()?;
    Some(Layout { dims, unreduced: layout.unreduced.clone() }.normalise(mesh))
}

fn slice(mesh: &Mesh, layout: Layout, added: &[Vec<AxisRef>]) -> Option<Layout> {
    let out = added.iter().enumerate().fold(layout, |l, (dim, axes)| l.append(mesh, dim, axes));
    out.check(mesh, added.len()).is_ok().then(|| out.normalise(mesh))
}

fn exchange(mesh: &Mesh, layout: &Layout, moves: &[AxisMove]) -> Option<Layout> {
    let mut touched = vec![false; layout.dims.len()];
    let mut removed = vec![Vec::new(); layout.dims.len()];
    let mut added = removed.clone();
    for m in moves {
        for dim in [m.src, m.tgt] {
            if std::mem::replace(touched.get_mut(dim)?, true) {
                return None;
            }
        }
        removed[m.src].clone_from(&m.axes);
        added[m.tgt].clone_from(&m.axes);
    }
    slice(mesh, gather(mesh, layout, &removed)?, &added)
}

/// Completes `done`, which must be the innermost pending kind.
fn complete(mesh: &Mesh, layout: &Layout, kind: ReduceKind, done: &[AxisRef]) -> Option<Layout> {
    let layout = layout.normalise(mesh);
    let first = layout.unreduced.first().filter(|p| p.kind == kind)?;
    let left = axes::subtract(mesh, done, &first.axes);
    left.is_empty().then(|| layout.without_pending(mesh, done).normalise(mesh))
}
