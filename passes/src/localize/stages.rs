//! Cutting the model's function into one program per pipeline stage.
//!
//! Stage 0 runs what comes before the layers, the last stage what comes after; each runs a range of
//! layers and hands the values that later stages need to the next one.

use super::stacks::{Moved, origin};
use super::{is_param, stage_error};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::{Def, Func, FuncKind, Inst, Module, Value};
use shardc_ir::layers::{Interface, Slot};
use shardc_ir::layout::Sharding;
use shardc_ir::ops::Op;
use shardc_ir::ops::collective::{Recv, Send};
use shardc_ir::ops::control::Repeat;
use shardc_ir::types::{Kind, Type};
use std::collections::BTreeMap;
use std::ops::Range;

/// The programs of all stages of `main`, a function whose types are local already.
pub(super) fn split(module: &Module, mut main: Func, stage_layers: &[u64]) -> Result<Vec<Func>> {
    if stage_layers.len() <= 1 {
        main.kind = FuncKind::Program;
        main.name = "stage_0".to_string();
        return Ok(vec![main]);
    }
    let plan = Plan::new(module, &main, stage_layers)?;
    (0..stage_layers.len()).map(|stage| plan.program(stage)).collect()
}

/// What the stages share.
struct Plan<'a> {
    module: &'a Module,
    main: &'a Func,
    /// The instruction that runs the layers.
    repeat: Inst,
    interface: Interface,
    /// The layer functions in the order they run.
    sequence: Vec<String>,
    /// The layers of each stage.
    ranges: Vec<Range<usize>>,
    /// The parameters of what the layers take stacked, and how those move on their way.
    taken: BTreeMap<Value, Moved>,
    /// The same of stacks that the layers leave, by what the model returns.
    left: BTreeMap<Value, Moved>,
    /// Instructions before and after the layers, but for those moves.
    before: Vec<Inst>,
    after: Vec<Inst>,
    /// Values from before the layers that later stages need.
    ahead: Vec<Value>,
}

impl<'a> Plan<'a> {
    fn new(module: &'a Module, main: &'a Func, stage_layers: &[u64]) -> Result<Self> {
        let is_repeat = |i: &Inst| matches!(main.insts[*i].op, Op::Repeat(_));
        let repeats: Vec<usize> =
            (0..main.body.len()).filter(|&i| is_repeat(&main.body[i])).collect();
        let [at] = repeats[..] else {
            let count = repeats.len();
            return Err(stage_error(format!(
                "pipeline stages need one `repeat` in @{}, which has {count}",
                main.name
            )));
        };
        let repeat = main.body[at];
        let Op::Repeat(op) = &main.insts[repeat].op else { return Err(stage_error("no repeat")) };
        let sequence: Vec<String> = op.sequence().into_iter().map(String::from).collect();
        let total: u64 = stage_layers.iter().sum();
        if total != sequence.len() as u64 || stage_layers.contains(&0) {
            return Err(stage_error(format!(
                "the stages hold {total} layers, the model has {}, and no stage may be empty",
                sequence.len()
            )));
        }
        let mut end = 0;
        let ranges = stage_layers.iter().map(|&n| {
            let start = end;
            end += n as usize;
            start..end
        });
        let mut plan = Plan {
            module,
            main,
            repeat,
            interface: Interface::of(module, op).map_err(stage_error)?,
            ranges: ranges.collect(),
            sequence,
            taken: BTreeMap::new(),
            left: BTreeMap::new(),
            before: main.body[..at].to_vec(),
            after: main.body[at + 1..].to_vec(),
            ahead: Vec::new(),
        };
        plan.follow_stacks();
        plan.ahead = plan.values_needed_ahead();
        Ok(plan)
    }

    /// Takes the moves of stacks out of what comes before and after the layers.
    fn follow_stacks(&mut self) {
        let main = self.main;
        let data = &main.insts[self.repeat];
        let stacked = self.interface.operands.iter().zip(&data.operands);
        for (_, &operand) in stacked.filter(|(slot, _)| slot.stacked.is_some()) {
            self.taken.insert(operand, origin(main, operand));
        }
        let leaves = self.interface.results.iter().zip(&data.results);
        let leaves: Vec<Value> =
            leaves.filter(|(slot, _)| slot.stacked.is_some()).map(|(_, &v)| v).collect();
        let returned = main.returns.iter().map(|&value| (value, origin(main, value)));
        self.left = returned.filter(|(_, moved)| leaves.contains(&moved.origin)).collect();
        let moves = self.taken.values().chain(self.left.values()).flat_map(|m| &m.moves);
        let moves: Vec<Inst> = moves.copied().collect();
        self.before.retain(|inst| !moves.contains(inst));
        self.after.retain(|inst| !moves.contains(inst));
    }

    /// Results of the instructions before the layers that the layers share or the end uses.
    fn values_needed_ahead(&self) -> Vec<Value> {
        let results = |insts: &[Inst]| {
            insts.iter().flat_map(|&i| self.main.insts[i].results.clone()).collect::<Vec<_>>()
        };
        let early = results(&self.before);
        let data = &self.main.insts[self.repeat];
        let (carried, flat) = self.flat();
        let late = self.after.iter().flat_map(|&i| self.main.insts[i].operands.clone());
        let used: Vec<Value> = data.operands[carried..flat]
            .iter()
            .copied()
            .chain(late)
            .chain(self.main.returns.clone())
            .collect();
        early.into_iter().filter(|v| used.contains(v)).collect()
    }

    fn program(&self, stage: usize) -> Result<Func> {
        let last = stage + 1 == self.ranges.len();
        let mut program = Program {
            plan: self,
            func: Func::new(&format!("stage_{stage}"), FuncKind::Program),
            map: BTreeMap::new(),
        };
        program.add_params(stage, last);
        let carried = if stage == 0 {
            self.before.iter().for_each(|&i| program.copy(i));
            let data = &self.main.insts[self.repeat];
            data.operands[..self.flat().0].iter().map(|&v| program.get(v)).collect()
        } else {
            program.receive(stage)
        };
        let carried = program.run_layers(stage, carried)?;
        if last {
            self.after.iter().for_each(|&i| program.copy(i));
        } else {
            program.hand_on(stage, &carried);
        }
        program.add_returns(last);
        Ok(program.func)
    }

    /// How many layers of a stage run the function `name`.
    fn layers_of(&self, name: &str, stage: usize) -> u64 {
        let layers = &self.sequence[self.ranges[stage].clone()];
        layers.iter().filter(|n| *n == name).count() as u64
    }

    /// The layer function whose slices a slot stacks.
    fn owner(&self, slot: &Slot) -> Option<&str> {
        let (func, _) = slot.inner.first().filter(|_| slot.stacked.is_some())?;
        Some(&self.module.funcs[*func].name)
    }

    /// Number of carried values, and of carried and shared operands.
    fn flat(&self) -> (usize, usize) {
        let flat = |slots: &[Slot]| slots.iter().filter(|s| s.stacked.is_none()).count();
        (flat(&self.interface.results), flat(&self.interface.operands))
    }
}

/// A value's name, type and layout.
type Named = (String, Type, Option<Sharding>);

/// One stage's program while it is built.
struct Program<'a> {
    plan: &'a Plan<'a>,
    func: Func,
    map: BTreeMap<Value, Value>,
}

impl Program<'_> {
    fn get(&self, old: Value) -> Value {
        self.map.get(&old).copied().unwrap_or(old)
    }

    fn data(&self, old: Value) -> Named {
        let data = &self.plan.main.values[old];
        (data.name.clone(), data.ty.clone(), data.sharding.clone())
    }

    /// The type of a stacked value when only `layers` of its slices are here.
    fn restack(ty: &Type, layers: u64) -> Type {
        let mut dims = ty.dims.clone();
        if let Some(first) = dims.first_mut() {
            *first = layers.into();
        }
        ty.with_dims(dims)
    }

    /// Parameters that this stage uses, in the order of the whole model's.
    fn add_params(&mut self, stage: usize, last: bool) {
        let plan = self.plan;
        let main = plan.main;
        let used_by = |insts: &[Inst]| {
            insts.iter().flat_map(|&i| main.insts[i].operands.clone()).collect::<Vec<_>>()
        };
        let mut used = if stage == 0 { used_by(&plan.before) } else { Vec::new() };
        if last {
            used.extend(used_by(&plan.after));
        }
        let data = &main.insts[plan.repeat];
        let mut layers: BTreeMap<Value, u64> = BTreeMap::new();
        for (slot, &operand) in plan.interface.operands.iter().zip(&data.operands) {
            let Some(owner) = plan.owner(slot) else {
                used.push(operand);
                continue;
            };
            let here = plan.layers_of(owner, stage);
            if here > 0 {
                let param = plan.taken[&operand].origin;
                used.push(param);
                layers.insert(param, here);
            }
        }
        for &param in main.params.iter().filter(|p| used.contains(p)) {
            let (name, ty, sharding) = self.data(param);
            let ty = layers.get(&param).map_or(ty.clone(), |&n| Self::restack(&ty, n));
            let new = self.func.add_param(&name, ty, sharding);
            self.map.insert(param, new);
        }
    }

    fn copy(&mut self, inst: Inst) {
        let data = &self.plan.main.insts[inst];
        let operands = data.operands.iter().map(|&v| self.get(v)).collect();
        let results = data.results.iter().map(|&v| self.data(v)).collect();
        let new = self.func.add_inst(data.op.clone(), operands, results);
        for (&old, &value) in data.results.iter().zip(&self.func.insts[new].results) {
            self.map.insert(old, value);
        }
    }

    /// Moves `layers` layers of a stack, of which `value` is what this stage has.
    fn copy_moves(&mut self, moves: &[Inst], layers: u64, mut value: Value) -> Value {
        for &inst in moves {
            let data = &self.plan.main.insts[inst];
            let (name, ty, sharding) = self.data(data.results[0]);
            let result = (name, Self::restack(&ty, layers), sharding);
            let new = self.func.add_inst(data.op.clone(), vec![value], vec![result]);
            value = self.func.insts[new].results[0];
        }
        value
    }

    /// Takes the carried values and those from ahead; returns the carried ones.
    fn receive(&mut self, stage: usize) -> Vec<Value> {
        let plan = self.plan;
        let results = &plan.main.insts[plan.repeat].results;
        let (carried, _) = plan.flat();
        let from = stage as u64 - 1;
        let mut out = Vec::new();
        for &old in results[..carried].iter().chain(&plan.ahead) {
            let inst =
                self.func.add_inst(Op::Recv(Recv { from }), Vec::new(), vec![self.data(old)]);
            let value = self.func.insts[inst].results[0];
            if out.len() < carried {
                out.push(value);
            } else {
                self.map.insert(old, value);
            }
        }
        out
    }

    /// Runs this stage's layers; returns the carried values.
    fn run_layers(&mut self, stage: usize, carried: Vec<Value>) -> Result<Vec<Value>> {
        let plan = self.plan;
        let names: Vec<&str> =
            plan.sequence[plan.ranges[stage].clone()].iter().map(String::as_str).collect();
        let repeat = Repeat::of_sequence(&names);
        let data = &plan.main.insts[plan.repeat];
        let mut operands = carried.clone();
        operands.extend(data.operands[carried.len()..plan.flat().1].iter().map(|&v| self.get(v)));
        self.stacked_operands(&repeat, stage, &mut operands)?;
        let results = self.layer_results(&repeat, carried.len(), stage);
        let (old, results): (Vec<Value>, Vec<_>) = results.into_iter().unzip();
        let new = self.func.add_inst(Op::Repeat(repeat), operands, results);
        let values = self.func.insts[new].results.clone();
        self.map.extend(old.into_iter().zip(values.iter().copied()));
        Ok(values[..carried.len()].to_vec())
    }

    /// Appends the stacked operands in the order in which this stage first runs their functions.
    fn stacked_operands(
        &mut self,
        repeat: &Repeat,
        stage: usize,
        operands: &mut Vec<Value>,
    ) -> Result<()> {
        let plan = self.plan;
        let outer = &plan.main.insts[plan.repeat].operands;
        for (name, _) in repeat.distinct() {
            for (slot, &operand) in plan.interface.operands.iter().zip(outer) {
                if plan.owner(slot) != Some(name) {
                    continue;
                }
                let moved = &plan.taken[&operand];
                if !is_param(plan.main, moved.origin) {
                    return Err(uncuttable(plan.main, moved.origin));
                }
                let stack = self.get(moved.origin);
                operands.push(self.copy_moves(&moved.moves, plan.layers_of(name, stage), stack));
            }
        }
        Ok(())
    }

    /// Old result values of this stage's layers with the names and types they have here.
    fn layer_results(&self, repeat: &Repeat, carried: usize, stage: usize) -> Vec<(Value, Named)> {
        let plan = self.plan;
        let results = &plan.main.insts[plan.repeat].results;
        let mut out: Vec<_> = results[..carried].iter().map(|&v| (v, self.data(v))).collect();
        for (name, _) in repeat.distinct() {
            for (slot, &result) in plan.interface.results.iter().zip(results) {
                if plan.owner(slot) == Some(name) {
                    let (label, ty, sharding) = self.data(result);
                    let layers = plan.layers_of(name, stage);
                    out.push((result, (label, Self::restack(&ty, layers), sharding)));
                }
            }
        }
        out
    }

    /// Hands the carried values and those from ahead to the next stage.
    fn hand_on(&mut self, stage: usize, carried: &[Value]) {
        let to = stage as u64 + 1;
        let ahead: Vec<Value> = self.plan.ahead.iter().map(|&v| self.get(v)).collect();
        for &value in carried.iter().chain(&ahead) {
            self.func.add_inst(Op::Send(Send { to }), vec![value], Vec::new());
        }
    }

    /// Every stage returns its caches, the last one also what the model returns.
    fn add_returns(&mut self, last: bool) {
        let main = self.plan.main;
        for &old in &main.returns {
            let cache = main.ty(old).kind == Kind::Cache;
            if !cache && !last {
                continue;
            }
            let moved = self.plan.left.get(&old);
            let first = moved.map_or(old, |moved| moved.origin);
            let Some(&value) = self.map.get(&first) else { continue };
            let layers = self.func.ty(value).dims.first().and_then(|dim| dim.as_fixed());
            let value = match (moved, layers) {
                (Some(moved), Some(layers)) => self.copy_moves(&moved.moves, layers, value),
                _ => value,
            };
            self.func.returns.push(value);
        }
    }
}

/// A stack for the layers that is not what a parameter holds, layer by layer.
fn uncuttable(main: &Func, stack: Value) -> Box<Diagnostic> {
    let mut first = stack;
    while let Def::Result(inst, _) = main.values[first].def
        && let [operand] = main.insts[inst].operands[..]
    {
        first = operand;
    }
    let message = format!(
        "%{} in @{} holds slices for the layers and cannot be cut into pipeline stages: what the \
         layers take is made of more than one slice",
        main.values[first].name, main.name
    );
    let help = "pin the parameter with `{}` for its first dimension, the layers, or use one stage (`pp=1`)";
    Box::new(stage_error(message).help(help))
}
