//! Why a value has its layout, and who uses it otherwise.

use super::{PhaseView, Subject};
use crate::propagate_shardings::{Entry, Origin};
use crate::strategy::megatron::{self, ExpertExchange, Phase};
use shardc_ir::graph::{Def, Func, Value};
use shardc_ir::layout::{Layout, Partial, axes};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;

/// Why a dimension carries an axis, or why a sum is pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What: `dim 0 {gpu0}`, `sum {gpu1}`, or `gpu1` of axes that are not used.
    pub what: String,
    /// Why, in words.
    pub why: String,
}

/// An operator that takes a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Name of the operator.
    pub op: &'static str,
    /// Name of what it computes.
    pub result: String,
    /// The layout in which it takes the value, if it is another one.
    pub moved: Option<Layout>,
}

/// The reasons of the layout that an operator leaves a value in, and of the one that was wanted
/// where that is another: then the value moves.
pub fn reasons(subject: &Subject<'_>, view: &PhaseView, place: (&str, &str)) -> Vec<Reason> {
    let Some(laid) = Laid::of(view, place) else { return Vec::new() };
    let stated = subject.phases.iter().find(|stated| stated.phase == view.phase);
    let scheduled = stated.is_some_and(|stated| stated.schedule.is_some());
    let by = match scheduled {
        true => Some("decided by the schedule".to_string()),
        false => pinned(subject, view.phase, place),
    };
    let mut out = laid.asked(by.as_deref());
    out.extend(laid.left(scheduled));
    out.extend(laid.pending());
    out.extend(laid.unused(by.as_deref()));
    out
}

/// A value with its layout and where the axes of the wanted one came from.
struct Laid<'a> {
    mesh: &'a Mesh,
    func: &'a Func,
    value: Value,
    layout: &'a Layout,
    entries: Vec<&'a Entry>,
}

impl<'a> Laid<'a> {
    fn of(view: &'a PhaseView, (func_name, value_name): (&str, &str)) -> Option<Self> {
        let module = &view.sharded;
        let func = &module.funcs[module.func(func_name)?];
        let value = func.value(value_name)?;
        let layout = func.layout(value)?;
        let of_value =
            |e: &&Entry| e.func == func_name && e.value == value_name && e.dim < layout.dims.len();
        let entries = view.provenance.entries.iter().filter(of_value).collect();
        Some(Laid { mesh: module.mesh.as_ref()?, func, value, layout, entries })
    }

    /// Axes that a pin or a neighbour asked for.
    fn asked(&self, by: Option<&str>) -> Vec<Reason> {
        let reason = |entry: &&Entry| {
            let why = match &entry.origin {
                Origin::Pin => by.unwrap_or("pinned").to_string(),
                Origin::Through { op, factor, from_func, from } => {
                    let place = from_func.as_ref().map_or(String::new(), |f| format!("@{f} "));
                    format!("came from {place}%{from} through `{op}`, factor {factor}")
                }
            };
            let overlaps = |own: &AxisRef| axes::overlap(self.mesh, *own, entry.axis);
            let stands = self.layout.dims[entry.dim].iter().any(overlaps);
            let wanted = if stands { "" } else { "wanted " };
            let axis = plain(self.mesh, &[entry.axis]);
            Reason { what: format!("{wanted}dim {} {{{axis}}}", entry.dim), why }
        };
        self.entries.iter().map(reason).collect()
    }

    /// Axes that stand where nothing asked for them.
    fn left(&self, scheduled: bool) -> Vec<Reason> {
        let reason = |(dim, list): (usize, &Vec<AxisRef>)| {
            let asked = |axis: &AxisRef| {
                let meets = |e: &&Entry| e.dim == dim && axes::overlap(self.mesh, e.axis, *axis);
                self.entries.iter().any(meets)
            };
            let left: Vec<AxisRef> = list.iter().copied().filter(|axis| !asked(axis)).collect();
            let what = format!("dim {dim} {{{}}}", plain(self.mesh, &left));
            let why = || match scheduled {
                true => split_so(self.func, self.value, dim),
                false => left_so(self.func, self.value),
            };
            (!left.is_empty()).then(|| Reason { what, why: why() })
        };
        self.layout.dims.iter().enumerate().filter_map(reason).collect()
    }

    fn pending(&self) -> Vec<Reason> {
        let reason = |partial: &Partial| {
            let (kind, axes) = (partial.kind.name(), plain(self.mesh, &partial.axes));
            let why = pending(self.func, self.value);
            Reason { what: format!("{kind} {{{axes}}} pending"), why }
        };
        self.layout.unreduced.iter().map(reason).collect()
    }

    /// Axes along which devices hold the same, and are to.
    fn unused(&self, by: Option<&str>) -> Option<Reason> {
        let mut free = self.layout.replicated_axes(self.mesh);
        let wanted =
            |axis: AxisRef| self.entries.iter().any(|e| axes::overlap(self.mesh, e.axis, axis));
        free.retain(|axis| !wanted(*axis));
        let what = format!("{{{}}} unused", plain(self.mesh, &free));
        let why = match by {
            Some(by) => format!("{by}, which leaves it out"),
            None => "no pin and no neighbour brings it here".to_string(),
        };
        (!free.is_empty()).then_some(Reason { what, why })
    }
}

fn plain(mesh: &Mesh, axes: &[AxisRef]) -> String {
    let shown: Vec<String> =
        axes.iter().map(|a| mesh.show(*a).to_string().replace('"', "")).collect();
    shown.join(", ")
}

/// Who pinned a value, if anybody did: a row of Megatron's layouts, or else the user or the search.
fn pinned(subject: &Subject<'_>, phase: Phase, (func, value): (&str, &str)) -> Option<String> {
    let module = &subject.phases.iter().find(|stated| stated.phase == phase)?.logical;
    let holder = &module.funcs[module.func(func)?];
    let layout = holder.layout(holder.value(value)?)?;
    for exchange in [ExpertExchange::AllToAll, ExpertExchange::AllGather] {
        let pins = megatron::pins(&subject.groups, phase, exchange);
        let row = pins.iter().rev().find(|pin| pin.matches(func, value));
        if let Some(row) = row.filter(|row| &row.layout == layout) {
            return Some(format!("pinned by the row `{}` of Megatron's layouts", row.pattern));
        }
    }
    Some("pinned by the user or the search".to_string())
}

/// Why a schedule has an axis in a dimension.
fn split_so(func: &Func, value: Value, dim: usize) -> String {
    let Def::Result(inst, at) = func.values[value].def else {
        return "the schedule has it enter so".to_string();
    };
    let op = func.insts[inst].op.info().name;
    let rule = func.rule(inst);
    let factors = rule.as_ref().and_then(|rule| Some((rule, rule.results.get(at)?.get(dim)?)));
    match factors {
        Some((rule, factors)) => {
            let names: Vec<&str> = factors.iter().map(|&f| rule.factors[f].name.as_str()).collect();
            format!("the schedule splits factor {} of `{op}`", names.join(", "))
        }
        None => format!("`{op}` leaves it so"),
    }
}

/// Why an axis stands where nothing asked for it.
fn left_so(func: &Func, value: Value) -> String {
    let Def::Result(inst, _) = func.values[value].def else {
        return "it is handed in so".to_string();
    };
    format!("`{}` leaves it so, as its operands are split", func.insts[inst].op.info().name)
}

/// Why a sum of a value is pending.
fn pending(func: &Func, value: Value) -> String {
    let Def::Result(inst, _) = func.values[value].def else {
        return "it is handed in so".to_string();
    };
    let data = &func.insts[inst];
    let names: Vec<String> =
        data.operands.iter().map(|&v| format!("%{}", func.values[v].name)).collect();
    let from = data.operands.iter().any(|&v| func.layout(v).is_some_and(Layout::is_partial));
    match from {
        true => format!(
            "`{}` is linear and hands on what is pending of {}",
            data.op.info().name,
            names.join(", ")
        ),
        false => format!(
            "`{}` sums over what these axes split of {}",
            data.op.info().name,
            names.join(", ")
        ),
    }
}

/// Who takes a value, and in which layout.
pub fn uses(view: &PhaseView, func_name: &str, value_name: &str) -> Vec<Use> {
    let module = &view.sharded;
    let Some(func) = module.func(func_name).map(|id| &module.funcs[id]) else { return Vec::new() };
    let Some(value) = func.value(value_name) else { return Vec::new() };
    let mut names: Vec<(Value, Option<Layout>)> = vec![(value, None)];
    let mut out = Vec::new();
    for &inst in &func.body {
        let data = &func.insts[inst];
        let taken = names.iter().find(|(v, _)| data.operands.contains(v));
        let Some((_, moved)) = taken.cloned() else { continue };
        let result = data.results.first();
        match (&data.op, result) {
            (Op::Reshard(_), Some(&moved)) => names.push((moved, func.layout(moved).cloned())),
            _ => out.push(Use {
                op: data.op.info().name,
                result: result.map_or(String::new(), |&r| func.values[r].name.clone()),
                moved,
            }),
        }
    }
    out
}
