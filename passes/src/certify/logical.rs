//! Logical functions by what they compute: equal values, and operators by their operands.

use crate::precondition::models;
use shardc_ir::entity::EntityId;
use shardc_ir::graph::{Def, Func, Inst, Module, Value};
use shardc_ir::ops::Op;
use shardc_ir::types::Type;
use std::collections::HashMap;

/// The name of the function that no `repeat` runs.
pub(super) fn main(module: &Module) -> Option<&str> {
    models(module).first().map(|&id| module.funcs[id].name.as_str())
}

/// A logical function whose values can be found.
pub(super) struct Logical<'a> {
    pub(super) func: &'a Func,
    /// Of every value the first that is equal to it.
    first: Vec<Value>,
    by_operands: HashMap<(&'static str, Vec<Value>), Vec<Inst>>,
    by_name: HashMap<&'a str, Value>,
}

impl<'a> Logical<'a> {
    pub(super) fn new(func: &'a Func) -> Self {
        let mut known: HashMap<(&Op, Vec<Value>, Vec<&Type>), Inst> = HashMap::new();
        let mut by_operands: HashMap<(&'static str, Vec<Value>), Vec<Inst>> = HashMap::new();
        let mut first: Vec<Value> = func.values.keys().collect();
        for &inst in &func.body {
            let data = &func.insts[inst];
            let operands: Vec<Value> = data.operands.iter().map(|v| first[v.index()]).collect();
            if matches!(data.op, Op::Constraint(_) | Op::ToPartial(_)) {
                first[data.results[0].index()] = operands[0];
                continue;
            }
            let key = (&data.op, operands.clone(), func.result_types(inst));
            let equal = *known.entry(key).or_insert(inst);
            for (&result, &other) in data.results.iter().zip(&func.insts[equal].results) {
                first[result.index()] = other;
            }
            if equal == inst {
                let key = (data.op.info().name, operands);
                by_operands.entry(key).or_default().push(inst);
            }
        }
        let by_name = func.values.iter().map(|(v, data)| (data.name.as_str(), v)).collect();
        Logical { func, first, by_operands, by_name }
    }

    /// The first value that is equal.
    pub(super) fn first(&self, value: Value) -> Value {
        self.first[value.index()]
    }

    /// The name of a value.
    pub(super) fn name(&self, value: Value) -> &'a str {
        &self.func.values[value].name
    }

    /// The value that a local one is named after: by its own name, or by it without suffixes.
    pub(super) fn named(&self, name: &str) -> Option<Value> {
        let mut name = name;
        loop {
            match (self.by_name.get(name), name.rsplit_once('.')) {
                (Some(&value), _) => return Some(value),
                (None, Some((base, _))) => name = base,
                (None, None) => return None,
            }
        }
    }

    /// The instruction that applies an operator to operands; of several the one that makes `name`,
    /// and where there is none, the one that makes it of other operands.
    pub(super) fn applied(&self, op: &str, operands: Option<&[Value]>, name: &str) -> Option<Inst> {
        let made = |value: Value| match self.func.values[value].def {
            Def::Result(inst, _) => Some(inst),
            Def::Param(_) => None,
        };
        let namesake = self.named(name).and_then(|v| made(self.first(v)));
        let namesake = namesake.filter(|&i| self.func.insts[i].op.info().name == op);
        let row = OpName::of(op)?;
        let found = operands.and_then(|list| self.by_operands.get(&(row.0, list.to_vec())));
        match found {
            Some(list) => namesake.filter(|i| list.contains(i)).or(list.first().copied()),
            None => namesake,
        }
    }
}

/// The name of an operator as its row has it.
struct OpName(&'static str);

impl OpName {
    fn of(name: &str) -> Option<Self> {
        shardc_ir::ops::OpInfo::find(name).map(|row| OpName(row.name))
    }
}
