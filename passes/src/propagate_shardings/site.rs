//! Where axes spread: each operator with a rule, and each value that crosses into a layer.

use shardc_ir::graph::{FuncId, Inst, InstData, Module, Value};
use shardc_ir::layers::{Interface, Slot};
use shardc_ir::ops::Op;
use shardc_ir::ops::control::Repeat;
use shardc_ir::rule::{DimFactors, FactorId, Rule, RuleBuilder};
use shardc_ir::types::Type;

/// An instruction and the dimensions that share its factors.
pub(super) struct Site {
    /// Where the instruction stands.
    pub(super) func: FuncId,
    pub(super) inst: Inst,
    /// Its factors.
    pub(super) rule: Rule,
    /// Every dimension that carries factors.
    pub(super) spots: Vec<Spot>,
}

/// A dimension of a value.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    pub(super) func: FuncId,
    pub(super) value: Value,
    pub(super) dim: usize,
    /// Its factors, major to minor.
    pub(super) factors: Vec<FactorId>,
}

/// The sites of a module, function by function, in the order of execution.
pub(super) fn sites(module: &Module) -> Vec<Site> {
    let mut out = Vec::new();
    for (func, data) in module.funcs.iter() {
        for &inst in &data.body {
            match &data.insts[inst].op {
                Op::Repeat(repeat) => out.extend(crossings(module, func, inst, repeat)),
                _ => out.extend(operator(module, func, inst)),
            }
        }
    }
    out
}

/// An operator with a rule. Annotations pass layouts on as they are.
fn operator(module: &Module, func: FuncId, inst: Inst) -> Option<Site> {
    let data = &module.funcs[func];
    let InstData { op, operands, results } = &data.insts[inst];
    let (from, to) = (data.operand_types(inst), data.result_types(inst));
    let rule = match op {
        Op::Constraint(_) | Op::ToPartial(_) => identity(from.first()?),
        _ => op.rule(&from, &to)?,
    };
    let values = operands.iter().zip(&rule.operands).chain(results.iter().zip(&rule.results));
    let spots = values.flat_map(|(&value, dims)| spots(func, value, dims, 0)).collect();
    Some(Site { func, inst, rule, spots })
}

/// The dimensions of one value that carry factors; `outer` dimensions stand before them.
fn spots(
    func: FuncId,
    value: Value,
    dims: &DimFactors,
    outer: usize,
) -> impl Iterator<Item = Spot> + '_ {
    dims.iter().enumerate().map(move |(dim, factors)| Spot {
        func,
        value,
        dim: dim + outer,
        factors: factors.clone(),
    })
}

fn identity(ty: &Type) -> Rule {
    let letters: String = ('a'..='z').take(ty.rank()).collect();
    RuleBuilder::new(&[&letters], &[&letters]).sizes(0, &ty.dims).build()
}

/// One site per value that `repeat` hands to its layers and takes back: outside and inside, before
/// and after every layer, it has one layout.
fn crossings(module: &Module, func: FuncId, inst: Inst, repeat: &Repeat) -> Vec<Site> {
    let Ok(interface) = Interface::of(module, repeat) else { return Vec::new() };
    let data = &module.funcs[func].insts[inst];
    let mut groups: Vec<Group> = Vec::new();
    for (slot, &operand) in interface.operands.iter().zip(&data.operands) {
        groups.push(Group { slots: vec![(slot, operand)] });
    }
    for (slot, &result) in interface.results.iter().zip(&data.results) {
        match groups.iter_mut().find(|g| g.hands(module, slot)) {
            Some(group) => group.slots.push((slot, result)),
            None => groups.push(Group { slots: vec![(slot, result)] }),
        }
    }
    groups.iter().filter_map(|group| group.site(module, func, inst)).collect()
}

/// An operand of `repeat` and the result that hands it on.
struct Group<'a> {
    slots: Vec<(&'a Slot, Value)>,
}

impl Group<'_> {
    /// Whether `result` is what the layers make of this operand.
    fn hands(&self, module: &Module, result: &Slot) -> bool {
        let (Some((func, value)), Some((operand, _))) = (result.inner.first(), self.slots.first())
        else {
            return false;
        };
        let layer = &module.funcs[*func];
        let signature = layer.layer_signature();
        let entries = signature.carried.iter().chain(&signature.caches);
        let mut pairs = entries.zip(&layer.returns);
        let entry = pairs.find(|(_, returned)| *returned == value).map(|(entry, _)| *entry);
        let own = operand.inner.iter().find(|(f, _)| f == func).map(|(_, param)| *param);
        entry.is_some() && entry == own
    }

    fn site(&self, module: &Module, func: FuncId, inst: Inst) -> Option<Site> {
        let (first, param) = *self.slots.first()?.0.inner.first()?;
        let rule = identity(module.funcs[first].ty(param));
        let dims = &rule.operands[0];
        let mut all = Vec::new();
        for (slot, outer) in &self.slots {
            all.extend(spots(func, *outer, dims, usize::from(slot.stacked.is_some())));
            for &(layer, inner) in &slot.inner {
                all.extend(spots(layer, inner, dims, 0));
            }
        }
        let fits = |s: &Spot| s.dim < module.funcs[s.func].ty(s.value).rank();
        all.iter().all(fits).then(|| Site { func, inst, spots: all, rule: rule.clone() })
    }
}
