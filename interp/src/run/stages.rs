//! The programs of all pipeline stages, each with its layers, and the order in which they run.

use super::machine::{Env, Frame, Machine, has_stages};
use super::{Inputs, Outputs, refused};
use crate::codes;
use crate::tensor::Tensor;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::{Def, Func, FuncId, FuncKind, Module, Value};
use shardc_ir::layers::Interface;
use shardc_ir::ops::Op;
use shardc_ir::types::Kind;
use std::collections::BTreeMap;
use std::ops::Range;

/// One program: a pipeline stage at local level, the whole model above it.
pub(super) struct Stage {
    pub(super) func: FuncId,
    /// Of parameters that stack slices per layer, which slices of the whole model's this stage has.
    pub(super) layers: BTreeMap<Value, Range<usize>>,
}

/// The programs in order of their stages; above local level one function, `entry` if given.
///
/// # Errors
/// `U202` where there is no such function, or not exactly one that no `repeat` runs.
pub(super) fn of(module: &Module, entry: Option<&str>) -> Result<Vec<Stage>> {
    let outer: Vec<FuncId> = match (has_stages(module), entry) {
        (true, _) => (0..).map_while(|i| module.func(&format!("stage_{i}"))).collect(),
        (false, Some(name)) => module.func(name).into_iter().collect(),
        (false, None) => module.funcs.keys().filter(|&id| !is_layer(module, id)).collect(),
    };
    let single = outer.len() == 1 || has_stages(module) && !outer.is_empty();
    if !single {
        let count = outer.len();
        return Err(refused(format!(
            "@{} has {count} functions to start with, not one",
            module.name
        )));
    }
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    Ok(outer
        .into_iter()
        .map(|func| Stage { func, layers: layers(module, func, &mut taken) })
        .collect())
}

fn is_layer(module: &Module, id: FuncId) -> bool {
    let insts = module.funcs.values().flat_map(|f| f.insts.values());
    insts.into_iter().any(|inst| match &inst.op {
        Op::Repeat(repeat) => repeat.distinct().iter().any(|(n, _)| *n == module.funcs[id].name),
        _ => false,
    })
}

/// Which slices of each stacked parameter a function uses, after those taken by earlier stages.
fn layers(
    module: &Module,
    id: FuncId,
    taken: &mut BTreeMap<String, usize>,
) -> BTreeMap<Value, Range<usize>> {
    let func = &module.funcs[id];
    let mut out = BTreeMap::new();
    for inst in func.body.iter().map(|&i| &func.insts[i]) {
        let Op::Repeat(repeat) = &inst.op else { continue };
        let Ok(interface) = Interface::of(module, repeat) else { continue };
        for (slot, &operand) in interface.operands.iter().zip(&inst.operands) {
            let (Some(count), Some(param)) = (slot.stacked, param_behind(func, operand)) else {
                continue;
            };
            let first = taken.entry(func.values[param].name.clone()).or_default();
            out.insert(param, *first..*first + count as usize);
            *first += count as usize;
        }
    }
    debug_assert!(func.kind == FuncKind::Program || !has_stages(module));
    out
}

/// The parameter that a value is, or that operators of one operand make it from.
fn param_behind(func: &Func, mut value: Value) -> Option<Value> {
    while let Def::Result(inst, _) = func.values[value].def {
        value =
            *func.insts[inst].operands.first().filter(|_| func.insts[inst].operands.len() == 1)?;
    }
    Some(value)
}

/// A program that is running.
struct Running<'m> {
    frame: Frame<'m>,
    env: Env,
    /// Instructions done.
    done: usize,
}

/// Runs all stages: each as far as it can, until all have ended.
///
/// # Errors
/// What running a stage can fail with; `X301` where all that are left wait for one another.
pub(super) fn run<'m>(
    machine: &mut Machine<'m>,
    stages: &[Stage],
    inputs: &Inputs,
) -> Result<Outputs> {
    let mut running = Vec::new();
    for (number, stage) in (0..).zip(stages) {
        running.push(start(machine, number, stage, inputs)?);
    }
    loop {
        let before: usize = running.iter().map(|r| r.done).sum();
        for program in &mut running {
            advance(machine, program)?;
        }
        let after: usize = running.iter().map(|r| r.done).sum();
        match running.iter().find(|r| r.done < r.frame.func.body.len()) {
            None => break,
            Some(stuck) if after == before => {
                let message = format!("@{} waits for what no stage sends", stuck.frame.func.name);
                return Err(Box::new(Diagnostic::error(codes::EXECUTION, message)));
            }
            Some(_) => {}
        }
    }
    outputs(machine, &running)
}

fn start<'m>(
    machine: &Machine<'m>,
    number: u64,
    stage: &Stage,
    inputs: &Inputs,
) -> Result<Running<'m>> {
    let func = &machine.module.funcs[stage.func];
    let mut env = Env::new();
    for &param in &func.params {
        let name = &func.values[param].name;
        let Some(input) = inputs.get(name) else { continue };
        let own = match stage.layers.get(&param) {
            Some(layers) => layers_of(input, layers).map_err(|cause| {
                let message = format!("%{name} of @{}: {cause}", func.name);
                Box::new(Diagnostic::error(codes::INPUTS, message))
            })?,
            None => input.clone(),
        };
        env.insert(param, machine.spread(func, param, &own));
    }
    Ok(Running { frame: Frame::outer(func, number), env, done: 0 })
}

fn layers_of(input: &Tensor, layers: &Range<usize>) -> std::result::Result<Tensor, String> {
    let mut ranges: Vec<Range<usize>> = input.shape().iter().map(|&n| 0..n).collect();
    match ranges.first_mut() {
        Some(first) if layers.end <= first.end => *first = layers.clone(),
        _ => return Err(format!("layers {layers:?} are not in an input of {:?}", input.shape())),
    }
    Ok(input.part(&ranges))
}

fn advance<'m>(machine: &mut Machine<'m>, program: &mut Running<'m>) -> Result<()> {
    while let Some(&inst) = program.frame.func.body.get(program.done) {
        if !machine.step(&program.frame, inst, &mut program.env)? {
            break;
        }
        program.done += 1;
    }
    Ok(())
}

/// What the programs return as whole tensors; caches of several stages one after another.
fn outputs(machine: &Machine<'_>, running: &[Running<'_>]) -> Result<Outputs> {
    let mut out = Outputs::default();
    let mut caches: BTreeMap<String, Vec<Tensor>> = BTreeMap::new();
    for Running { frame, env, .. } in running {
        let func: &Func = frame.func;
        let is_cache = |v: &Value| func.ty(*v).kind == Kind::Cache;
        let mut names = func.params.iter().copied().filter(is_cache);
        for &value in &func.returns {
            let Some(spread) = env.get(&value) else { continue };
            let whole = machine.whole(func, value, spread)?;
            let param = if is_cache(&value) { names.next() } else { None };
            match param {
                Some(param) => {
                    caches.entry(func.values[param].name.clone()).or_default().push(whole)
                }
                None => out.results.push(whole),
            }
        }
    }
    out.caches = caches.into_iter().map(|(name, parts)| (name, Tensor::concat(&parts))).collect();
    Ok(out)
}
