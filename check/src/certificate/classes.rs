//! Logical values, numbered so that equal ones have one number.
//!
//! Operators on equal operands give equal values. A stack has its ranges of layers as values of
//! their own, and what layers carry has its state after any number of them.

use super::refusal::{Outcome, refuse};
use super::signature::Signature;
use super::{codes, refusal::Refusal};
use shardc_ir::certificate::Term;
use shardc_ir::entity::EntityId;
use shardc_ir::graph::{Def, Func, FuncId, Inst, Module, Value};
use shardc_ir::ops::Op;
use shardc_ir::ops::control::Repeat;
use shardc_ir::types::Type;
use std::collections::HashMap;

/// The number of a logical value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Class(usize);

/// What makes a value what it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The parameter of that number.
    Param(usize),
    /// The result of that number of an operator on operands; types tell constants apart.
    Result(Box<Op>, Vec<Class>, Vec<Type>, usize),
    /// Layers of a stack.
    Slice(Class, u64, u64),
    /// What layers carry, in that position, after so many of them: `repeat` by its first result.
    Carried(Class, u64, usize),
}

/// The numbers of values; several functions may share them.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    known: HashMap<Key, Class>,
    types: Vec<Type>,
}

/// The number that the first result of an instruction has instead of its own, given those so far.
pub(super) type Instead<'a> = &'a mut dyn FnMut(&[Class], Inst) -> Option<Class>;

/// The values of one logical function.
pub(super) struct Classes<'a> {
    pub(super) module: &'a Module,
    pub(super) func: &'a Func,
    numbers: Numbers,
    of: Vec<Class>,
    by_name: HashMap<&'a str, Value>,
    /// Of a class the value that is defined first.
    first: HashMap<Class, Value>,
}

/// Whether the operator leaves the logical value as it is.
pub(super) fn is_identity(op: &Op) -> bool {
    matches!(op, Op::Constraint(_) | Op::ToPartial(_))
}

impl Numbers {
    fn number(&mut self, key: Key, ty: &Type) -> Class {
        let next = Class(self.types.len());
        let class = *self.known.entry(key).or_insert(next);
        if class == next {
            self.types.push(ty.clone());
        }
        class
    }

    /// Numbers the values of a function; `instead` gives some results another number.
    pub(super) fn of(&mut self, func: &Func, instead: Instead<'_>) -> Vec<Class> {
        let mut of = vec![Class(0); func.values.len()];
        for (i, &param) in func.params.iter().enumerate() {
            of[param.index()] = self.number(Key::Param(i), func.ty(param));
        }
        for &inst in &func.body {
            let data = &func.insts[inst];
            let operands: Vec<Class> = data.operands.iter().map(|v| of[v.index()]).collect();
            let types: Vec<Type> = data.results.iter().map(|&v| func.ty(v).clone()).collect();
            for (i, &result) in data.results.iter().enumerate() {
                let key =
                    Key::Result(Box::new(data.op.clone()), operands.clone(), types.clone(), i);
                of[result.index()] = match is_identity(&data.op) {
                    true => operands[0],
                    false => self.number(key, &types[i]),
                };
            }
            if let (Some(class), Some(result)) = (instead(&of, inst), data.results.first()) {
                of[result.index()] = class;
            }
        }
        of
    }
}

impl<'a> Classes<'a> {
    /// Numbers the values of a function.
    pub(super) fn of(module: &'a Module, id: FuncId) -> Self {
        let func = &module.funcs[id];
        let mut numbers = Numbers::default();
        let of = numbers.of(func, &mut |_, _| None);
        let by_name = func.values.iter().map(|(v, data)| (data.name.as_str(), v)).collect();
        let mut first = HashMap::new();
        let results = func.body.iter().flat_map(|&i| func.insts[i].results.iter());
        for &value in func.params.iter().chain(results) {
            first.entry(of[value.index()]).or_insert(value);
        }
        Classes { module, func, numbers, of, by_name, first }
    }

    /// The class of a value of the function.
    pub(super) fn class(&self, value: Value) -> Class {
        self.of[value.index()]
    }

    /// The logical type of a class.
    pub(super) fn ty(&self, class: Class) -> &Type {
        &self.numbers.types[class.0]
    }

    /// The value of that name, which must be the first of its class.
    pub(super) fn named(&self, name: &str) -> Outcome<Value> {
        let Some(&value) = self.by_name.get(name) else {
            let message = format!("@{} has no value %{name}", self.func.name);
            return refuse(codes::SITE, message);
        };
        match self.first.get(&self.class(value)) {
            Some(&first) if first != value => {
                let first = &self.func.values[first].name;
                refuse(codes::SITE, format!("%{name} is %{first}, and goes by that name"))
            }
            _ => Ok(value),
        }
    }

    /// The instruction that makes the value of that name as its first result.
    pub(super) fn made(&self, name: &str) -> Outcome<Inst> {
        match self.func.values[self.named(name)?].def {
            Def::Result(inst, 0) => Ok(inst),
            _ => refuse(codes::SITE, format!("%{name} is not the first result of an operator")),
        }
    }

    /// The class of a term, as a step names it.
    pub(super) fn term(&mut self, term: &Term) -> Outcome<Class> {
        match (term.layers, term.after) {
            (None, None) => Ok(self.class(self.named(&term.value)?)),
            (Some([lo, hi]), None) => {
                let stack = self.class(self.named(&term.value)?);
                let layers = self.layers(stack);
                if lo >= hi || layers.is_none_or(|n| hi > n || hi - lo == n) {
                    return refuse(codes::SITE, format!("{term} names no part of a stack"));
                }
                Ok(self.slice(stack, lo, hi))
            }
            (None, Some(after)) => {
                let value = self.by_name.get(term.value.as_str()).copied();
                let def = value.map(|v| self.func.values[v].def);
                let Some(Def::Result(inst, position)) = def else {
                    return refuse(codes::SITE, format!("{term}: no layers carry it"));
                };
                let repeat = self.repeat(inst)?;
                let carried = self.signature(repeat)?.carried.len();
                if position >= carried || after == 0 || after >= repeat.count() {
                    return refuse(codes::SITE, format!("{term} is no state between layers"));
                }
                self.carried(inst, after, position)
            }
            _ => refuse(codes::SITE, format!("{term} is both a stack and carried")),
        }
    }

    /// The operator of an instruction that repeats layers.
    pub(super) fn repeat(&self, inst: Inst) -> Outcome<&'a Repeat> {
        match &self.func.insts[inst].op {
            Op::Repeat(repeat) => Ok(repeat),
            op => refuse(codes::SITE, format!("`{}` repeats no layers", op.info().name)),
        }
    }

    /// What the layers of a `repeat` take; they all carry and share alike.
    pub(super) fn signature(&self, repeat: &Repeat) -> Outcome<Signature> {
        let first = repeat.layers.first().and_then(|run| run.body.first());
        let id = first.and_then(|name| self.module.func(name));
        let id = id.ok_or_else(|| Refusal {
            code: codes::REPEAT,
            message: "`repeat` runs a function that is not there".to_string(),
            notes: Vec::new(),
        })?;
        Signature::of(&self.module.funcs[id])
    }

    /// Number of slices of a stack.
    fn layers(&self, stack: Class) -> Option<u64> {
        self.ty(stack).dims.first()?.as_fixed()
    }

    /// Layers `lo..hi` of a stack; all of them are the stack.
    pub(super) fn slice(&mut self, stack: Class, lo: u64, hi: u64) -> Class {
        if lo == 0 && self.layers(stack) == Some(hi) {
            return stack;
        }
        let mut ty = self.ty(stack).clone();
        if let Some(first) = ty.dims.first_mut() {
            *first = hi.saturating_sub(lo).into();
        }
        self.numbers.number(Key::Slice(stack, lo, hi), &ty)
    }

    /// What the layers of a `repeat` carry in a position after so many of them.
    pub(super) fn carried(&mut self, inst: Inst, after: u64, position: usize) -> Outcome<Class> {
        let data = &self.func.insts[inst];
        let (before, behind) = (data.operands.get(position), data.results.get(position));
        let (Some(&before), Some(&behind), Some(&first)) = (before, behind, data.results.first())
        else {
            return refuse(codes::REPEAT, "`repeat` carries less");
        };
        let (start, end, repeat) = (self.class(before), self.class(behind), self.class(first));
        if after == 0 {
            return Ok(start);
        }
        if after == self.repeat(inst)?.count() {
            return Ok(end);
        }
        let ty = self.ty(end).clone();
        Ok(self.numbers.number(Key::Carried(repeat, after, position), &ty))
    }

    /// A class in words.
    pub(super) fn show(&self, class: Class) -> String {
        let name = |c: &Class| self.first.get(c).map(|&v| self.func.values[v].name.clone());
        if let Some(name) = name(&class) {
            return format!("%{name}");
        }
        let key = self.numbers.known.iter().find(|(_, c)| **c == class).map(|(key, _)| key);
        match key {
            Some(Key::Slice(of, lo, hi)) => {
                format!("%{}[{lo}..{hi}]", name(of).unwrap_or_default())
            }
            Some(Key::Carried(of, after, position)) => format!(
                "carried value {position} of %{} after {after} layers",
                name(of).unwrap_or_default()
            ),
            _ => "a value".to_string(),
        }
    }
}
