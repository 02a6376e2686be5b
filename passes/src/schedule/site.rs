//! The program for which a schedule is read or written.

use crate::strategy::{Degrees, Facts, Groups};
use shardc_ir::graph::{Func, Inst, Module, Value};
use shardc_ir::mesh::AxisRef;
use shardc_ir::rule::Rule;

/// A model on some devices.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The logical program of prefill.
    pub prefill: &'a Module,
    /// The logical program of decoding.
    pub decode: &'a Module,
    /// Sizes of the model.
    pub facts: &'a Facts,
    /// Devices of a node, and in all.
    pub devices: (u64, u64),
}

/// What a name means in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// A parameter.
    Param(Value),
    /// An operator, by the first value that it computes.
    Operator(Inst),
}

impl Site<'_> {
    /// The mesh and axis groups of degrees.
    pub fn groups(&self, degrees: &Degrees) -> Groups {
        Groups::new(degrees, self.facts, self.devices.0)
    }

    /// Both programs, prefill first.
    pub(super) fn modules(&self) -> [&Module; 2] {
        [self.prefill, self.decode]
    }
}

/// What `name` means in `func`.
pub(super) fn named(func: &Func, name: &str) -> Option<Named> {
    let value = func.value(name)?;
    if func.params.contains(&value) {
        return Some(Named::Param(value));
    }
    let makes = |inst: &&Inst| func.insts[**inst].results.first() == Some(&value);
    func.body.iter().find(makes).map(|&inst| Named::Operator(inst))
}

/// Names that decisions of a function may have.
pub(super) fn names(func: &Func) -> Vec<&str> {
    let firsts = func.body.iter().filter_map(|&i| func.insts[i].results.first());
    let all = func.params.iter().chain(firsts);
    all.map(|&v| func.values[v].name.as_str()).collect()
}

/// The sharding rule of an operator.
pub(super) fn rule_of(func: &Func, inst: Inst) -> Option<Rule> {
    func.rule(inst)
}

/// `gpu0, gpu1:(1)2`: axes as decisions write them.
pub(super) fn show_axes(groups: &Groups, axes: &[AxisRef]) -> String {
    let plain = |a: &AxisRef| groups.mesh.show(*a).to_string().replace('"', "");
    axes.iter().map(plain).collect::<Vec<_>>().join(", ")
}

/// A factor with its size and the dimensions that carry it: `k=4096 (dim 2 of %x, dim 0 of %w)`.
pub(super) fn show_factor(
    module: &Module,
    func: &Func,
    inst: Inst,
    rule: &Rule,
    at: usize,
) -> String {
    let data = &func.insts[inst];
    let mut places = Vec::new();
    let sides = [(&rule.operands, &data.operands), (&rule.results, &data.results)];
    for (dims, values) in sides {
        for (dims, &value) in dims.iter().zip(values.iter()) {
            let carriers = (0..dims.len()).filter(|&d| dims[d].contains(&at));
            places.extend(carriers.map(|d| format!("dim {d} of %{}", func.values[value].name)));
        }
    }
    places.truncate(3);
    let factor = &rule.factors[at];
    format!("{}={} ({})", factor.name, module.show_dim(factor.size), places.join(", "))
}
