//! The judges judged: wrong rewrites planted in the programs of golden models, each of which the
//! verifier or a run must catch.

use super::case::Case;
use shardc_ir::attr::{AxisList, F64};
use shardc_ir::graph::{Func, Inst, Module, Value};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;
use shardc_ir::verify::verify;
use shardc_passes::pipeline::{Lowering, balanced_stages, lower};
use shardc_passes::strategy::megatron::{ExpertExchange, Phase, pins};
use shardc_passes::strategy::{Degrees, Groups};
use shardc_tests::Outcome;
use shardc_tests::golden::Golden;
use shardc_verify::Sizes;
use std::collections::BTreeMap;
use std::path::Path;

/// More tokens than the shortest window has.
const SIZES: Sizes = Sizes { requests: 2, prompt: 9, more: 2, steps: 0 };

/// Sites of one function at which a kind of mistake is made.
const SITES: usize = 4;

/// Degrees by the folder of a model: what splits most of it.
const DEGREES: [(&str, &str); 4] = [
    ("llama-tiny", "tp=2,cp=2,pp=2"),
    ("mixtral-tiny", "tp=2,dp=2,ep=2,etp=2"),
    ("deepseek_v3-tiny", "tp=2,dp=2,ep=4"),
    ("gpt_oss-tiny", "tp=2,dp=2,ep=2"),
];

/// A mistake at an instruction; whether there is one to make.
type Mistake = fn(&Mesh, &mut Func, Inst) -> bool;

/// Mistakes that passes have made, here or elsewhere.
const MISTAKES: [(&str, Mistake); 14] = [
    ("a step among devices is left out", |_, f, i| is_step(&f.insts[i].op) && bypass(f, i)),
    ("a sum that pends is called complete", call_complete),
    ("a sum is not reduced and called complete", |m, f, i| {
        let operand = f.insts[i].operands.first().copied();
        matches!(f.insts[i].op, Op::AllReduce(_))
            && operand.is_some_and(|v| strip_pending(f, v))
            && call_same_everywhere(m, f, i)
            && bypass(f, i)
    }),
    ("a sum is reduced twice", twice),
    ("one axis of several is left out", |_, f, i| {
        axes_of(f, i, |axes| axes.len() > 1 && axes.pop().is_some())
    }),
    ("axes stand in another order", |_, f, i| {
        !matches!(f.insts[i].op, Op::AllReduce(_))
            && axes_of(f, i, |axes| {
                axes.len() > 1 && {
                    axes.reverse();
                    true
                }
            })
    }),
    ("another axis of the same size is used", other_axis),
    ("dimensions are exchanged", other_dims),
    ("a slice begins one off", |_, f, i| match &mut f.insts[i].op {
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
    ("an operator is left out", |_, f, i| !is_step(&f.insts[i].op) && bypass(f, i)),
    ("an operand is another of its type", |_, f, i| other_operand(f, i, 0)),
    ("the last operand is another of its type", |_, f, i| {
        let last = f.insts[i].operands.len().saturating_sub(1);
        last > 0 && other_operand(f, i, last)
    }),
    ("a constant is another", other_constant),
    ("a layout has its axes in another order", |_, f, i| {
        let Some(&result) = f.insts[i].results.first() else { return false };
        let Some(sharding) = &mut f.values[result].sharding else { return false };
        let mut lists = sharding.layout.dims.iter_mut().filter(|axes| axes.len() > 1);
        lists.next().map(|axes| axes.reverse()).is_some()
    }),
];

/// Whether an operator places a value, or moves or completes it among devices.
fn is_step(op: &Op) -> bool {
    matches!(
        op,
        Op::AllReduce(_)
            | Op::ReduceScatter(_)
            | Op::AllGather(_)
            | Op::AllSlice(_)
            | Op::AllToAll(_)
            | Op::CollectivePermute(_)
            | Op::ToPartial(_)
    )
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
        let shardc_ir::graph::Def::Result(inst, _) = func.values[value].def else { continue };
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

/// The program of prompts at collective and at local level.
fn programs(case: &Case, degrees: &str) -> Result<Vec<Module>, String> {
    let degrees = Degrees::parse(degrees).map_err(|d| d.to_string())?;
    let groups = Groups::new(&degrees, &case.facts, 8);
    let stage_layers = balanced_stages(case.facts.layers, degrees.pp);
    let pins = pins(&groups, Phase::Prefill, ExpertExchange::AllToAll);
    let sizes = case.runs.symbols(SIZES.prompt);
    let lowering =
        Lowering { groups: &groups, pins: &pins, sizes: &sizes, stage_layers: &stage_layers };
    let mut out = Vec::new();
    let mut keep = |pass, module: &Module| {
        if ["optimize-collectives", "localize"].contains(&pass) {
            out.push(module.clone());
        }
    };
    lower(&case.prefill, &lowering, &mut keep).map_err(|d| d.to_string())?;
    Ok(out)
}

/// The programs with one mistake each, with what it is and where.
fn mutants(module: &Module, mesh: &Mesh) -> Vec<(&'static str, String, Module)> {
    let mut out = Vec::new();
    for (what, mistake) in MISTAKES {
        for id in module.funcs.keys() {
            let body = module.funcs[id].body.clone();
            let planted = body.into_iter().filter_map(|inst| {
                let mut wrong = module.clone();
                let func = &mut wrong.funcs[id];
                let name = func.insts[inst].results.first().map(|&v| func.values[v].name.clone());
                let place = format!("@{}/{}", func.name, name.unwrap_or_default());
                (mistake(mesh, func, inst) && wrong != *module).then_some((what, place, wrong))
            });
            let planted: Vec<_> = planted.collect();
            let stride = planted.len().div_ceil(SITES).max(1);
            out.extend(planted.into_iter().step_by(stride));
        }
    }
    out
}

/// Plants every mistake in a model.
pub fn mutants_die(config: &Path, _text: String) -> Outcome {
    let folder = config.parent().and_then(|p| p.file_name()).map(|n| n.to_string_lossy());
    let known = DEGREES.iter().find(|(name, _)| folder.as_deref() == Some(name));
    let Some((_, degrees)) = known else { return Ok(()) };
    let case = Case::new(Golden::read(config)?, SIZES)?;
    let mut deaths: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut alive = Vec::new();
    for module in programs(&case, degrees)? {
        let mesh = module.mesh.clone().unwrap_or(Mesh::new("none", []));
        for (what, place, wrong) in mutants(&module, &mesh) {
            let by = if verify(&wrong).is_err() {
                0
            } else if !matches!(case.runs.check_prefill(&wrong), Ok(None)) {
                1
            } else {
                alive.push(format!("{what}, {place} at {} level", module.level));
                2
            };
            deaths.entry(what).or_default()[by] += 1;
        }
    }
    for (what, [verifier, run, none]) in &deaths {
        println!("{what}: {verifier} by the verifier, {run} by a run, {none} by none");
    }
    if alive.is_empty() { Ok(()) } else { Err(alive.join("\n").into()) }
}
