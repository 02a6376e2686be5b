//! The steps of one local function.

use super::logical::Logical;
use super::tables::Tables;
use crate::codes;
use shardc_ir::certificate::{Given, Rule, Step, Term, axis_text};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::entity::EntityId;
use shardc_ir::flow;
use shardc_ir::graph::{Func, FuncKind, Inst, InstData, Module, Value};
use shardc_ir::layout::{Layout, axes};
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::ops::control::Repeat;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// What a local value is a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    /// A logical value, the first of equal ones.
    Value(Value),
    /// Layers of a stack.
    Slice(Value, [u64; 2]),
    /// What layers carry, by the result of their `repeat`, after so many of them.
    Carried(Value, u64),
}

/// What the stages before have taken and handed on.
#[derive(Debug, Default)]
pub(super) struct Stages {
    /// Layers run so far, by `repeat`.
    layers: BTreeMap<usize, u64>,
    /// Slices of stacked parameters held so far.
    held: HashMap<Value, u64>,
    sent: HashMap<(u64, u64), VecDeque<Of>>,
}

/// Writes the steps of a local function.
pub(super) struct Writer<'a> {
    module: &'a Module,
    local: &'a Func,
    mesh: &'a Mesh,
    logical: Logical<'a>,
    tables: &'a mut Tables,
    stage: Option<u64>,
    of: Vec<Option<Of>>,
    steps: Vec<Step>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        module: &'a Module,
        program: &'a Module,
        local: &'a Func,
        name: &str,
        tables: &'a mut Tables,
    ) -> Result<Self> {
        let missing = |what: String| Box::new(Diagnostic::error(codes::UNCERTAIN, what));
        let id = module.func(name);
        let id =
            id.ok_or_else(|| missing(format!("@{} stands for no logical function", local.name)))?;
        let mesh = program.mesh.as_ref();
        let mesh = mesh.ok_or_else(|| missing("the local program has no mesh".to_string()))?;
        let number = || local.name.strip_prefix("stage_").and_then(|n| n.parse().ok());
        Ok(Writer {
            module,
            local,
            mesh,
            logical: Logical::new(&module.funcs[id]),
            tables,
            stage: (local.kind == FuncKind::Program).then(number).flatten(),
            of: vec![None; local.values.len()],
            steps: Vec::new(),
        })
    }

    /// One step for every parameter, instruction and returned value.
    pub(super) fn steps(mut self, stages: &mut Stages) -> Result<Vec<Step>> {
        let local = self.local;
        for (i, &param) in local.params.iter().enumerate() {
            self.parameter(i, param, stages)?;
        }
        for (i, &inst) in local.body.iter().enumerate() {
            self.instruction(i, inst, stages)?;
        }
        for (i, &value) in local.returns.iter().enumerate() {
            let of = self.known(value)?;
            self.step(Rule::Return, i, &of, &[value]);
        }
        Ok(self.steps)
    }

    /// Writes a step that says where `values` lie.
    fn step(&mut self, rule: Rule, at: usize, of: &Of, values: &[Value]) -> &mut Step {
        let replicated = |v: Value| Layout::replicated(self.local.ty(v).rank());
        let layouts: Vec<Layout> = values
            .iter()
            .map(|&v| self.local.layout(v).cloned().unwrap_or_else(|| replicated(v)))
            .collect();
        let to = layouts.iter().map(|layout| self.tables.placement(layout, self.mesh)).collect();
        let Term { value, layers, after } = self.term(of);
        self.steps.push(Step { rule, at: at as u64, of: value, layers, after, with: None, to });
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    fn term(&self, of: &Of) -> Term {
        let name = |v: &Value| self.logical.name(*v).to_string();
        match of {
            Of::Value(v) => Term { value: name(v), layers: None, after: None },
            Of::Slice(v, layers) => Term { value: name(v), layers: Some(*layers), after: None },
            Of::Carried(v, after) => Term { value: name(v), layers: None, after: Some(*after) },
        }
    }

    fn known(&self, value: Value) -> Result<Of> {
        self.of[value.index()].clone().ok_or_else(|| self.lost(value))
    }

    fn lost(&self, value: Value) -> Box<Diagnostic> {
        let (func, name) = (&self.local.name, &self.local.values[value].name);
        let message = format!("%{name} in @{func} is a part of no logical value");
        let help = "this is a bug in the compiler; please report it with the model";
        Box::new(Diagnostic::error(codes::UNCERTAIN, message).help(help))
    }

    /// A parameter of a layer by its place, one of a program by its name.
    fn parameter(&mut self, number: usize, param: Value, stages: &mut Stages) -> Result<()> {
        let logical = match self.stage {
            None => self.logical.func.params.get(number).copied(),
            Some(_) => self.logical.named(&self.local.values[param].name),
        };
        let logical = logical.ok_or_else(|| self.lost(param))?;
        let mut of = Of::Value(logical);
        let count = |func: &Func, v: Value| func.ty(v).dims.first().and_then(|d| d.as_fixed());
        let (here, all) = (count(self.local, param), count(self.logical.func, logical));
        let whole = self.local.layout(param).is_none_or(|l| l.sharded_factor(self.mesh, 0) == 1);
        if let (Some(here), true) = (here, self.stage.is_some() && whole && here != all) {
            let held = stages.held.entry(logical).or_insert(0);
            of = Of::Slice(logical, [*held, *held + here]);
            *held += here;
        }
        self.step(Rule::Param, number, &of, &[param]);
        self.of[param.index()] = Some(of);
        Ok(())
    }

    fn instruction(&mut self, number: usize, inst: Inst, stages: &mut Stages) -> Result<()> {
        let data = &self.local.insts[inst];
        let moves = match &data.op {
            Op::AllGather(_) => Rule::AllGather,
            Op::AllSlice(_) => Rule::AllSlice,
            Op::AllReduce(_) => Rule::AllReduce,
            Op::ReduceScatter(_) => Rule::ReduceScatter,
            Op::AllToAll(_) => Rule::AllToAll,
            Op::CollectivePermute(_) => Rule::CollectivePermute,
            Op::ToPartial(_) => Rule::ToPartial,
            Op::Send(send) => return self.send(number, data, send.to, stages),
            Op::Recv(recv) => return self.recv(number, data, recv.from, stages),
            Op::Repeat(repeat) => return self.repeat(number, data, repeat, stages),
            _ => return self.operator(number, data),
        };
        let of = self.known(data.operands[0])?;
        self.step(moves, number, &of, &data.results);
        self.of[data.results[0].index()] = Some(of);
        Ok(())
    }

    fn send(&mut self, number: usize, data: &InstData, to: u64, stages: &mut Stages) -> Result<()> {
        let of = self.known(data.operands[0])?;
        self.step(Rule::Send, number, &of, &data.operands);
        let from = self.stage.unwrap_or_default();
        stages.sent.entry((from, to)).or_default().push_back(of);
        Ok(())
    }

    fn recv(
        &mut self,
        number: usize,
        data: &InstData,
        from: u64,
        stages: &mut Stages,
    ) -> Result<()> {
        let to = self.stage.unwrap_or_default();
        let next = stages.sent.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        let of = next.ok_or_else(|| self.lost(data.results[0]))?;
        self.step(Rule::Recv, number, &of, &data.results);
        self.of[data.results[0].index()] = Some(of);
        Ok(())
    }

    fn operator(&mut self, number: usize, data: &InstData) -> Result<()> {
        let plain = |v: &Value| match self.of[v.index()] {
            Some(Of::Value(value)) => Some(value),
            _ => None,
        };
        let operands: Option<Vec<Value>> = data.operands.iter().map(plain).collect();
        let result = *data.results.first().ok_or_else(|| {
            let message = format!("an instruction of @{} makes nothing", self.local.name);
            Box::new(Diagnostic::error(codes::UNCERTAIN, message))
        })?;
        let name = &self.local.values[result].name;
        let made = self.logical.applied(data.op.info().name, operands.as_deref(), name);
        let made = made.ok_or_else(|| self.lost(result))?;
        let func = self.logical.func;
        let logical = &func.insts[made];
        let of = Of::Value(self.logical.first(logical.results[0]));
        let given = self.substitution(data, made);
        let with = (!given.is_empty()).then(|| self.tables.substitution(given));
        self.step(Rule::LocalOp, number, &of, &data.results).with = with;
        for (&own, &other) in data.results.iter().zip(&logical.results) {
            self.of[own.index()] = Some(Of::Value(self.logical.first(other)));
        }
        Ok(())
    }

    /// The axes of the factors, as the layouts around an operator say.
    fn substitution(&self, data: &InstData, made: Inst) -> Vec<Given> {
        let func = self.logical.func;
        let Some(rule) = func.rule(made) else { return Vec::new() };
        let layouts = |values: &[Value]| -> Option<Vec<Layout>> {
            values.iter().map(|&v| Some(self.local.layout(v)?.normalise(self.mesh))).collect()
        };
        let (Some(operands), Some(results)) = (layouts(&data.operands), layouts(&data.results))
        else {
            return Vec::new();
        };
        let (operands, results): (Vec<&Layout>, Vec<&Layout>) =
            (operands.iter().collect(), results.iter().collect());
        let Ok(assignment) = flow::assign(&rule, self.mesh, &operands, &results) else {
            return Vec::new();
        };
        let factors = rule.factors.iter().zip(&assignment.axes);
        let given = factors.filter_map(|(factor, list)| {
            let list = axes::normalise(self.mesh, list);
            let axes: Vec<String> = list.iter().map(|&a| axis_text(self.mesh, a)).collect();
            (!axes.is_empty()).then(|| Given { factor: factor.name.clone(), axes })
        });
        given.collect()
    }

    fn repeat(
        &mut self,
        number: usize,
        data: &InstData,
        repeat: &Repeat,
        stages: &mut Stages,
    ) -> Result<()> {
        let (local, func) = (self.local, self.logical.func);
        let name = data.results.first().map_or("", |&v| &local.values[v].name);
        let made = self.logical.applied("repeat", None, name).or_else(|| self.first_repeat());
        let logical = made.map(|inst| (inst, &func.insts[inst]));
        let Some((made, logical @ InstData { op: Op::Repeat(all), .. })) = logical else {
            let message = format!("@{} repeats layers, and the model has none", local.name);
            return Err(Box::new(Diagnostic::error(codes::UNCERTAIN, message)));
        };
        let mut within = Stages::default();
        let stages = if self.stage.is_some() { stages } else { &mut within };
        let start = stages.layers.entry(made.index()).or_insert(0);
        let (from, to) = (*start, *start + repeat.count());
        *start = to;
        let first = logical.results.first().copied().unwrap_or(Value::from_index(0));
        let first = Of::Value(self.logical.first(first));
        let step = self.step(Rule::Repeat, number, &first, &data.results);
        step.layers = Some([from, to]);
        let left = self.left(logical, all, repeat, [from, to]);
        for (&result, of) in data.results.iter().zip(left) {
            self.of[result.index()] = Some(of);
        }
        Ok(())
    }

    fn first_repeat(&self) -> Option<Inst> {
        let func = self.logical.func;
        func.body.iter().copied().find(|&i| matches!(func.insts[i].op, Op::Repeat(_)))
    }

    /// What the results of a local `repeat` are parts of: carried values, then stacks of caches in
    /// the order in which the functions first run here.
    fn left(
        &self,
        logical: &InstData,
        all: &Repeat,
        here: &Repeat,
        [from, to]: [u64; 2],
    ) -> Vec<Of> {
        let sequence = all.sequence();
        let count = |name: &str, end: u64| {
            let end = usize::try_from(end).unwrap_or(usize::MAX).min(sequence.len());
            sequence[..end].iter().filter(|n| **n == name).count() as u64
        };
        let signature =
            |name: &str| self.module.func(name).map(|id| self.module.funcs[id].layer_signature());
        let carried = all.distinct().first().and_then(|(name, _)| signature(name));
        let carried = carried.map_or(0, |s| s.carried.len());
        let first = |v: &Value| self.logical.first(*v);
        let mut out: Vec<Of> = logical.results[..carried.min(logical.results.len())]
            .iter()
            .map(|v| if to == all.count() { Of::Value(first(v)) } else { Of::Carried(*v, to) })
            .collect();
        for (name, _) in here.distinct() {
            let mut at = carried;
            for (other, layers) in all.distinct() {
                let caches = signature(other).map_or(0, |s| s.caches.len());
                let range = [count(name, from), count(name, to)];
                let stack = |v: &Value| match range == [0, layers] {
                    true => Of::Value(first(v)),
                    false => Of::Slice(first(v), range),
                };
                if other == name {
                    out.extend(logical.results.iter().skip(at).take(caches).map(stack));
                }
                at += caches;
            }
        }
        out
    }
}
