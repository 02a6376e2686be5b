//! Plans of every shipped model hold against their model, and damaged ones do not.

use shardc_ir::attr::F64;
use shardc_ir::graph::{Func, FuncId, Inst, Level, Value};
use shardc_ir::ops::Op;
use shardc_ir::verify::verify as check;
use shardc_passes::registry::{self, Pass};
use shardc_passes::strategy::Facts;
use shardc_passes::strategy::megatron::ExpertExchange;
use shardc_tests::Outcome;
use shardc_tests::plan::plan;
use shardc_tests::random::Random;
use shardc_verify::{Phase, Program, Programs, verify};
use std::path::Path;

/// Degrees to plan with; a model takes those that it admits.
const DEGREES: [&str; 4] = ["tp=8,pp=2", "tp=4,dp=2,ep=8", "tp=2,cp=4,dp=2,ep=8", "tp=2,dp=3,ep=3"];

/// Damaged plans of each model.
const MUTANTS: u64 = 12;

/// Every plan computes what its model computes.
fn equal(_path: &Path, source: String) -> Outcome {
    let mut found = Vec::new();
    for degrees in DEGREES {
        for exchange in [ExpertExchange::AllToAll, ExpertExchange::AllGather] {
            let Some(programs) = plan(&source, degrees, exchange)? else { continue };
            if let Err(problem) = verify(&programs, 1) {
                found.push(format!("{degrees} {exchange:?}: {problem} {:?}", problem.notes));
            }
            if !degrees.contains("ep=") {
                break;
            }
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}

/// One way to damage a function at an instruction; `None` where it does not apply.
type Damage = fn(&mut Func, Inst, &mut Random) -> Option<()>;

const DAMAGES: [(&str, Damage); 4] = [
    ("an operator left out", leave_out),
    ("another operand of that type", other_operand),
    ("two operands swapped", swap),
    ("a number changed", other_number),
];

/// Whoever reads the result reads the first operand instead.
fn leave_out(func: &mut Func, inst: Inst, _random: &mut Random) -> Option<()> {
    let data = func.insts[inst].clone();
    let (&from, &to) = (data.operands.first()?, data.results.first()?);
    if data.results.len() != 1 || matches!(data.op, Op::KvRead(_) | Op::Repeat(_)) {
        return None;
    }
    alike(func, from, to).then_some(())?;
    let insts: Vec<Inst> = func.body.clone();
    for other in insts {
        let operands = &mut func.insts[other].operands;
        operands.iter_mut().filter(|v| **v == to).for_each(|v| *v = from);
    }
    func.returns.iter_mut().filter(|v| **v == to).for_each(|v| *v = from);
    func.body.retain(|&i| i != inst);
    Some(())
}

fn alike(func: &Func, a: Value, b: Value) -> bool {
    func.ty(a) == func.ty(b) && func.layout(a) == func.layout(b)
}

/// An operand becomes another value that exists by then.
fn other_operand(func: &mut Func, inst: Inst, random: &mut Random) -> Option<()> {
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

fn swap(func: &mut Func, inst: Inst, random: &mut Random) -> Option<()> {
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

fn other_number(func: &mut Func, inst: Inst, _random: &mut Random) -> Option<()> {
    match &mut func.insts[inst].op {
        Op::Slice(slice) if slice.lo > 0 => {
            slice.lo -= 1;
            slice.hi -= 1;
        }
        Op::Rope(rope) => rope.theta = F64(rope.theta.0 * 2.0),
        Op::Attention(attention) => attention.scale = F64(attention.scale.0 * 2.0),
        _ => return None,
    }
    Some(())
}

/// A plan with one damage in the last program above local level, and what was done.
fn damaged(programs: &Programs, random: &mut Random) -> Option<(String, Programs)> {
    let mut out = programs.clone();
    let phase = *random.pick(&Phase::ALL);
    let list = match phase {
        Phase::Prefill => &mut out.prefill,
        Phase::Decode => &mut out.decode,
    };
    let last = list.iter().rposition(|p| p.module.level == Level::Collective)?;
    let module = &mut list[last].module;
    let ids: Vec<FuncId> = module.funcs.keys().collect();
    let id = *random.pick(&ids);
    let func = &mut module.funcs[id];
    let inst = *random.pick(&func.body);
    let (what, damage) = *random.pick(&DAMAGES);
    damage(func, inst, random)?;
    let data = &module.funcs[id].insts[inst];
    let result = data.results.first().map_or("", |&v| &module.funcs[id].values[v].name);
    let place = format!("{} @{} %{result}: {what}", phase.name(), module.funcs[id].name);
    Some((place, out))
}

/// Whether anybody notices.
fn noticed(mut programs: Programs, stages: &[u64]) -> bool {
    for list in [&mut programs.prefill, &mut programs.decode] {
        let Some(last) = list.iter().rposition(|p| p.module.level == Level::Collective) else {
            return false;
        };
        if check(&list[last].module).is_err() {
            return true;
        }
        let mut local = list[last].module.clone();
        let options =
            registry::Options { stage_layers: stages.to_vec(), ..registry::Options::default() };
        let pass = Pass::named("localize");
        if pass.is_none_or(|pass| pass.apply(&mut local, &options).is_err()) {
            return true;
        }
        list.retain(|p| p.module.level < Level::Local);
        list.push(Program { pass: "localize".to_string(), module: local });
    }
    verify(&programs, 1).is_err()
}

/// A program with one damage is noticed.
fn mutants(path: &Path, source: String) -> Outcome {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut random = Random::of(&name, 0);
    let (mut made, mut survived) = (0, Vec::new());
    let Some(programs) = plan(&source, "tp=2,dp=2,ep=4", ExpertExchange::AllToAll)? else {
        return Ok(());
    };
    let facts = Facts::of(&programs.prefill[0].module);
    for _ in 0..MUTANTS * 40 {
        if made == MUTANTS {
            break;
        }
        let Some((what, programs)) = damaged(&programs, &mut random) else { continue };
        made += 1;
        if !noticed(programs, &[facts.layers]) {
            survived.push(what);
        }
    }
    match survived.is_empty() {
        true => Ok(()),
        false => Err(format!("of {made}, unnoticed: {}", survived.join("; ")).into()),
    }
}

datatest_stable::harness! {
    { test = equal, root = "../examples/models", pattern = r"^[^/]*__[^/]*\.json$" },
    { test = mutants, root = "../examples/models", pattern = r"^[^/]*__[^/]*\.json$" },
}
