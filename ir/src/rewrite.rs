//! Rebuilding a function with some instructions replaced.

use crate::entity::SecondaryMap;
use crate::graph::{Func, Inst, Value};
use crate::layout::Sharding;
use crate::ops::Op;
use crate::types::Type;

/// Copies a function instruction by instruction; a pass replaces those it cares about.
///
/// Every old value used later must have been bound to a new one, by [`copy`](Self::copy) or
/// [`bind`](Self::bind).
#[derive(Debug)]
pub struct Rewriter<'a> {
    old: &'a Func,
    new: Func,
    map: SecondaryMap<Value, Option<Value>>,
}

impl<'a> Rewriter<'a> {
    /// Starts with the parameters copied.
    pub fn new(old: &'a Func) -> Self {
        let mut new = Func::new(&old.name, old.kind);
        let mut map = SecondaryMap::default();
        for &param in &old.params {
            let data = &old.values[param];
            map[param] = Some(new.add_param(&data.name, data.ty.clone(), data.sharding.clone()));
        }
        Rewriter { old, new, map }
    }

    /// The function being copied.
    pub fn old(&self) -> &'a Func {
        self.old
    }

    /// The function built so far.
    pub fn new_func(&self) -> &Func {
        &self.new
    }

    /// The function built so far, to adjust what was copied.
    pub fn new_func_mut(&mut self) -> &mut Func {
        &mut self.new
    }

    /// The new value of an old one.
    pub fn get(&self, old: Value) -> Value {
        debug_assert!(self.map[old].is_some(), "%{} is not bound", self.old.values[old].name);
        self.map[old].unwrap_or(old)
    }

    /// Lets later uses of `old` read `new`.
    pub fn bind(&mut self, old: Value, new: Value) {
        self.map[old] = Some(new);
    }

    /// Copies an instruction as it is.
    pub fn copy(&mut self, inst: Inst) -> Inst {
        let operands = self.old.insts[inst].operands.iter().map(|&v| self.get(v)).collect();
        self.copy_with(inst, operands)
    }

    /// Copies an instruction onto other operands.
    pub fn copy_with(&mut self, inst: Inst, operands: Vec<Value>) -> Inst {
        let data = &self.old.insts[inst];
        let result = |&v: &Value| {
            let old = &self.old.values[v];
            (old.name.clone(), old.ty.clone(), old.sharding.clone())
        };
        let results = data.results.iter().map(result).collect();
        let new = self.new.add_inst(data.op.clone(), operands, results);
        for (&old, new_value) in data.results.iter().zip(self.new.insts[new].results.clone()) {
            self.map[old] = Some(new_value);
        }
        new
    }

    /// Appends a new instruction with one result.
    pub fn emit(
        &mut self,
        name: &str,
        op: Op,
        operands: Vec<Value>,
        ty: Type,
        sharding: Option<Sharding>,
    ) -> Value {
        let inst = self.new.add_inst(op, operands, vec![(name.to_string(), ty, sharding)]);
        self.new.insts[inst].results[0]
    }

    /// Ends with the old returned values.
    pub fn finish(mut self) -> Func {
        self.new.returns = self.old.returns.iter().map(|&v| self.get(v)).collect();
        self.new
    }
}
