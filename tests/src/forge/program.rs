//! Programs that were damaged before their certificate was written.
//!
//! Damages at collective level go through `localize` like any program, so that `verify` can say
//! whether a damaged plan still computes what the model computes. Damages at local level are such
//! that it cannot.

use crate::mistakes::is_step;
use crate::random::Random;
use shardc_ir::attr::F64;
use shardc_ir::graph::{Def, Func, FuncId, FuncKind, Inst, Module, Value};
use shardc_ir::layout::{Layout, ReduceKind, Sharding};
use shardc_ir::mesh::{AxisId, AxisRef, Mesh};
use shardc_ir::ops::Op;

/// Damages a function at an instruction; `None` where it does not apply.
pub type Damage = fn(&mut Func, Inst, &Mesh, &mut Random) -> Option<()>;

/// Damages at collective level.
pub const GLOBAL: [(&str, Damage); 11] = [
    ("an operator left out", leave_out),
    ("another operand of that type", other_operand),
    ("two operands swapped", swap),
    ("a number changed", other_number),
    ("a collective left out", drop_collective),
    ("a collective left out, its operand said to lie as its result", forget_collective),
    ("a collective twice", double_collective),
    ("another axis in a collective", other_axis),
    ("another reduction", other_reduction),
    ("another layout of a value", other_layout),
    ("a pending reduction forgotten", forget_pending),
];

/// Damages at local level.
pub const LOCAL: [(&str, Damage); 6] = [
    ("another extent in an attribute", other_extent),
    ("a transfer left out", drop_transfer),
    ("a transfer twice, or two exchanged", other_transfer),
    ("two parameters with each other's names", swap_names),
    ("two returned values exchanged, or one instead of another", swap_returns),
    ("other layers", other_layers),
];

/// A module with one damage of a kind, and where it is.
pub fn damaged(module: &Module, damage: Damage, random: &mut Random) -> Option<(String, Module)> {
    let mut out = module.clone();
    let mesh = out.mesh.clone()?;
    let ids: Vec<FuncId> = out.funcs.keys().collect();
    let func = &mut out.funcs[*random.pick(&ids)];
    (!func.body.is_empty()).then_some(())?;
    let inst = *random.pick(&func.body);
    let result = func.insts[inst].results.first().map_or("", |&v| &func.values[v].name);
    let place = format!("@{} %{result}", func.name);
    damage(func, inst, &mesh, random)?;
    (out != *module).then_some((place, out))
}

/// An exchange of the function.
fn exchange(func: &Func, random: &mut Random) -> Option<Inst> {
    let all: Vec<Inst> =
        func.body.iter().copied().filter(|&i| is_step(&func.insts[i].op)).collect();
    (!all.is_empty()).then(|| *random.pick(&all))
}

/// Lets whoever reads `from` read `to`.
fn redirect(func: &mut Func, from: Value, to: Value) {
    for inst in func.body.clone() {
        let operands = &mut func.insts[inst].operands;
        operands.iter_mut().filter(|v| **v == from).for_each(|v| *v = to);
    }
    func.returns.iter_mut().filter(|v| **v == from).for_each(|v| *v = to);
}

fn alike(func: &Func, a: Value, b: Value) -> bool {
    func.ty(a) == func.ty(b) && func.layout(a) == func.layout(b)
}

/// Whoever reads the result reads the first operand instead.
fn leave_out(func: &mut Func, inst: Inst, _: &Mesh, _: &mut Random) -> Option<()> {
    let data = func.insts[inst].clone();
    let (&from, &to) = (data.operands.first()?, data.results.first()?);
    if data.results.len() != 1 || matches!(data.op, Op::KvRead(_) | Op::Repeat(_)) {
        return None;
    }
    alike(func, from, to).then_some(())?;
    redirect(func, to, from);
    func.body.retain(|&i| i != inst);
    Some(())
}

/// An operand becomes another value that exists by then.
fn other_operand(func: &mut Func, inst: Inst, _: &Mesh, random: &mut Random) -> Option<()> {
    let data = func.insts[inst].clone();
    let at = random.below(data.operands.len());
    let own = *data.operands.get(at)?;
    let before = func.body.iter().take_while(|&&i| i != inst);
    let made = before.flat_map(|&i| func.insts[i].results.iter().copied());
    let known: Vec<Value> = func.params.iter().copied().chain(made).collect();
    let same: Vec<Value> = known.into_iter().filter(|&v| v != own && alike(func, v, own)).collect();
    (!same.is_empty()).then_some(())?;
    func.insts[inst].operands[at] = *random.pick(&same);
    Some(())
}

fn swap(func: &mut Func, inst: Inst, _: &Mesh, random: &mut Random) -> Option<()> {
    let data = func.insts[inst].clone();
    let n = data.operands.len();
    let (a, b) = (random.below(n), random.below(n));
    if n < 2 || data.operands[a] == data.operands[b] || matches!(data.op, Op::Add(_) | Op::Mul(_)) {
        return None;
    }
    alike(func, data.operands[a], data.operands[b]).then_some(())?;
    func.insts[inst].operands.swap(a, b);
    Some(())
}

fn other_number(func: &mut Func, inst: Inst, _: &Mesh, _: &mut Random) -> Option<()> {
    match &mut func.insts[inst].op {
        Op::Slice(slice) if slice.lo > 0 => {
            slice.lo -= 1;
            slice.hi -= 1;
        }
        Op::Rope(rope) => rope.theta = F64(rope.theta.0 * 2.0),
        Op::Attention(attention) => attention.scale = F64(attention.scale.0 * 2.0),
        Op::RmsNorm(norm) => norm.eps = F64(norm.eps.0 + 0.5),
        Op::Router(router) => router.normalise = !router.normalise,
        _ => return None,
    }
    Some(())
}

fn drop_collective(func: &mut Func, _: Inst, _: &Mesh, random: &mut Random) -> Option<()> {
    let inst = exchange(func, random)?;
    let data = func.insts[inst].clone();
    redirect(func, data.results[0], data.operands[0]);
    func.body.retain(|&i| i != inst);
    Some(())
}

fn forget_collective(func: &mut Func, _: Inst, _: &Mesh, random: &mut Random) -> Option<()> {
    let inst = exchange(func, random)?;
    let data = func.insts[inst].clone();
    let (operand, result) = (data.operands[0], data.results[0]);
    func.values[operand].sharding = func.values[result].sharding.clone();
    redirect(func, result, operand);
    func.body.retain(|&i| i != inst);
    Some(())
}

fn double_collective(func: &mut Func, _: Inst, _: &Mesh, random: &mut Random) -> Option<()> {
    let inst = exchange(func, random)?;
    let data = func.insts[inst].clone();
    let result = data.results[0];
    let copy = func.values[result].clone();
    let again = func.add_inst(data.op, vec![result], vec![(copy.name, copy.ty, copy.sharding)]);
    func.body.pop();
    let at = func.body.iter().position(|&i| i == inst)?;
    let last = func.insts[again].results[0];
    redirect(func, result, last);
    func.insts[again].operands = vec![result];
    func.body.insert(at + 1, again);
    Some(())
}

/// Another whole axis of the mesh.
fn another(mesh: &Mesh, axis: AxisRef, random: &mut Random) -> Option<AxisRef> {
    let others = (0..mesh.axes.len()).map(|i| AxisRef::whole(AxisId(i as u16)));
    let others: Vec<AxisRef> = others.filter(|a| a.axis != axis.axis).collect();
    (!others.is_empty()).then(|| *random.pick(&others))
}

/// Exchanges an axis in the arguments of a collective, and in the layout that it leaves.
fn other_axis(func: &mut Func, _: Inst, mesh: &Mesh, random: &mut Random) -> Option<()> {
    let inst = exchange(func, random)?;
    let mut changed = None;
    let mut change = |axis: &mut AxisRef| {
        if changed.is_none()
            && let Some(other) = another(mesh, *axis, random)
        {
            changed = Some((*axis, other));
            *axis = other;
        }
    };
    match &mut func.insts[inst].op {
        Op::AllGather(op) => op.axes.iter_mut().flat_map(|l| &mut l.0).for_each(&mut change),
        Op::AllSlice(op) => op.axes.iter_mut().flat_map(|l| &mut l.0).for_each(&mut change),
        Op::ReduceScatter(op) => op.axes.iter_mut().flat_map(|l| &mut l.0).for_each(&mut change),
        Op::AllReduce(op) => op.axes.0.iter_mut().for_each(&mut change),
        Op::ToPartial(op) => op.axes.0.iter_mut().for_each(&mut change),
        Op::AllToAll(op) => op.moves.iter_mut().flat_map(|m| &mut m.axes).for_each(&mut change),
        _ => return None,
    }
    let (old, new) = changed?;
    let result = func.insts[inst].results[0];
    if let Some(sharding) = func.values[result].sharding.as_mut().filter(|_| random.once_in(2)) {
        let dims = sharding.layout.dims.iter_mut().flatten();
        dims.filter(|a| **a == old).for_each(|a| *a = new);
    }
    Some(())
}

fn other_reduction(func: &mut Func, _: Inst, _: &Mesh, random: &mut Random) -> Option<()> {
    let inst = exchange(func, random)?;
    let kinds = [ReduceKind::Sum, ReduceKind::Max, ReduceKind::ArgMax, ReduceKind::Lse];
    let new = *random.pick(&kinds);
    match &mut func.insts[inst].op {
        Op::AllReduce(op) if op.kind != new => op.kind = new,
        Op::ReduceScatter(op) if op.kind != new => op.kind = new,
        _ => return None,
    }
    Some(())
}

/// Moves an axis of a layout to another dimension, or takes it away.
fn other_layout(func: &mut Func, inst: Inst, mesh: &Mesh, random: &mut Random) -> Option<()> {
    let &value = func.insts[inst].results.first()?;
    let layout = changed_layout(func.layout(value)?, random)?;
    layout.check(mesh, layout.dims.len()).is_ok().then_some(())?;
    func.values[value].sharding = Some(Sharding::decided(layout));
    Some(())
}

fn changed_layout(layout: &Layout, random: &mut Random) -> Option<Layout> {
    let mut layout = layout.clone();
    let split: Vec<usize> =
        (0..layout.dims.len()).filter(|&d| !layout.dims[d].is_empty()).collect();
    (!split.is_empty()).then_some(())?;
    let axis = layout.dims[*random.pick(&split)].pop()?;
    if random.once_in(2) {
        let to = random.below(layout.dims.len());
        layout.dims[to].push(axis);
    }
    Some(layout)
}

fn forget_pending(func: &mut Func, inst: Inst, _: &Mesh, _: &mut Random) -> Option<()> {
    let &value = func.insts[inst].results.first()?;
    let sharding = func.values[value].sharding.as_mut()?;
    sharding.layout.unreduced.pop().map(drop)
}

fn other_extent(func: &mut Func, inst: Inst, _: &Mesh, random: &mut Random) -> Option<()> {
    let double = |dim: &mut shardc_ir::dim::Dim| dim.times(2).map(|new| *dim = new);
    match &mut func.insts[inst].op {
        Op::Dispatch(op) => double(&mut op.experts),
        Op::Reshape(op) if !op.shape.is_empty() => {
            let at = random.below(op.shape.len());
            double(&mut op.shape[at])
        }
        Op::Broadcast(op) if !op.shape.is_empty() => {
            let at = random.below(op.shape.len());
            double(&mut op.shape[at])
        }
        _ => None,
    }
}

fn transfers(func: &Func) -> Vec<usize> {
    let is = |&i: &usize| matches!(func.insts[func.body[i]].op, Op::Send(_) | Op::Recv(_));
    (0..func.body.len()).filter(is).collect()
}

/// A send goes, or a receipt, whose readers read a parameter of the same type.
fn drop_transfer(func: &mut Func, _: Inst, _: &Mesh, random: &mut Random) -> Option<()> {
    let all = transfers(func);
    (!all.is_empty()).then_some(())?;
    let at = *random.pick(&all);
    let inst = func.body[at];
    if let Some(&result) = func.insts[inst].results.first() {
        let same = func.params.iter().copied().find(|&p| alike(func, p, result))?;
        redirect(func, result, same);
    }
    func.body.remove(at);
    Some(())
}

fn other_transfer(func: &mut Func, _: Inst, _: &Mesh, random: &mut Random) -> Option<()> {
    let all = transfers(func);
    let sends: Vec<usize> =
        all.into_iter().filter(|&i| matches!(func.insts[func.body[i]].op, Op::Send(_))).collect();
    (!sends.is_empty()).then_some(())?;
    let (a, b) = (*random.pick(&sends), *random.pick(&sends));
    match a == b {
        true => func.body.insert(a, func.body[a]),
        false => func.body.swap(a, b),
    }
    Some(())
}

fn swap_names(func: &mut Func, _: Inst, _: &Mesh, random: &mut Random) -> Option<()> {
    (func.kind == FuncKind::Program).then_some(())?;
    let (a, b) = (*random.pick(&func.params), *random.pick(&func.params));
    (a != b && alike(func, a, b)).then_some(())?;
    let (first, second) = (func.values[a].name.clone(), func.values[b].name.clone());
    func.rename(a, "name in passing");
    func.rename(b, &first);
    func.rename(a, &second);
    Some(())
}

fn swap_returns(func: &mut Func, _: Inst, _: &Mesh, random: &mut Random) -> Option<()> {
    let n = func.returns.len();
    let at = random.below(n);
    let own = *func.returns.get(at)?;
    let mut others: Vec<Value> = func.values.keys().filter(|&v| v != own).collect();
    let defined = |func: &Func, v: Value| match func.values[v].def {
        Def::Param(_) => true,
        Def::Result(inst, _) => func.body.contains(&inst),
    };
    others.retain(|&v| alike(func, v, own) && defined(func, v));
    (!others.is_empty()).then_some(())?;
    func.returns[at] = *random.pick(&others);
    Some(())
}

/// One layer function runs in another's place, or one layer more than the stage has.
fn other_layers(func: &mut Func, _: Inst, _: &Mesh, random: &mut Random) -> Option<()> {
    let repeats = func.body.iter().copied();
    let inst = repeats.into_iter().find(|&i| matches!(func.insts[i].op, Op::Repeat(_)))?;
    let Op::Repeat(repeat) = &mut func.insts[inst].op else { return None };
    let n = repeat.layers.len();
    let at = random.below(n);
    match random.below(3) {
        0 if n > 1 => repeat.layers.swap(at, (at + 1) % n),
        1 => repeat.layers[at].trips += 1,
        _ => repeat.layers[at].trips = repeat.layers[at].trips.checked_sub(1).filter(|t| *t > 0)?,
    }
    Some(())
}
