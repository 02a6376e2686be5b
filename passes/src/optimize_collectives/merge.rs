//! Pairs of collectives in a row, of which nobody else reads the middle.

use super::effect::{after, flat};
use super::{producer, without_unread};
use crate::edits::Edits;
use shardc_ir::attr::AxisList;
use shardc_ir::dim::Dim;
use shardc_ir::graph::{Func, Inst, Value};
use shardc_ir::layout::{Layout, ReduceKind, Sharding, axes, refines};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;
use shardc_ir::ops::collective::{
    AllGather, AllReduce, AllSlice, AllToAll, CollectivePermute, Move, ReduceScatter,
};
use shardc_ir::rewrite::Rewriter;
use std::collections::BTreeSet;

/// One sweep; an edit is a pair.
pub(super) fn merge(func: &Func, mesh: &Mesh, edits: &mut Edits) -> Func {
    let uses = func.uses();
    let mut rewriter = Rewriter::new(func);
    let mut merged: BTreeSet<Inst> = BTreeSet::new();
    for &inst in &func.body {
        let pair = Pair::ending_at(func, mesh, inst)
            .filter(|p| uses[p.middle] == 1 && !merged.contains(&p.first));
        let steps = pair.as_ref().and_then(|p| Some((p, p.steps()?)));
        match steps.filter(|_| edits.grant()) {
            Some((pair, steps)) => {
                pair.replace(&mut rewriter, inst, &steps);
                merged.insert(inst);
            }
            None => {
                rewriter.copy(inst);
            }
        }
    }
    without_unread(&rewriter.finish())
}

/// A collective and the one before it.
struct Pair<'a> {
    mesh: &'a Mesh,
    first: Inst,
    ops: (&'a Op, &'a Op),
    source: Value,
    middle: Value,
    from: &'a Layout,
    to: Layout,
    extents: &'a [Dim],
}

/// A collective and the layout it leaves.
type Step = (Op, Layout);

impl<'a> Pair<'a> {
    fn ending_at(func: &'a Func, mesh: &'a Mesh, inst: Inst) -> Option<Self> {
        let second = &func.insts[inst];
        let middle = *second.operands.first().filter(|_| second.op.is_exchange())?;
        let (first, data) = producer(func, middle).filter(|(_, d)| d.op.is_exchange())?;
        let source = data.operands[0];
        let to = func.layout(second.results[0])?.normalise(mesh);
        let (from, extents) = (func.layout(source)?, &func.ty(source).dims[..]);
        let ops = (&data.op, &second.op);
        Some(Pair { mesh, first, ops, source, middle, from, to, extents })
    }

    /// What the pair becomes; `None` where it stays.
    fn steps(&self) -> Option<Vec<Step>> {
        let ops = self.merged()?;
        if let [Op::CollectivePermute(_)] = ops[..] {
            return Some(ops.into_iter().map(|op| (op, self.to.clone())).collect());
        }
        let mut layout = self.from.normalise(self.mesh);
        let mut steps = Vec::new();
        for op in ops {
            let next = after(&op, &layout, self.mesh)?;
            if !self.nest(&layout, &next) {
                return None;
            }
            steps.push((op, next.clone()));
            layout = next;
        }
        (layout == self.to).then_some(steps)
    }

    /// Whether the parts of both layouts lie inside one another, also where sizes do not divide.
    fn nest(&self, from: &Layout, to: &Layout) -> bool {
        let mut dims = from.dims.iter().zip(&to.dims).zip(self.extents);
        dims.all(|((a, b), extent)| {
            let common = axes::common_prefix(self.mesh, a, b);
            let goes_on = |list| refines(self.mesh, extent.known_factor(), list, &common);
            goes_on(a) && goes_on(b)
        })
    }

    fn merged(&self) -> Option<Vec<Op>> {
        match self.ops {
            (Op::AllGather(a), Op::AllGather(b)) => Some(gather(self.joined(&b.axes, &a.axes))),
            (Op::AllSlice(a), Op::AllSlice(b)) => Some(slice(self.joined(&a.axes, &b.axes))),
            (Op::AllReduce(a), Op::AllReduce(b)) if a.kind == b.kind => {
                Some(reduce(a.kind, [&a.axes.0[..], &b.axes.0].concat()))
            }
            (Op::ReduceScatter(a), Op::ReduceScatter(b)) if a.kind == b.kind => {
                Some(scatter(a.kind, self.joined(&a.axes, &b.axes)))
            }
            (Op::CollectivePermute(_), Op::CollectivePermute(_)) => {
                Some(vec![Op::CollectivePermute(CollectivePermute {})])
            }
            (Op::AllSlice(s), Op::AllGather(g)) => self.undone(&s.axes, &g.axes),
            (Op::AllGather(g), Op::AllSlice(s)) => {
                self.refilled(g, s).or_else(|| self.exchanged(g, s)).or_else(|| self.swapped())
            }
            (Op::AllReduce(r), Op::AllSlice(s)) => self.sliced_sum(r, s).or_else(|| self.swapped()),
            (Op::ReduceScatter(r), Op::AllGather(g)) if r.axes == g.axes => {
                Some(reduce(r.kind, flat(&r.axes)))
            }
            (Op::ReduceScatter(_), Op::AllSlice(_))
            | (Op::AllGather(_), Op::AllReduce(_) | Op::ReduceScatter(_)) => self.swapped(),
            (Op::AllReduce(a), Op::ReduceScatter(b)) if a.kind == b.kind => self.swapped(),
            _ => None,
        }
    }

    /// Two lists per dimension, one after the other.
    fn joined(&self, major: &[AxisList], minor: &[AxisList]) -> Vec<AxisList> {
        let join = |(a, b): (&AxisList, &AxisList)| {
            AxisList(axes::normalise(self.mesh, &[&a.0[..], &b.0].concat()))
        };
        major.iter().zip(minor).map(join).collect()
    }

    fn swapped(&self) -> Option<Vec<Op>> {
        Some(vec![self.ops.1.clone(), self.ops.0.clone()])
    }

    /// A slice whose axes are gathered again, some or all, or more than them.
    fn undone(&self, sliced: &[AxisList], gathered: &[AxisList]) -> Option<Vec<Op>> {
        let rest = |list: &[AxisList], suffix: &[AxisList]| {
            let strip = |(l, s): (&AxisList, &AxisList)| {
                axes::strip_suffix(self.mesh, &l.0, &s.0).map(AxisList)
            };
            list.iter().zip(suffix).map(strip).collect::<Option<Vec<AxisList>>>()
        };
        rest(sliced, gathered).map(slice).or_else(|| rest(gathered, sliced).map(gather))
    }

    /// A gather whose axes are sliced again, some or all, or more than them.
    fn refilled(&self, gathered: &AllGather, sliced: &AllSlice) -> Option<Vec<Op>> {
        let rest = |list: &[AxisList], prefix: &[AxisList]| {
            let strip = |(l, p): (&AxisList, &AxisList)| {
                axes::strip_prefix(self.mesh, &l.0, &p.0).map(AxisList)
            };
            list.iter().zip(prefix).map(strip).collect::<Option<Vec<AxisList>>>()
        };
        let (g, s) = (&gathered.axes, &sliced.axes);
        rest(g, s).map(gather).or_else(|| rest(s, g).map(slice))
    }

    /// A gather of one dimension and a slice of another by the same axes.
    fn exchanged(&self, gathered: &AllGather, sliced: &AllSlice) -> Option<Vec<Op>> {
        let only = |lists: &[AxisList]| {
            let mut full = lists.iter().enumerate().filter(|(_, l)| !l.0.is_empty());
            let one = full.next().map(|(dim, list)| (dim, list.0.clone()));
            one.filter(|_| full.next().is_none())
        };
        let ((src, axes), (tgt, added)) = (only(&gathered.axes)?, only(&sliced.axes)?);
        let moves = vec![Move { axes: axes.clone(), src, tgt }];
        (src != tgt && axes == added).then(|| vec![Op::AllToAll(AllToAll { moves })])
    }

    /// A sum that is sliced: along reduced axes by a scatter, along others beforehand; the rest of
    /// the reduction works on what is left.
    fn sliced_sum(&self, sum: &AllReduce, sliced: &AllSlice) -> Option<Vec<Op>> {
        let (mut scattered, mut before) = (Vec::new(), Vec::new());
        for list in &sliced.axes {
            let along = axes::intersect(self.mesh, &list.0, &sum.axes.0);
            before.push(AxisList(axes::strip_suffix(self.mesh, &list.0, &along)?));
            scattered.push(AxisList(along));
        }
        let done = flat(&scattered);
        if done.is_empty() || !axes::is_subset(self.mesh, &done, &sum.axes.0) {
            return None;
        }
        let rest = axes::subtract(self.mesh, &sum.axes.0, &done);
        let mut ops = if flat(&before).is_empty() { Vec::new() } else { slice(before) };
        ops.extend(scatter(sum.kind, scattered));
        ops.extend(if rest.is_empty() { Vec::new() } else { reduce(sum.kind, rest) });
        Some(ops)
    }

    /// Emits the steps; the last one keeps the name of the result.
    fn replace(&self, rewriter: &mut Rewriter<'_>, inst: Inst, steps: &[Step]) {
        let result = rewriter.old().insts[inst].results[0];
        let data = rewriter.old().values[result].clone();
        let mut value = rewriter.get(self.source);
        for (i, (op, layout)) in steps.iter().enumerate() {
            let last = i + 1 == steps.len();
            let name = &data.name;
            let name = if last { name.clone() } else { format!("{name}.{}", op.info().name) };
            let sharding = Some(Sharding::decided(layout.clone()));
            value = rewriter.emit(&name, op.clone(), vec![value], data.ty.clone(), sharding);
        }
        rewriter.bind(result, value);
    }
}

fn gather(axes: Vec<AxisList>) -> Vec<Op> {
    vec![Op::AllGather(AllGather { axes })]
}

fn slice(axes: Vec<AxisList>) -> Vec<Op> {
    vec![Op::AllSlice(AllSlice { axes })]
}

fn reduce(kind: ReduceKind, mut axes: Vec<AxisRef>) -> Vec<Op> {
    axes.sort_unstable_by_key(|a| (a.axis, a.pre()));
    vec![Op::AllReduce(AllReduce { kind, axes: AxisList(axes) })]
}

fn scatter(kind: ReduceKind, axes: Vec<AxisList>) -> Vec<Op> {
    vec![Op::ReduceScatter(ReduceScatter { kind, axes })]
}
