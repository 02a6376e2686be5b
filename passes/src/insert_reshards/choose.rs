//! Which assignment an operator takes, and in which layouts it takes its operands.
//!
//! The layouts around the operator are offered to its factors in several orders of precedence; each
//! order gives an assignment, and each assignment some ways to treat partial operands. The one that
//! moves fewest bytes wins, the first among equals.

use super::feed::Around;
use super::mover::Costs;
use crate::offers::Offers;
use shardc_ir::flow::{self, Assignment, Side};
use shardc_ir::layout::{Layout, Partial, ReduceKind, axes};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::rule::{PartialRule, Rule};
use shardc_ir::types::Type;

/// An assignment, and the layouts in which operands are fed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) assignment: Assignment,
    pub(super) targets: Vec<Layout>,
}

/// Bytes that a choice moves, in the order in which they count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Moved {
    /// Of weights and caches.
    stored: u64,
    /// In all.
    total: u64,
}

/// The layouts around one operator.
pub(super) struct Chooser<'a> {
    pub(super) rule: &'a Rule,
    pub(super) mesh: &'a Mesh,
    /// Types and present layouts.
    pub(super) operands: Vec<(Type, Layout)>,
    /// Types and layouts wanted.
    pub(super) results: Vec<(Type, Layout)>,
    pub(super) look: Around,
}

impl Chooser<'_> {
    /// The choice that moves least.
    pub(super) fn choose(&self, costs: &mut Costs<'_>) -> Choice {
        let mut choices = Vec::new();
        for assignment in self.assignments() {
            for pending in self.ways(&assignment) {
                let targets = self.targets(&assignment, &pending);
                let choice = Choice { assignment: assignment.clone(), targets };
                if !choices.contains(&choice) {
                    choices.push(choice);
                }
            }
        }
        if choices.len() > 1 {
            choices.sort_by_cached_key(|choice| self.moved(choice, costs));
        }
        choices.swap_remove(0)
    }

    /// Assignments by precedence: what is stored, results, then the rest, and each operand first.
    fn assignments(&self) -> Vec<Assignment> {
        let operands: Vec<Side> = (0..self.operands.len()).map(Side::Operand).collect();
        let results: Vec<Side> = (0..self.results.len()).map(Side::Result).collect();
        let stored = |s: &Side| matches!(s, Side::Operand(i) if self.is_stored(*i));
        let (kept, fed): (Vec<Side>, Vec<Side>) = operands.iter().partition(|s| stored(s));
        let mut orders = vec![
            [&kept[..], &results, &fed].concat(),
            [&results[..], &kept, &fed].concat(),
            [&kept[..], &fed, &results].concat(),
        ];
        for &first in &fed {
            let rest = |list: &[Side]| list.iter().copied().filter(|s| *s != first).collect();
            let (kept, results, fed): (Vec<_>, Vec<_>, Vec<_>) =
                (rest(&kept), rest(&results), rest(&fed));
            orders.push([&[first][..], &kept, &results, &fed].concat());
        }
        let mut out: Vec<Assignment> = Vec::new();
        for order in orders {
            let assignment = self.assignment(&order);
            if !out.contains(&assignment) {
                out.push(assignment);
            }
        }
        out
    }

    fn is_stored(&self, operand: usize) -> bool {
        self.operands[operand].0.kind.is_stored()
    }

    fn assignment(&self, order: &[Side]) -> Assignment {
        let mut offers = Offers::new(self.rule, self.mesh);
        for &side in order {
            let (dims, layout) = match side {
                Side::Operand(i) => (&self.rule.operands[i], &self.operands[i].1),
                Side::Result(i) => (&self.rule.results[i], &self.results[i].1),
            };
            if matches!(side, Side::Result(_)) {
                offers.reduce(layout);
            }
            offers.offer(dims, layout);
        }
        offers.assignment
    }

    /// Per way, what may still pend on each operand: late ways first.
    fn ways(&self, assignment: &Assignment) -> Vec<Vec<Vec<Partial>>> {
        let nothing = vec![Vec::new(); self.operands.len()];
        let mut ways = match &self.rule.partial {
            PartialRule::Complete => Vec::new(),
            PartialRule::OneOf(linear) => {
                let one = |&i: &usize| self.one_passes(assignment, i);
                linear.iter().filter_map(one).collect()
            }
            PartialRule::AllAlike => self.all_pass(assignment),
        };
        ways.push(nothing);
        ways
    }

    /// Operand `i` stays partial, unless it is completed for somebody else anyway.
    fn one_passes(&self, assignment: &Assignment, i: usize) -> Option<Vec<Vec<Partial>>> {
        let (_, layout) = self.operands.get(i)?;
        let split = |a: &AxisRef| overlaps(self.mesh, *a, &assignment.axes.concat());
        let sums = layout.unreduced.iter().all(|p| p.kind == ReduceKind::Sum);
        let free = !layout.unreduced_axes().iter().any(split);
        let anyway = self.look.completed_anyway.get(i).copied().unwrap_or(false);
        if !layout.is_partial() || !sums || !free || anyway {
            return None;
        }
        let mut way = vec![Vec::new(); self.operands.len()];
        way[i].clone_from(&layout.unreduced);
        Some(way)
    }

    /// All operands stay partial along the axes along which all pend; or, where the result joins a
    /// partial sum, complete ones become partial so that one reduction serves all.
    fn all_pass(&self, assignment: &Assignment) -> Vec<Vec<Vec<Partial>>> {
        let split = assignment.axes.concat();
        let pending = |layout: &Layout| {
            let only_sums = layout.unreduced.iter().all(|p| p.kind == ReduceKind::Sum);
            let sums = if only_sums { layout.pending(ReduceKind::Sum) } else { Vec::new() };
            axes::subtract(self.mesh, &sums, &split)
        };
        let all: Vec<Vec<AxisRef>> = self.operands.iter().map(|(_, l)| pending(l)).collect();
        let meet = |a: Vec<AxisRef>, b: &Vec<AxisRef>| axes::intersect(self.mesh, &a, b);
        let common = all.iter().skip(1).fold(all[0].clone(), meet);
        let partial: Vec<&Vec<AxisRef>> = all.iter().filter(|a| !a.is_empty()).collect();
        let joined = partial.into_iter().fold(self.look.joins.clone(), meet);
        let anyway = self.look.completed_anyway.iter().any(|a| *a);
        let alike = |axes: &Vec<AxisRef>| {
            let axes = axes::normalise_set(self.mesh, axes);
            vec![vec![Partial { kind: ReduceKind::Sum, axes }]; self.operands.len()]
        };
        let joins = all.iter().any(Vec::is_empty) && all.iter().any(|a| !a.is_empty()) && !anyway;
        let ways = [(common, !anyway), (joined, joins)];
        ways.iter()
            .filter(|(axes, fits)| *fits && !axes.is_empty())
            .map(|(a, _)| alike(a))
            .collect()
    }

    fn targets(&self, assignment: &Assignment, pending: &[Vec<Partial>]) -> Vec<Layout> {
        let target = |(i, unreduced): (usize, &Vec<Partial>)| {
            let layout = flow::operand_layout(self.rule, assignment, i);
            Layout { unreduced: unreduced.clone(), ..layout }.normalise(self.mesh)
        };
        pending.iter().enumerate().map(target).collect()
    }

    fn moved(&self, choice: &Choice, costs: &mut Costs<'_>) -> Moved {
        let mut moved = Moved::default();
        let layouts: Vec<&Layout> = choice.targets.iter().collect();
        let passed = flow::passed_partials(self.rule, self.mesh, &choice.assignment, &layouts);
        let passed = passed.unwrap_or_default();
        for (i, ((ty, now), target)) in self.operands.iter().zip(&choice.targets).enumerate() {
            let bytes = costs.bytes(ty, now, &self.completed(i, now, target));
            moved.total = moved.total.saturating_add(bytes);
            if self.is_stored(i) {
                moved.stored = moved.stored.saturating_add(bytes);
            }
        }
        let joins = !self.look.joins.is_empty();
        for (i, (ty, wanted)) in self.results.iter().enumerate() {
            let leaves = flow::result_layout(self.rule, &choice.assignment, i, &passed);
            let leaves = leaves.normalise(self.mesh);
            let late = joins && !passed.is_empty() && leaves.dims == wanted.dims;
            let bytes = if late { 0 } else { costs.bytes(ty, &leaves, wanted) };
            moved.total = moved.total.saturating_add(bytes);
        }
        moved
    }

    /// What an operand is moved to, as far as it costs: making a complete value partial is free, and
    /// so is completing one that is completed anyway.
    fn completed(&self, i: usize, now: &Layout, target: &Layout) -> Layout {
        let anyway = self.look.completed_anyway.get(i).copied().unwrap_or(false);
        let pending = axes::subtract(self.mesh, &target.unreduced_axes(), &now.unreduced_axes());
        let target = target.clone().without_pending(self.mesh, &pending);
        match anyway && !target.is_partial() && target.dims == now.dims {
            true => now.clone(),
            false => target,
        }
    }
}

fn overlaps(mesh: &Mesh, axis: AxisRef, list: &[AxisRef]) -> bool {
    list.iter().any(|&other| axes::overlap(mesh, axis, other))
}
