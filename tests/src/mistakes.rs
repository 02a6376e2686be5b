//! Mistakes that passes make, here or elsewhere, planted in programs.

use crate::random::Random;
use shardc_ir::attr::{AxisList, F64};
use shardc_ir::dim::Dim;
use shardc_ir::graph::{Def, Func, FuncId, Inst, Module, Value};
use shardc_ir::layout::{Partial, ReduceKind};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;

/// A mistake at an instruction; whether there is one to make.
type Local = fn(&Mesh, &mut Func, Inst) -> bool;

/// A mistake in a program at an instruction; whether there is one to make.
#[derive(Clone, Copy, Debug)]
pub enum Mistake {
    /// In one function.
    Local(Local),
    /// In the whole program.
    Global(fn(&mut Module, FuncId, Inst) -> bool),
}

impl Mistake {
    /// Makes the mistake at an instruction; whether there was one to make.
    pub fn make(self, module: &mut Module, func: FuncId, inst: Inst) -> bool {
        let mesh = module.mesh.clone().unwrap_or(Mesh::new("none", []));
        match self {
            Mistake::Local(make) => make(&mesh, &mut module.funcs[func], inst),
            Mistake::Global(make) => make(module, func, inst),
        }
    }

    /// The program with the mistake somewhere, and where.
    pub fn anywhere(self, module: &Module, random: &mut Random) -> Option<(String, Module)> {
        let funcs = module.funcs.iter();
        let mut sites: Vec<(FuncId, Inst)> =
            funcs.flat_map(|(id, f)| f.body.iter().map(move |&inst| (id, inst))).collect();
        while !sites.is_empty() {
            let (func, inst) = sites.swap_remove(random.below(sites.len()));
            let mut wrong = module.clone();
            let place = place(&wrong.funcs[func], inst);
            if self.make(&mut wrong, func, inst) && wrong != *module {
                return Some((place, wrong));
            }
        }
        None
    }
}

/// `@layer/attn.q`.
pub fn place(func: &Func, inst: Inst) -> String {
    let name = func.insts[inst].results.first().map(|&v| func.values[v].name.clone());
    format!("@{}/{}", func.name, name.unwrap_or_default())
}

/// Wrong rewrites, by name: each shows in any program that it fits.
pub const REWRITES: [(&str, Mistake); 14] = [
    (
        "a step among devices is left out",
        Mistake::Local(|_, f, i| is_step(&f.insts[i].op) && bypass(f, i)),
    ),
    ("a sum that pends is called complete", Mistake::Local(call_complete)),
    (
        "a sum is not reduced and called complete",
        Mistake::Local(|m, f, i| {
            let operand = f.insts[i].operands.first().copied();
            matches!(f.insts[i].op, Op::AllReduce(_))
                && operand.is_some_and(|v| strip_pending(f, v))
                && call_same_everywhere(m, f, i)
                && bypass(f, i)
        }),
    ),
    ("a sum is reduced twice", Mistake::Local(twice)),
    (
        "one axis of several is left out",
        Mistake::Local(|_, f, i| axes_of(f, i, |axes| axes.len() > 1 && axes.pop().is_some())),
    ),
    (
        "axes stand in another order",
        Mistake::Local(|_, f, i| {
            !matches!(f.insts[i].op, Op::AllReduce(_))
                && axes_of(f, i, |axes| {
                    axes.len() > 1 && {
                        axes.reverse();
                        true
                    }
                })
        }),
    ),
    ("another axis of the same size is used", Mistake::Local(other_axis)),
    ("dimensions are exchanged", Mistake::Local(other_dims)),
    (
        "a slice begins one off",
        Mistake::Local(|_, f, i| match &mut f.insts[i].op {
            Op::Slice(s) if s.lo > 0 => {
                (s.lo, s.hi) = (s.lo - 1, s.hi - 1);
                true
            }
            Op::Slice(s) => {
                (s.lo, s.hi) = (s.lo + 1, s.hi + 1);
                true
            }
            _ => false,
        }),
    ),
    ("an operator is left out", Mistake::Local(|_, f, i| !is_step(&f.insts[i].op) && bypass(f, i))),
    ("an operand is another of its type", Mistake::Local(|_, f, i| other_operand(f, i, 0))),
    (
        "the last operand is another of its type",
        Mistake::Local(|_, f, i| {
            let last = f.insts[i].operands.len().saturating_sub(1);
            last > 0 && other_operand(f, i, last)
        }),
    ),
    ("a constant is another", Mistake::Local(other_constant)),
    (
        "a layout has its axes in another order",
        Mistake::Local(|_, f, i| {
            let Some(&result) = f.insts[i].results.first() else { return false };
            let Some(sharding) = &mut f.values[result].sharding else { return false };
            let mut lists = sharding.layout.dims.iter_mut().filter(|axes| axes.len() > 1);
            lists.next().map(|axes| axes.reverse()).is_some()
        }),
    ),
];

/// More mistakes, by name; some change nothing in some programs.
pub const MORE: [(&str, Mistake); 10] = [
    ("a rank takes another part", Mistake::Local(other_part)),
    ("a reduction is of another kind", Mistake::Local(other_kind)),
    ("a shared value is added on every rank", Mistake::Local(shared_everywhere)),
    ("two operands are exchanged", Mistake::Local(exchange)),
    ("heads or other equal extents are exchanged", Mistake::Local(other_letters)),
    (
        "weights of experts are normalised otherwise",
        Mistake::Local(|_, f, i| match &mut f.insts[i].op {
            Op::Router(router) => {
                router.normalise = !router.normalise;
                true
            }
            _ => false,
        }),
    ),
    (
        "a sum of experts is scaled otherwise",
        Mistake::Local(|_, f, i| match &mut f.insts[i].op {
            Op::Router(router) => {
                router.scale = Some(F64(router.scale.map_or(1.0, |s| s.0) * 2.0));
                true
            }
            _ => false,
        }),
    ),
    ("layers are in another order", Mistake::Local(other_order)),
    (
        "one layer runs less",
        Mistake::Local(|_, f, i| match &mut f.insts[i].op {
            Op::Repeat(repeat) => {
                let run = repeat.layers.iter_mut().find(|run| run.trips > 1);
                run.map(|run| run.trips -= 1).is_some()
            }
            _ => false,
        }),
    ),
    ("padding of the vocabulary counts", Mistake::Global(pad_vocabulary)),
];

/// Whether an operator places a value, or moves or completes it among devices.
pub(crate) fn is_step(op: &Op) -> bool {
    op.is_exchange() || matches!(op, Op::ToPartial(_))
}

/// Lets everybody read the first operand instead of the result, if both have one type; reading a
/// cache is not worth leaving out, as it does nothing.
fn bypass(func: &mut Func, inst: Inst) -> bool {
    let data = &func.insts[inst];
    if matches!(data.op, Op::KvRead(_)) {
        return false;
    }
    let (&[result], Some(&operand)) = (&data.results[..], data.operands.first()) else {
        return false;
    };
    if !is_step(&data.op) && func.values[result].sharding != func.values[operand].sharding {
        return false;
    }
    let fits = func.ty(result).dims == func.ty(operand).dims || is_step(&data.op);
    fits && {
        replace(func, result, operand);
        true
    }
}

fn replace(func: &mut Func, old: Value, new: Value) {
    let operands = func.insts.values_mut().flat_map(|data| data.operands.iter_mut());
    for value in operands.chain(&mut func.returns).filter(|v| **v == old) {
        *value = new;
    }
}

fn strip_pending(func: &mut Func, value: Value) -> bool {
    let Some(sharding) = &mut func.values[value].sharding else { return false };
    !std::mem::take(&mut sharding.layout.unreduced).is_empty()
}

fn call_complete(_: &Mesh, func: &mut Func, inst: Inst) -> bool {
    let results = func.insts[inst].results.clone();
    results.first().is_some_and(|&result| strip_pending(func, result))
}

/// The mistake carried through: nothing that is read on the way to the reduction pends any more.
fn call_same_everywhere(_: &Mesh, func: &mut Func, inst: Inst) -> bool {
    let mut behind = func.insts[inst].operands.clone();
    while let Some(value) = behind.pop() {
        let Def::Result(inst, _) = func.values[value].def else { continue };
        let operands = func.insts[inst].operands.clone();
        behind.extend(operands.into_iter().filter(|&v| strip_pending(func, v)));
    }
    true
}

fn twice(_: &Mesh, func: &mut Func, inst: Inst) -> bool {
    let Op::AllReduce(op) = func.insts[inst].op.clone() else { return false };
    let result = func.insts[inst].results[0];
    let data = func.values[result].clone();
    let at = func.body.iter().position(|&i| i == inst).unwrap_or_default();
    let again = func.add_inst(
        Op::AllReduce(op),
        vec![result],
        vec![("again".to_string(), data.ty, data.sharding)],
    );
    func.body.pop();
    func.body.insert(at + 1, again);
    let new = func.insts[again].results[0];
    replace(func, result, new);
    func.insts[again].operands = vec![result];
    true
}

/// Changes the first list of axes of a collective that `change` changes.
fn axes_of(func: &mut Func, inst: Inst, change: impl Fn(&mut Vec<AxisRef>) -> bool) -> bool {
    let lists = |lists: &mut Vec<AxisList>| lists.iter_mut().any(|list| change(&mut list.0));
    match &mut func.insts[inst].op {
        Op::AllReduce(op) => change(&mut op.axes.0),
        Op::ToPartial(op) => change(&mut op.axes.0),
        Op::AllGather(op) => lists(&mut op.axes),
        Op::AllSlice(op) => lists(&mut op.axes),
        Op::ReduceScatter(op) => lists(&mut op.axes),
        Op::AllToAll(op) => op.moves.iter_mut().any(|m| change(&mut m.axes)),
        _ => false,
    }
}

fn other_axis(mesh: &Mesh, func: &mut Func, inst: Inst) -> bool {
    axes_of(func, inst, |axes| {
        let taken = axes.clone();
        let Some(axis) = axes.first_mut() else { return false };
        let size = axis.size(mesh);
        let other = mesh.whole_axes().find(|a| a.size(mesh) == size && !taken.contains(a));
        other.map(|other| *axis = other).is_some()
    })
}

fn other_dims(_: &Mesh, func: &mut Func, inst: Inst) -> bool {
    let turn = |lists: &mut Vec<AxisList>| {
        let before = lists.clone();
        lists.rotate_left(1);
        *lists != before
    };
    match &mut func.insts[inst].op {
        Op::AllGather(op) => turn(&mut op.axes),
        Op::AllSlice(op) => turn(&mut op.axes),
        Op::ReduceScatter(op) => turn(&mut op.axes),
        Op::AllToAll(op) => {
            op.moves.iter_mut().for_each(|m| std::mem::swap(&mut m.src, &mut m.tgt));
            true
        }
        _ => false,
    }
}

/// Reads the nearest earlier value of the same type and layout instead.
fn other_operand(func: &mut Func, inst: Inst, number: usize) -> bool {
    let Some(&operand) = func.insts[inst].operands.get(number) else { return false };
    let own = &func.values[operand];
    let before = func.body.iter().take_while(|&&i| i != inst);
    let results = before.flat_map(|&i| func.insts[i].results.clone());
    let alike = |v: &Value| {
        let data = &func.values[*v];
        *v != operand && data.ty == own.ty && data.sharding == own.sharding
    };
    let other = func.params.iter().copied().chain(results).filter(alike).last();
    other.map(|other| func.insts[inst].operands[number] = other).is_some()
}

fn other_constant(_: &Mesh, func: &mut Func, inst: Inst) -> bool {
    let more = |x: &mut F64| x.0 = x.0 * 1.5 + 0.01;
    match &mut func.insts[inst].op {
        Op::Scale(op) => more(&mut op.by),
        Op::Offset(op) => more(&mut op.by),
        Op::Attention(op) => match &mut op.window {
            Some(window) => *window += 1,
            None => more(&mut op.scale),
        },
        Op::Rope(op) => more(&mut op.theta),
        Op::RmsNorm(op) => more(&mut op.eps),
        _ => return false,
    }
    true
}

/// A rank keeps another part of a value than its own: of heads, of experts, of a vocabulary.
fn other_part(mesh: &Mesh, func: &mut Func, inst: Inst) -> bool {
    if !matches!(func.insts[inst].op, Op::AllSlice(_)) {
        return false;
    }
    let reversed = axes_of(func, inst, |axes| {
        let before = axes.clone();
        axes.reverse();
        *axes != before
    });
    reversed || other_axis(mesh, func, inst)
}

fn other_kind(_: &Mesh, func: &mut Func, inst: Inst) -> bool {
    let kind = match &mut func.insts[inst].op {
        Op::AllReduce(op) => &mut op.kind,
        Op::ReduceScatter(op) => &mut op.kind,
        _ => return false,
    };
    *kind = match kind {
        ReduceKind::Sum => ReduceKind::Max,
        _ => ReduceKind::Sum,
    };
    true
}

/// What every rank of an axis holds whole is called the contribution of one, and so added once for
/// each, as a shared expert beside experts that are split.
fn shared_everywhere(mesh: &Mesh, func: &mut Func, inst: Inst) -> bool {
    let data = &func.insts[inst];
    let (Op::Add(_), Some(&operand)) = (&data.op, data.operands.last()) else { return false };
    let Some(sharding) = &mut func.values[operand].sharding else { return false };
    let layout = &mut sharding.layout;
    let free = mesh.whole_axes().find(|axis| !layout.dims.iter().flatten().any(|a| a == axis));
    let Some(axis) = free.filter(|_| layout.unreduced.is_empty()) else { return false };
    layout.unreduced.push(Partial { kind: ReduceKind::Sum, axes: vec![axis] });
    true
}

fn exchange(_: &Mesh, func: &mut Func, inst: Inst) -> bool {
    let data = &func.insts[inst];
    if matches!(data.op, Op::Add(_) | Op::Mul(_) | Op::Max(_) | Op::Repeat(_)) {
        return false;
    }
    let n = data.operands.len();
    let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
    let alike = |&(a, b): &(usize, usize)| {
        let (a, b) = (data.operands[a], data.operands[b]);
        a != b && func.ty(a) == func.ty(b) && func.layout(a) == func.layout(b)
    };
    let found = pairs.into_iter().find(alike);
    found.map(|(a, b)| func.insts[inst].operands.swap(a, b)).is_some()
}

/// Two dimensions of equal extent of the result of a product change places.
fn other_letters(_: &Mesh, func: &mut Func, inst: Inst) -> bool {
    let Some(&result) = func.insts[inst].results.first() else { return false };
    let dims = func.ty(result).dims.clone();
    let spec = match &mut func.insts[inst].op {
        Op::Dot(op) => &mut op.spec,
        Op::GroupedDot(op) => &mut op.spec,
        _ => return false,
    };
    let Some((operands, letters)) = spec.split_once("->") else { return false };
    let mut letters: Vec<char> = letters.chars().collect();
    let pairs = (0..dims.len()).flat_map(|a| (a + 1..dims.len()).map(move |b| (a, b)));
    let Some((a, b)) = pairs.into_iter().find(|&(a, b)| dims[a] == dims[b]) else { return false };
    letters.swap(a, b);
    *spec = format!("{operands}->{}", letters.into_iter().collect::<String>());
    true
}

fn other_order(_: &Mesh, func: &mut Func, inst: Inst) -> bool {
    let Op::Repeat(repeat) = &mut func.insts[inst].op else { return false };
    let before = repeat.layers.clone();
    match repeat.layers.iter_mut().find(|run| run.body.len() > 1) {
        Some(run) => run.body.reverse(),
        None => repeat.layers.reverse(),
    }
    repeat.layers != before
}

/// Every extent that is the vocabulary's becomes that with padding, and nothing tells them apart.
fn pad_vocabulary(module: &mut Module, func: FuncId, inst: Inst) -> bool {
    let func = &module.funcs[func];
    let Op::ArgMax(op) = &func.insts[inst].op else { return false };
    let Some(&operand) = func.insts[inst].operands.first() else { return false };
    let Some(vocabulary) = func.ty(operand).dims[op.dim].as_fixed() else { return false };
    let padded = Dim::fixed((vocabulary + 1).next_multiple_of(64));
    let values = module.funcs.values_mut().flat_map(|f| f.values.values_mut());
    for dim in values.flat_map(|v| v.ty.dims.iter_mut()) {
        if dim.as_fixed() == Some(vocabulary) {
            *dim = padded;
        }
    }
    true
}
