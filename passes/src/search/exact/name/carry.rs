//! The axes of a bundle along its way.

use super::Namer;
use super::atoms::{Atom, Lists, refs, take};
use crate::search::exact::group::GroupId;
use crate::search::exact::moves::{Bundle, Carried, Move, Role};
use crate::search::exact::pick::{Carry, Origin};
use crate::search::exact::unit::Port;
use shardc_ir::graph::Value;
use shardc_ir::layout::{Layout, Partial, ReduceKind};
use std::collections::BTreeMap;

impl Namer<'_> {
    /// Follows a bundle along its way: the axes of its roles at the end, and for each value the
    /// layouts through which it passes.
    pub(super) fn carry(
        &self,
        carry: &Carry,
        wants: &[Option<Vec<Atom>>],
        reserved: &[Atom],
    ) -> (Lists, BTreeMap<Value, Vec<Layout>>) {
        let bundle = &carry.bundle;
        let mut at = self.begin(carry);
        let mut ways: BTreeMap<Value, Vec<Layout>> = BTreeMap::new();
        let mut last: Vec<Layout> = Vec::new();
        for carried in &bundle.values {
            let before = match (&self.spread, carry.from) {
                (Some((_, ways)), Origin::Spread) => ways.get(&carried.value).cloned(),
                _ => None,
            };
            ways.insert(carried.value, before.unwrap_or_default());
            last.push(self.layout(carry, carried, &at));
        }
        for step in &carry.moves {
            self.apply(bundle, step, &mut at, wants, reserved);
            for (carried, last) in bundle.values.iter().zip(&mut last) {
                let now = self.layout(carry, carried, &at);
                if now != *last {
                    ways.entry(carried.value).or_default().push(now.clone());
                    *last = now;
                }
            }
        }
        (at, ways)
    }

    /// The axes of a bundle's roles where it is made.
    fn begin(&self, carry: &Carry) -> Lists {
        let tokens = |lists: &Lists, class: usize| {
            let at = self.flow.stream.use_of(class);
            at.map_or(Vec::new(), |i| lists[i].clone())
        };
        let of = |role: &Role| match (carry.from, role) {
            (Origin::Stream, Role::Split(class)) => tokens(&self.stream, *class),
            (Origin::Spread, Role::Split(class)) => {
                self.spread.as_ref().map_or(Vec::new(), |s| tokens(&s.0, *class))
            }
            (Origin::Group(group), role) => self.made(group, &carry.bundle, *role),
            (_, Role::Pending) => Vec::new(),
        };
        carry.bundle.roles.iter().map(of).collect()
    }

    fn made(&self, group: GroupId, bundle: &Bundle, role: Role) -> Vec<Atom> {
        let (unit, Some(lists)) = (&self.flow.units[group], self.named.get(&group)) else {
            return Vec::new();
        };
        let in_bundle = |p: &&Port| bundle.values.iter().any(|c| c.value == p.value);
        let ports: Vec<&Port> = unit.outputs.iter().filter(in_bundle).collect();
        match role {
            Role::Split(class) => {
                let split = |on: &usize| ports.iter().any(|p| p.dims.contains(&Some(*on)));
                unit.use_of(class).filter(split).map_or(Vec::new(), |on| lists[on].clone())
            }
            Role::Pending => {
                let mut axes: Vec<Atom> = ports
                    .iter()
                    .take(1)
                    .flat_map(|p| p.pends.iter().flat_map(|&on| lists[on].clone()))
                    .collect();
                axes.sort_unstable();
                axes
            }
        }
    }

    fn layout(&self, carry: &Carry, carried: &Carried, at: &Lists) -> Layout {
        let dims = carried.dims.iter().map(|r| r.map_or(Vec::new(), |r| refs(&at[r]))).collect();
        let pending = carry.bundle.pending().filter(|_| carried.pends).map(|r| at[r].clone());
        let kind = match carry.from {
            Origin::Group(group) => {
                let ports = &self.flow.units[group].outputs;
                ports.iter().find(|p| p.value == carried.value).map(|p| p.kind)
            }
            _ => None,
        };
        let unreduced = pending.filter(|p| !p.is_empty()).map(|mut axes| {
            axes.sort_unstable();
            Partial { kind: kind.unwrap_or(ReduceKind::Sum), axes: refs(&axes) }
        });
        Layout { dims, unreduced: unreduced.into_iter().collect() }.normalise(&self.atoms.mesh)
    }

    /// One step: chooses the axes that move.
    fn apply(
        &self,
        bundle: &Bundle,
        step: &Move,
        at: &mut Lists,
        wants: &[Option<Vec<Atom>>],
        reserved: &[Atom],
    ) {
        let used: Vec<Atom> = at.concat();
        let source: Vec<Atom> = match step.from {
            Some(role) => at[role].clone(),
            None => self.atoms.all().into_iter().filter(|a| !used.contains(a)).collect(),
        };
        let wanted = |role: Option<usize>, atom: &Atom| {
            role.and_then(|r| wants[r].as_ref()).map(|w| w.contains(atom))
        };
        let token = step.to.is_some_and(|r| match bundle.roles[r] {
            Role::Split(class) => self.is_token(Some(class)),
            Role::Pending => false,
        });
        let front = step.from.is_none() && token != self.decide().0;
        let mut order: Vec<(usize, Atom)> = source.iter().copied().enumerate().collect();
        order.sort_by_key(|(i, atom)| {
            let arrives = wanted(step.to, atom).map_or(1, |w| if w { 0 } else { 2 });
            let stays = wanted(step.from, atom).map_or(1, |w| if w { 2 } else { 0 });
            let asked = u8::from(!(step.to.is_none() && reserved.contains(atom)));
            let place = match (step.from, front) {
                (Some(_), _) => source.len() - i,
                (None, true) => *i,
                (None, false) => source.len() - i,
            };
            (arrives, stays, asked, place)
        });
        let mut free: Vec<Atom> = order.iter().map(|o| o.1).collect();
        let chosen = take(&mut free, &step.counts, self.atoms, true);
        let moved: Vec<Atom> = source.iter().copied().filter(|a| chosen.contains(a)).collect();
        if let Some(role) = step.from {
            let pending = bundle.roles[role] == Role::Pending;
            self.misfit(!pending && !at[role].ends_with(&moved));
            at[role].retain(|a| !moved.contains(a));
        }
        if let Some(role) = step.to {
            at[role].extend(moved);
        }
    }
}
