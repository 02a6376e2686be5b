//! The degrees that layouts chosen operator by operator come to in the heaviest layers.

use crate::schedule::Schedule;
use crate::strategy::Groups;
use shardc_ir::dim::Bindings;
use shardc_ir::graph::{Func, Inst, Module};
use shardc_ir::mesh::AxisRef;
use shardc_ir::ops::Op;
use shardc_ir::types::Kind;

/// Degrees of a phase: `dp · tp · cp · kvp · rep` devices run attention, and `ep · etp · edp` the
/// experts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headline {
    /// Requests of attention.
    pub dp: u64,
    /// Heads.
    pub tp: u64,
    /// New tokens.
    pub cp: u64,
    /// Cached tokens.
    pub kvp: u64,
    /// Copies of attention.
    pub rep: u64,
    /// Experts.
    pub ep: u64,
    /// Width of an expert.
    pub etp: u64,
    /// Copies of the experts.
    pub edp: u64,
}

/// Axes of a headline, by name of the degree.
type Named = Vec<(&'static str, Vec<AxisRef>)>;

/// The headline of a phase, and the axes it is made of.
pub(super) fn headline(module: &Module, schedule: &Schedule) -> (Headline, Groups) {
    let mesh = &schedule.mesh;
    let heaviest = heaviest(module);
    let named = heaviest.map_or(Vec::new(), |func| axes(func, schedule));
    let size = |name: &str| named.iter().find(|n| n.0 == name).map_or(1, |n| mesh.size_of(&n.1));
    let devices = mesh.devices();
    let routed = named.iter().any(|n| n.0 == "ep");
    let [dp, tp, cp, kvp, ep, etp] = ["dp", "tp", "cp", "kvp", "ep", "etp"].map(size);
    let (ep, etp) = if routed { (ep, etp) } else { (1, tp) };
    let copies = |parts: u64| devices / parts.max(1);
    let headline = Headline {
        dp,
        tp,
        cp,
        kvp,
        rep: copies(dp * tp * cp * kvp),
        ep,
        etp,
        edp: copies(ep * etp),
    };
    (headline, Groups { mesh: mesh.clone(), named })
}

/// The layer function whose layers store most weights, the first of equals.
fn heaviest(module: &Module) -> Option<&Func> {
    let none = Bindings::default();
    let mut best: Option<(u64, &Func)> = None;
    for data in module.funcs.values().flat_map(|f| f.insts.values()) {
        let Op::Repeat(repeat) = &data.op else { continue };
        for (name, layers) in repeat.distinct() {
            let Some(id) = module.func(name) else { continue };
            let func = &module.funcs[id];
            let weights = func.params.iter().filter(|&&p| func.ty(p).kind == Kind::Weight);
            let bytes: u64 = weights.map(|&p| func.ty(p).bytes(&none)).fold(0, u64::saturating_add);
            let bytes = bytes.saturating_mul(layers);
            if best.is_none_or(|(most, _)| bytes > most) {
                best = Some((bytes, func));
            }
        }
    }
    best.map(|(_, func)| func)
}

fn axes(func: &Func, schedule: &Schedule) -> Named {
    let first =
        |wanted: fn(&Op) -> bool| func.body.iter().copied().find(|&i| wanted(&func.insts[i].op));
    let mut named = Named::new();
    let mut add = |name, inst: Option<Inst>, dims: &[(usize, usize)]| {
        let axes =
            dims.iter().flat_map(|&at| inst.map_or(Vec::new(), |i| along(func, schedule, i, at)));
        let mut axes: Vec<AxisRef> = axes.collect();
        axes.sort_unstable();
        axes.dedup();
        named.push((name, axes));
    };
    let attention = first(|op| matches!(op, Op::Attention(_)));
    add("dp", attention, &[(0, 0)]);
    add("tp", attention, &[(0, 2), (0, 3)]);
    add("tp_kv", attention, &[(0, 2)]);
    add("tp_group", attention, &[(0, 3)]);
    add("cp", attention, &[(0, 1)]);
    add("kvp", attention, &[(1, 1)]);
    let experts = first(|op| matches!(op, Op::GroupedDot(_)));
    if experts.is_some() {
        add("ep", experts, &[(1, 0)]);
        add("etp", experts, &[(1, 1), (1, 2)]);
    }
    named
}

/// The axes along a dimension of an operand: operand number and dimension.
fn along(
    func: &Func,
    schedule: &Schedule,
    inst: Inst,
    (operand, dim): (usize, usize),
) -> Vec<AxisRef> {
    let rule = func.rule(inst);
    let decided = schedule.funcs.get(&func.name).and_then(|f| f.assignments.get(&inst));
    let (Some(rule), Some(assignment)) = (rule, decided) else { return Vec::new() };
    let factors = rule.operands.get(operand).and_then(|dims| dims.get(dim));
    factors.into_iter().flatten().flat_map(|&f| assignment.axes[f].clone()).collect()
}
