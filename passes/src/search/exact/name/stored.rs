//! Axes of a group's uses: what stored parameters fix first, then what comes with operands, then
//! free ones.

use super::atoms::{Atom, Lists, refs, take};
use super::{Namer, refs_of};
use crate::search::exact::group::GroupId;
use crate::search::exact::pick::Picked;
use shardc_ir::graph::Value;
use shardc_ir::layout::Layout;
use std::collections::BTreeMap;

impl Namer<'_> {
    /// Axes of a group's uses that stored parameters fix.
    pub(super) fn fixed(&self, group: GroupId, picked: &Picked) -> BTreeMap<usize, Vec<Atom>> {
        let unit = &self.flow.units[group];
        let lattice = &self.plane.tables[group].lattice;
        let choice = picked.choices.get(&group).copied().unwrap_or_default();
        let mut out = BTreeMap::new();
        for port in &unit.stored {
            let Some(names) = self.stored.get(&self.key(port.value)) else { continue };
            for (dim, on) in port.dims.iter().enumerate() {
                let Some(on) = *on else { continue };
                if self.counts(&names[dim]) == lattice.of_use(choice, on) {
                    out.insert(on, names[dim].clone());
                }
            }
        }
        out
    }

    pub(super) fn key(&self, value: Value) -> (String, String) {
        (self.flow.func.name.clone(), self.flow.func.values[value].name.clone())
    }

    pub(super) fn counts(&self, atoms: &[Atom]) -> Vec<u8> {
        let inner = atoms.iter().filter(|a| !self.atoms.outer.contains(a));
        let mut counts = vec![0; self.plane.stream.lattice.kinds()];
        inner.for_each(|&a| counts[self.atoms.kind(a)] += 1);
        counts
    }

    /// Gives every use of a group its axes: what is stored first, then what comes with operands, then
    /// free ones.
    pub(super) fn complete(
        &mut self,
        group: GroupId,
        picked: &Picked,
        lists: BTreeMap<usize, Vec<Atom>>,
    ) {
        let unit = &self.flow.units[group];
        let lattice = &self.plane.tables[group].lattice;
        let choice = picked.choices.get(&group).copied().unwrap_or_default();
        let fixed = self.fixed(group, picked);
        let mut free = self.atoms.all();
        free.retain(|a| !fixed.values().any(|l| l.contains(a)));
        let mut out: Vec<Option<Vec<Atom>>> = vec![None; unit.uses.len()];
        for (&on, axes) in &fixed {
            out[on] = Some(axes.clone());
        }
        let mut short: Vec<(usize, Vec<Atom>)> = Vec::new();
        for (&on, axes) in lists.iter().filter(|(on, _)| !fixed.contains_key(on)) {
            let usable = |a: &Atom| free.contains(a) || self.atoms.outer.contains(a);
            let kept: Vec<Atom> = axes.iter().copied().filter(usable).collect();
            self.misfit(kept != *axes);
            free.retain(|a| !kept.contains(a));
            short.push((on, kept));
        }
        for on in
            (0..unit.uses.len()).filter(|on| !fixed.contains_key(on) && !lists.contains_key(on))
        {
            short.push((on, Vec::new()));
        }
        for (on, mut axes) in short {
            if unit.uses[on].requests && !axes.starts_with(&self.atoms.outer) {
                axes = [self.atoms.outer.as_slice(), &axes].concat();
            }
            let have = self.counts(&axes);
            let wanted = lattice.of_use(choice, on);
            let missing: Vec<u8> =
                wanted.iter().zip(have).map(|(w, h)| w.saturating_sub(h)).collect();
            if missing.iter().any(|&n| n > 0) {
                let (other_end, backwards) = self.decide();
                let front = self.is_token(unit.uses[on].class) != other_end;
                let mut more = take(&mut free, &missing, self.atoms, front);
                more.sort_unstable();
                if backwards {
                    more.reverse();
                }
                axes.extend(more);
            }
            out[on] = Some(axes);
        }
        self.settle(group, out.into_iter().map(Option::unwrap_or_default).collect());
    }

    pub(super) fn is_token(&self, class: Option<usize>) -> bool {
        class.is_some() && self.flow.stream.uses.iter().any(|u| u.class == class)
    }

    /// Writes down the axes of a group: assignments, layouts of parameters.
    pub(super) fn settle(&mut self, group: GroupId, lists: Lists) {
        let unit = &self.flow.units[group];
        let axes = refs_of(&lists);
        for &inst in &unit.insts {
            let assignment = unit.assignment(self.flow.func, &self.flow.dims, inst, &axes);
            self.schedule.assignments.insert(inst, assignment);
        }
        for port in &unit.stored {
            let names: Lists =
                port.dims.iter().map(|on| on.map_or(Vec::new(), |on| lists[on].clone())).collect();
            let dims = names.iter().map(|l| refs(l)).collect();
            self.schedule.params.insert(port.value, Layout { dims, unreduced: Vec::new() });
            let key = self.key(port.value);
            self.stored.entry(key).or_insert(names);
        }
        self.named.insert(group, lists);
    }
}
