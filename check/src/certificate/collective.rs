//! Collectives: they change where a value lies, and never the value.

use super::codes;
use super::place::{Place, Run, as_set, independent, joined, runs_of, show_runs};
use super::refusal::{Outcome, refuse};
use super::uneven::{nests, same_parts};
use shardc_ir::attr::AxisList;
use shardc_ir::certificate::Rule;
use shardc_ir::dim::Dim;
use shardc_ir::layout::ReduceKind;
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::ops::collective::Move;

/// The rule of an operator that moves or completes a value within a stage.
pub(super) fn rule(op: &Op) -> Option<Rule> {
    Some(match op {
        Op::AllGather(_) => Rule::AllGather,
        Op::AllSlice(_) => Rule::AllSlice,
        Op::AllReduce(_) => Rule::AllReduce,
        Op::ReduceScatter(_) => Rule::ReduceScatter,
        Op::AllToAll(_) => Rule::AllToAll,
        Op::CollectivePermute(_) => Rule::CollectivePermute,
        Op::ToPartial(_) => Rule::ToPartial,
        _ => return None,
    })
}

/// A value that moves.
pub(super) struct Moved<'a> {
    pub(super) mesh: &'a Mesh,
    /// Logical extents.
    pub(super) extents: &'a [Dim],
    /// Where it lies.
    pub(super) from: &'a Place,
}

impl Moved<'_> {
    /// Where a collective leaves the value; of a permute, which may leave it in any placement of the
    /// same parts, `said` is where it is said to.
    pub(super) fn after(&self, op: &Op, said: &Place) -> Outcome<Place> {
        match op {
            Op::AllGather(gather) => self.gather(&gather.axes),
            Op::AllSlice(slice) => self.slice(self.from.clone(), &slice.axes),
            Op::AllReduce(reduce) => {
                let runs = runs_of(self.mesh, &reduce.axes.0)?;
                self.complete(reduce.kind, &runs)
            }
            Op::ReduceScatter(scatter) => {
                let all = scatter.axes.iter().flat_map(|list| list.0.iter().copied());
                let runs = runs_of(self.mesh, &all.collect::<Vec<_>>())?;
                self.slice(self.complete(scatter.kind, &runs)?, &scatter.axes)
            }
            Op::AllToAll(exchange) => self.exchange(&exchange.moves),
            Op::CollectivePermute(_) => self.permute(said),
            Op::ToPartial(to) => self.to_partial(&runs_of(self.mesh, &to.axes.0)?),
            _ => refuse(codes::COLLECTIVE, "is no collective"),
        }
    }

    /// The runs of one list per dimension.
    fn lists(&self, lists: &[AxisList]) -> Outcome<Vec<Vec<Run>>> {
        if lists.len() != self.from.dims.len() {
            return refuse(codes::COLLECTIVE, "has not one list of axes per dimension");
        }
        let mut out = Vec::with_capacity(lists.len());
        for list in lists {
            out.push(joined(&runs_of(self.mesh, &list.0)?));
        }
        let all: Vec<Run> = out.iter().flatten().copied().collect();
        if all.is_empty() {
            return refuse(codes::COLLECTIVE, "names no axes");
        }
        independent(self.mesh, &all)?;
        Ok(out)
    }

    fn gather(&self, axes: &[AxisList]) -> Outcome<Place> {
        let mut out = self.from.clone();
        for (dim, runs) in self.lists(axes)?.iter().enumerate() {
            out.dims[dim] = self.without_minor(dim, runs)?;
        }
        Ok(out)
    }

    /// The runs of a dimension without those at its minor end, which its parts must fill.
    fn without_minor(&self, dim: usize, taken: &[Run]) -> Outcome<Vec<Run>> {
        let mut left = self.from.dims[dim].clone();
        for run in taken.iter().rev() {
            let Some(last) = left.pop() else { return self.not_at_end(dim, taken) };
            let fits = last.axis == run.axis
                && last.to == run.to
                && last.from <= run.from
                && run.from.is_multiple_of(last.from);
            if !fits {
                return self.not_at_end(dim, taken);
            }
            if last.from < run.from {
                left.push(Run { to: run.from, ..last });
            }
        }
        self.nested(dim, &self.from.dims[dim], &left)?;
        Ok(left)
    }

    fn not_at_end<T>(&self, dim: usize, taken: &[Run]) -> Outcome<T> {
        let taken = show_runs(self.mesh, taken);
        let message = format!("takes {taken} from dimension {dim}, which does not end in them");
        refuse(codes::COLLECTIVE, message)
    }

    fn nested(&self, dim: usize, fine: &[Run], coarse: &[Run]) -> Outcome {
        match nests(fine, coarse, self.extents[dim]) {
            true => Ok(()),
            false => {
                let (fine, coarse) = (show_runs(self.mesh, fine), show_runs(self.mesh, coarse));
                let message = format!(
                    "goes between {fine} and {coarse} in dimension {dim}, whose parts do not nest"
                );
                refuse(codes::COLLECTIVE, message)
            }
        }
    }

    fn slice(&self, place: Place, axes: &[AxisList]) -> Outcome<Place> {
        let lists = self.lists(axes)?;
        self.with_minor(place, &lists)
    }

    /// A placement with runs joined to the minor ends of dimensions; all were free.
    fn with_minor(&self, mut place: Place, lists: &[Vec<Run>]) -> Outcome<Place> {
        for (dim, runs) in lists.iter().enumerate().filter(|(_, runs)| !runs.is_empty()) {
            let before = place.dims[dim].clone();
            let all: Vec<Run> = before.iter().chain(runs).copied().collect();
            place.dims[dim] = joined(&all);
            self.nested(dim, &place.dims[dim], &before)?;
        }
        independent(self.mesh, &place.used())?;
        Ok(place)
    }

    /// The placement with a reduction done along `done`.
    fn complete(&self, kind: ReduceKind, done: &[Run]) -> Outcome<Place> {
        let named = kind.name();
        let mut left = match &self.from.pending {
            Some((pending, runs)) if *pending == kind => runs.clone(),
            _ => return refuse(codes::COLLECTIVE, format!("no {named} pends")),
        };
        if done.is_empty() {
            return refuse(codes::COLLECTIVE, "names no axes");
        }
        for run in as_set(done) {
            let inside = |r: &Run| {
                r.axis == run.axis
                    && r.from <= run.from
                    && run.to <= r.to
                    && run.from.is_multiple_of(r.from)
                    && r.to.is_multiple_of(run.to)
            };
            let Some(at) = left.iter().position(inside) else {
                let message = format!("no {named} pends along {}", run.show(self.mesh));
                return refuse(codes::COLLECTIVE, message);
            };
            let whole = left.remove(at);
            let rest = [Run { to: run.from, ..whole }, Run { from: run.to, ..whole }];
            left.extend(rest.into_iter().filter(|r| r.from < r.to));
        }
        let left = as_set(&left);
        let pending = (!left.is_empty()).then_some((kind, left));
        Ok(Place { dims: self.from.dims.clone(), pending })
    }

    fn exchange(&self, moves: &[Move]) -> Outcome<Place> {
        let rank = self.from.dims.len();
        let mut out = self.from.clone();
        let mut joins = vec![Vec::new(); rank];
        let mut touched = vec![false; rank];
        for step in moves {
            for dim in [step.src, step.tgt] {
                if dim >= rank || std::mem::replace(&mut touched[dim], true) {
                    return refuse(
                        codes::COLLECTIVE,
                        format!("moves dimension {dim} twice, or has none"),
                    );
                }
            }
            let runs = joined(&runs_of(self.mesh, &step.axes)?);
            out.dims[step.src] = self.without_minor(step.src, &runs)?;
            joins[step.tgt] = runs;
        }
        if joins.iter().all(Vec::is_empty) {
            return refuse(codes::COLLECTIVE, "moves nothing");
        }
        self.with_minor(out, &joins)
    }

    fn permute(&self, said: &Place) -> Outcome<Place> {
        if said.pending != self.from.pending || said.dims.len() != self.from.dims.len() {
            return refuse(codes::COLLECTIVE, "changes what pends, or the dimensions");
        }
        for (dim, &extent) in self.extents.iter().enumerate() {
            if !same_parts(&self.from.dims[dim], &said.dims[dim], extent) {
                let message = format!("cuts dimension {dim} into other parts");
                return refuse(codes::COLLECTIVE, message);
            }
        }
        Ok(said.clone())
    }

    fn to_partial(&self, added: &[Run]) -> Outcome<Place> {
        let mut out = self.from.clone();
        let (kind, mut runs) = out.pending.take().unwrap_or((ReduceKind::Sum, Vec::new()));
        if kind != ReduceKind::Sum || added.is_empty() {
            return refuse(codes::COLLECTIVE, "makes no partial sum");
        }
        let used = self.from.used();
        independent(self.mesh, &[&used[..], added].concat())?;
        runs.extend(added);
        out.pending = Some((kind, as_set(&runs)));
        Ok(out)
    }
}
