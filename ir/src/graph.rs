//! Modules, functions, values and instructions.
//!
//! A function is one straight line of instructions in SSA form; layers repeat through
//! [`Repeat`](crate::ops::control::Repeat), which names layer functions, so there are no regions.

use crate::attr::AttrValue;
use crate::dim::{Bindings, Dim, Sym, SymDim};
use crate::entity::{PrimaryMap, SecondaryMap};
use crate::entity_id;
use crate::layout::{Layout, Sharding};
use crate::mesh::Mesh;
use crate::names::Names;
use crate::ops::Op;
use crate::rule::Rule;
use crate::types::{Kind, Type};
use std::fmt;

entity_id! {
    /// A value of a function.
    Value
}
entity_id! {
    /// An instruction of a function.
    Inst
}
entity_id! {
    /// A function of a module.
    FuncId
}

/// What has been decided in a module; each level has its section in the verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Values are global tensors; annotations may pin layouts.
    Logical,
    /// Every value has a layout; `reshard` stands where layouts differ.
    Sharded,
    /// Values are still global, and collectives have replaced `reshard`.
    Collective,
    /// Values are per-device tensors; one program per pipeline stage.
    Local,
}

impl Level {
    /// Every level with its name in the text.
    pub const NAMES: [(Level, &'static str); 4] = [
        (Level::Logical, "logical"),
        (Level::Sharded, "sharded"),
        (Level::Collective, "collective"),
        (Level::Local, "local"),
    ];

    /// Name in the text.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// The level of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, n)| *n == name).map(|(l, _)| *l)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A program at one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Name, printed as `@name`.
    pub name: String,
    /// What has been decided.
    pub level: Level,
    /// Facts worth keeping with the program, such as its source.
    pub attrs: Vec<(String, AttrValue)>,
    /// The devices; absent in an unannotated logical program.
    pub mesh: Option<Mesh>,
    /// Declared symbols.
    pub syms: PrimaryMap<Sym, SymDim>,
    /// Functions; callers come after the layer functions they repeat.
    pub funcs: PrimaryMap<FuncId, Func>,
}

/// Whether a function runs alone or as part of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FuncKind {
    /// `func`: a layer function, or the whole model above local level.
    Func,
    /// `program`: what the devices of one pipeline stage run.
    Program,
}

/// A straight line of instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Func {
    /// Name, printed as `@name`.
    pub name: String,
    /// `func` or `program`.
    pub kind: FuncKind,
    /// All values.
    pub values: PrimaryMap<Value, ValueData>,
    /// All instructions.
    pub insts: PrimaryMap<Inst, InstData>,
    /// Parameters, in order.
    pub params: Vec<Value>,
    /// Instructions, in order of execution.
    pub body: Vec<Inst>,
    /// Returned values.
    pub returns: Vec<Value>,
    /// The names of the values.
    names: Names,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueData {
    /// Name without `%`, unique in the function.
    pub name: String,
    /// Type: global extents above local level, per-device extents at it.
    pub ty: Type,
    /// Layout: an annotation at logical level, decided from sharded level on.
    pub sharding: Option<Sharding>,
    /// Where it comes from.
    pub def: Def,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Def {
    /// The parameter of that number.
    Param(usize),
    /// The result of that number of an instruction.
    Result(Inst, usize),
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstData {
    /// The operator.
    pub op: Op,
    /// Operands.
    pub operands: Vec<Value>,
    /// Results.
    pub results: Vec<Value>,
}

impl Module {
    /// An empty module.
    pub fn new(name: &str, level: Level) -> Self {
        Module {
            name: name.to_string(),
            level,
            attrs: Vec::new(),
            mesh: None,
            syms: PrimaryMap::default(),
            funcs: PrimaryMap::default(),
        }
    }

    /// Declares a symbol, or returns the one of that name.
    pub fn declare(&mut self, name: &str, lo: u64, hi: u64) -> Sym {
        self.sym(name).unwrap_or_else(|| self.syms.push(SymDim { name: name.to_string(), lo, hi }))
    }

    /// The symbol of that name.
    pub fn sym(&self, name: &str) -> Option<Sym> {
        self.syms.iter().find(|(_, s)| s.name == name).map(|(id, _)| id)
    }

    /// The function of that name.
    pub fn func(&self, name: &str) -> Option<FuncId> {
        self.funcs.iter().find(|(_, f)| f.name == name).map(|(id, _)| id)
    }

    /// Values of the symbols: those given by name, the upper bounds of the others.
    pub fn bind(&self, values: &[(&str, u64)]) -> Bindings {
        let mut bind = Bindings::default();
        for (sym, data) in self.syms.iter() {
            let given = values.iter().find(|(name, _)| *name == data.name);
            bind.set(sym, given.map_or(data.hi, |(_, v)| *v));
        }
        bind
    }

    /// A text with the names of symbols put in for their [placeholders](Sym::placeholder).
    pub fn name_symbols(&self, text: &str) -> String {
        let named = |text: String, (sym, data): (Sym, &SymDim)| {
            text.replace(&format!("%{}", sym.placeholder()), &format!("%{}", data.name))
        };
        self.syms.iter().take(8).fold(text.to_string(), named)
    }

    /// Shows an extent with the symbol names of this module.
    pub fn show_dim(&self, dim: Dim) -> String {
        dim.show(&|s| self.syms[s].name.as_str()).to_string()
    }
}

impl Func {
    /// An empty function.
    pub fn new(name: &str, kind: FuncKind) -> Self {
        Func {
            name: name.to_string(),
            kind,
            values: PrimaryMap::default(),
            insts: PrimaryMap::default(),
            params: Vec::new(),
            body: Vec::new(),
            returns: Vec::new(),
            names: Names::default(),
        }
    }

    /// Adds a parameter; the name is made unique.
    pub fn add_param(&mut self, name: &str, ty: Type, sharding: Option<Sharding>) -> Value {
        let name = self.fresh_name(name);
        let def = Def::Param(self.params.len());
        let value = self.values.push(ValueData { name, ty, sharding, def });
        self.params.push(value);
        value
    }

    /// Appends an instruction with results of the given names, types and layouts.
    pub fn add_inst(
        &mut self,
        op: Op,
        operands: Vec<Value>,
        results: Vec<(String, Type, Option<Sharding>)>,
    ) -> Inst {
        let inst = self.insts.push(InstData { op, operands, results: Vec::new() });
        for (i, (name, ty, sharding)) in results.into_iter().enumerate() {
            let name = self.fresh_name(&name);
            let def = Def::Result(inst, i);
            let value = self.values.push(ValueData { name, ty, sharding, def });
            self.insts[inst].results.push(value);
        }
        self.body.push(inst);
        inst
    }

    /// Calls a value `base`, or `base.1`, `base.2`, … where that is taken.
    pub fn rename(&mut self, value: Value, base: &str) {
        let name = self.fresh_name(base);
        let old = std::mem::replace(&mut self.values[value].name, name);
        self.names.release(&old);
    }

    /// `base`, or `base.1`, `base.2`, … where it is taken, for a value that is added next.
    pub(crate) fn fresh_name(&mut self, base: &str) -> String {
        self.names.note(&self.values);
        self.names.fresh(base)
    }

    /// The value of that name.
    pub fn value(&self, name: &str) -> Option<Value> {
        self.values.iter().find(|(_, v)| v.name == name).map(|(id, _)| id)
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.values[value].ty
    }

    /// The layout of a value; `None` where nothing is said.
    pub fn layout(&self, value: Value) -> Option<&Layout> {
        self.values[value].sharding.as_ref().map(|s| &s.layout)
    }

    /// How often each value is read, by instructions and by what is returned.
    pub fn uses(&self) -> SecondaryMap<Value, u32> {
        let mut count = SecondaryMap::default();
        let operands = self.body.iter().flat_map(|&i| &self.insts[i].operands);
        operands.chain(&self.returns).for_each(|&v| count[v] += 1);
        count
    }

    /// Operand types of an instruction.
    pub fn operand_types(&self, inst: Inst) -> Vec<&Type> {
        self.insts[inst].operands.iter().map(|&v| self.ty(v)).collect()
    }

    /// Result types of an instruction.
    pub fn result_types(&self, inst: Inst) -> Vec<&Type> {
        self.insts[inst].results.iter().map(|&v| self.ty(v)).collect()
    }

    /// The sharding rule of an instruction at the types that it has here; `None` of operators without
    /// factors.
    pub fn rule(&self, inst: Inst) -> Option<Rule> {
        self.insts[inst].op.rule(&self.operand_types(inst), &self.result_types(inst))
    }

    /// The signature of a function that `repeat` runs.
    pub fn layer_signature(&self) -> LayerSignature {
        let of = |kind: Kind| {
            self.params.iter().copied().filter(|&v| self.ty(v).kind == kind).collect::<Vec<_>>()
        };
        let (tensors, weights, caches) = (of(Kind::Tensor), of(Kind::Weight), of(Kind::Cache));
        let carried = self.returns.len().saturating_sub(caches.len()).min(tensors.len());
        LayerSignature {
            carried: tensors[..carried].to_vec(),
            shared: tensors[carried..].to_vec(),
            weights,
            caches,
        }
    }
}

/// The parameters of a layer function by their part in `repeat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSignature {
    /// Handed from layer to layer: as many leading tensors as results that are no caches.
    pub carried: Vec<Value>,
    /// The same for all layers: the remaining tensors.
    pub shared: Vec<Value>,
    /// One slice per layer.
    pub weights: Vec<Value>,
    /// One slice per layer, returned updated, in order, after the carried values.
    pub caches: Vec<Value>,
}
