//! Side conditions: which choices of the variables that are still free meet them.

use super::matching::Bindings;
use shardc_ir::algebra::Condition;
use shardc_ir::attr::{AttrField, AttrValue, AxisList};
use shardc_ir::layout::axes;
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::collective::Move;

/// Lists of axes per dimension.
type Lists = Vec<Vec<AxisRef>>;

/// The bindings, with free variables chosen, that meet a condition on attributes. `rank` is the rank
/// of the value in question. Conditions on `f` are left to where it is applied.
pub(super) fn solutions<'r>(
    condition: &'r Condition,
    bound: Bindings<'r>,
    mesh: &Mesh,
    rank: usize,
) -> Vec<Bindings<'r>> {
    let solver = Solver { bound: &bound, mesh, rank };
    let found = match condition {
        Condition::Places { lists, axes } => solver.places(lists, axes),
        Condition::Names { axes, lists } => solver.names(axes, lists),
        Condition::Joins { whole, major, minor } => solver.joins([whole, major, minor]),
        Condition::Unites { whole, first, second } => solver.unites([whole, first, second]),
        Condition::Moves { moves, from, to } => solver.moves(moves, from, to),
        _ => return vec![bound],
    };
    let with = |new: Vec<(&'r str, AttrValue)>| {
        let mut bound = bound.clone();
        bound.attrs.extend(new.into_iter().map(|(name, value)| (name, Some(value))));
        bound
    };
    found.into_iter().map(with).collect()
}

/// What some variables are chosen to be.
type Chosen<'r> = Vec<(&'r str, AttrValue)>;

struct Solver<'b, 'r> {
    bound: &'b Bindings<'r>,
    mesh: &'b Mesh,
    rank: usize,
}

fn axes_value(axes: Vec<AxisRef>) -> AttrValue {
    AttrValue::Axes(axes)
}

fn lists_value(lists: Lists) -> AttrValue {
    AttrValue::List(lists.into_iter().map(axes_value).collect())
}

impl<'r> Solver<'_, 'r> {
    fn axes(&self, name: &str) -> Option<Vec<AxisRef>> {
        match self.bound.attr(name)? {
            AttrValue::Axes(axes) => Some(axes.clone()),
            _ => None,
        }
    }

    fn lists(&self, name: &str) -> Option<Lists> {
        let lists = Vec::<AxisList>::from_value(self.bound.attr(name)).ok()?;
        (!lists.is_empty()).then(|| lists.into_iter().map(|l| l.0).collect())
    }

    fn set(&self, axes: &[AxisRef]) -> Vec<AxisRef> {
        axes::normalise_set(self.mesh, axes)
    }

    fn places(&self, lists: &'r str, axes: &'r str) -> Vec<Chosen<'r>> {
        let Some(all) = self.axes(axes) else { return Vec::new() };
        match self.lists(lists) {
            Some(known) => self.check(self.set(&known.concat()) == self.set(&all)),
            None => {
                let on = |d: usize| {
                    let mut out = vec![Vec::new(); self.rank];
                    out[d].clone_from(&all);
                    vec![(lists, lists_value(out))]
                };
                (0..self.rank).map(on).collect()
            }
        }
    }

    fn check(&self, holds: bool) -> Vec<Chosen<'r>> {
        if holds { vec![Vec::new()] } else { Vec::new() }
    }

    fn names(&self, axes: &'r str, lists: &'r str) -> Vec<Chosen<'r>> {
        let Some(lists) = self.lists(lists) else { return Vec::new() };
        let all = self.set(&lists.concat());
        match self.axes(axes) {
            Some(known) => self.check(self.set(&known) == all),
            None => vec![vec![(axes, axes_value(all))]],
        }
    }

    fn joins(&self, [whole, major, minor]: [&'r str; 3]) -> Vec<Chosen<'r>> {
        match (self.lists(major), self.lists(minor), self.lists(whole)) {
            (Some(a), Some(b), None) => {
                let join = |(a, b): (&Vec<_>, &Vec<_>)| {
                    axes::normalise(self.mesh, &[&a[..], &b[..]].concat())
                };
                vec![vec![(whole, lists_value(a.iter().zip(&b).map(join).collect()))]]
            }
            (None, None, Some(all)) => {
                let cuts = self.cuts(&all).into_iter();
                cuts.map(|(a, b)| vec![(major, lists_value(a)), (minor, lists_value(b))]).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Ways to cut lists in two: after an axis of a dimension, or between dimensions.
    fn cuts(&self, all: &Lists) -> Vec<(Lists, Lists)> {
        let mut out = Vec::new();
        let used: Vec<usize> = (0..all.len()).filter(|&d| !all[d].is_empty()).collect();
        for &d in &used {
            for at in 1..all[d].len() {
                let (mut major, mut minor) = (vec![Vec::new(); all.len()], all.clone());
                major[d] = all[d][..at].to_vec();
                minor[d] = all[d][at..].to_vec();
                out.push((major, minor));
            }
            if used.len() > 1 {
                let (mut major, mut minor) = (vec![Vec::new(); all.len()], all.clone());
                major[d] = std::mem::take(&mut minor[d]);
                out.push((major, minor));
            }
        }
        out
    }

    fn unites(&self, [whole, first, second]: [&'r str; 3]) -> Vec<Chosen<'r>> {
        match (self.axes(first), self.axes(second), self.axes(whole)) {
            (Some(a), Some(b), None) => {
                let apart = a.iter().all(|x| b.iter().all(|y| !axes::overlap(self.mesh, *x, *y)));
                let all = self.set(&[a, b].concat());
                if apart { vec![vec![(whole, axes_value(all))]] } else { Vec::new() }
            }
            (None, None, Some(all)) if all.len() > 1 => {
                let cut = |i: usize| {
                    let rest = all.iter().enumerate().filter(|(j, _)| *j != i);
                    let rest = rest.map(|(_, a)| *a).collect();
                    vec![(first, axes_value(vec![all[i]])), (second, axes_value(rest))]
                };
                (0..all.len()).map(cut).collect()
            }
            _ => Vec::new(),
        }
    }

    fn moves(&self, moves: &'r str, from: &'r str, to: &'r str) -> Vec<Chosen<'r>> {
        let known = Vec::<Move>::from_value(self.bound.attr(moves)).ok();
        let known = known.filter(|m| !m.is_empty());
        match (known, self.lists(from), self.lists(to)) {
            (None, Some(a), Some(b)) => {
                let (Some(src), Some(tgt)) = (only(&a), only(&b)) else { return Vec::new() };
                if src == tgt || a[src] != b[tgt] {
                    return Vec::new();
                }
                let step = Move { axes: a[src].clone(), src, tgt };
                step.to_value()
                    .map(|v| vec![(moves, AttrValue::List(vec![v]))])
                    .into_iter()
                    .collect()
            }
            (Some(known), a, b) => {
                let [step] = &known[..] else { return Vec::new() };
                let on = |d: usize| {
                    let mut lists = vec![Vec::new(); self.rank];
                    if let Some(list) = lists.get_mut(d) {
                        list.clone_from(&step.axes);
                    }
                    lists
                };
                let (source, target) = (on(step.src), on(step.tgt));
                let fits = a.as_ref().is_none_or(|a| *a == source)
                    && b.as_ref().is_none_or(|b| *b == target);
                let mut chosen = Vec::new();
                if a.is_none() {
                    chosen.push((from, lists_value(source)));
                }
                if b.is_none() {
                    chosen.push((to, lists_value(target)));
                }
                if fits { vec![chosen] } else { Vec::new() }
            }
            _ => Vec::new(),
        }
    }
}

/// The one dimension whose list is not empty.
fn only(lists: &Lists) -> Option<usize> {
    let mut full = (0..lists.len()).filter(|&d| !lists[d].is_empty());
    let one = full.next()?;
    full.next().is_none().then_some(one)
}
