//! Building functions one instruction at a time, with inferred types.
//!
//! ```
//! use shardc_ir::{builder::FuncBuilder, dtype::DType, graph::{Level, Module}, types::{Kind, Type}};
//! # fn main() -> shardc_ir::diag::Result<()> {
//! let mut module = Module::new("mlp", Level::Logical);
//! let t = shardc_ir::dim::Dim::sym(module.declare("T", 1, 8192));
//! let mut f = FuncBuilder::new("mlp");
//! let x = f.input("x", vec![t, 64.into()], DType::Bf16);
//! let w = f.weight("w", vec![64.into(), 256.into()], DType::Bf16);
//! let h = f.dot("h", x, w, "tk,kn->tn")?;
//! let y = f.unary("y", shardc_ir::ops::Op::Silu(shardc_ir::ops::elementwise::Unary {}), h)?;
//! module.funcs.push(f.finish(&[y]));
//! # Ok(())
//! # }
//! ```

use crate::codes;
use crate::diag::{Diagnostic, Result};
use crate::dim::Dim;
use crate::dtype::{DType, Elem};
use crate::graph::{Func, FuncKind, Value};
use crate::ops::contract::{Einsum, GroupedEinsum};
use crate::ops::elementwise::{AddLike, MulLike};
use crate::ops::{Inferred, Op};
use crate::types::{Kind, Type};

codes! {
    /// An operator does not fit its operands.
    BAD_OPERANDS = "B101", User, "an operator does not fit the operands it was built on";
}

/// Builds one function.
#[derive(Clone, Debug)]
pub struct FuncBuilder {
    func: Func,
}

impl FuncBuilder {
    /// Starts a function.
    pub fn new(name: &str) -> Self {
        FuncBuilder { func: Func::new(name, FuncKind::Func) }
    }

    /// Adds a parameter of any type.
    pub fn param(&mut self, name: &str, ty: Type) -> Value {
        self.func.add_param(name, ty, None)
    }

    /// Adds an input tensor.
    pub fn input(&mut self, name: &str, dims: Vec<Dim>, dtype: DType) -> Value {
        self.param(name, Type::tensor(dims, dtype))
    }

    /// Adds a weight.
    pub fn weight(&mut self, name: &str, dims: Vec<Dim>, elem: impl Into<Elem>) -> Value {
        self.param(name, Type { kind: Kind::Weight, dims, elem: elem.into() })
    }

    /// Adds a cache.
    pub fn cache(&mut self, name: &str, dims: Vec<Dim>, dtype: DType) -> Value {
        self.param(name, Type { kind: Kind::Cache, dims, elem: dtype.into() })
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        self.func.ty(value)
    }

    /// Appends an operator with inferred result types; results are called `name`, and the further
    /// ones `name.1`, `name.2`, ….
    ///
    /// # Errors
    /// The operator does not fit its operands.
    pub fn emit(&mut self, name: &str, op: Op, operands: &[Value]) -> Result<Vec<Value>> {
        let types = self.infer(name, &op, operands)?;
        Ok(self.emit_typed(name, op, operands, types))
    }

    fn infer(&self, name: &str, op: &Op, operands: &[Value]) -> Result<Vec<Type>> {
        let types: Vec<&Type> = operands.iter().map(|&v| self.func.ty(v)).collect();
        let fail = |cause: String| {
            let message =
                format!("`{}` for %{name} in @{}: {cause}", op.info().name, self.func.name);
            Box::new(Diagnostic::error(BAD_OPERANDS, message))
        };
        match op.infer(&types).map_err(fail)? {
            Inferred::Types(types) => Ok(types),
            Inferred::Declared(_) => Err(fail("its result types must be given".to_string())),
        }
    }

    /// Appends an operator with two inferred results, each under its own name.
    ///
    /// # Errors
    /// The operator does not fit its operands, or has not two results.
    pub fn two(&mut self, names: [&str; 2], op: Op, operands: &[Value]) -> Result<[Value; 2]> {
        let types = self.infer(names[0], &op, operands)?;
        let results = names.map(str::to_string).into_iter().zip(types).collect();
        match self.emit_named(op, operands, results)[..] {
            [a, b] => Ok([a, b]),
            ref other => {
                let message = format!("%{} is one of {} results, not 2", names[0], other.len());
                Err(Box::new(Diagnostic::error(BAD_OPERANDS, message)))
            }
        }
    }

    /// Appends an operator with results of the given names and types.
    pub fn emit_named(
        &mut self,
        op: Op,
        operands: &[Value],
        results: Vec<(String, Type)>,
    ) -> Vec<Value> {
        let results = results.into_iter().map(|(name, ty)| (name, ty, None)).collect();
        let inst = self.func.add_inst(op, operands.to_vec(), results);
        self.func.insts[inst].results.clone()
    }

    /// Appends an operator with the given result types.
    pub fn emit_typed(
        &mut self,
        name: &str,
        op: Op,
        operands: &[Value],
        types: Vec<Type>,
    ) -> Vec<Value> {
        let results = types.into_iter().map(|ty| (name.to_string(), ty)).collect();
        self.emit_named(op, operands, results)
    }

    /// Appends an operator with one result.
    ///
    /// # Errors
    /// The operator does not fit its operands.
    pub fn one(&mut self, name: &str, op: Op, operands: &[Value]) -> Result<Value> {
        Ok(self.emit(name, op, operands)?[0])
    }

    /// Contraction by an einsum spec.
    ///
    /// # Errors
    /// Letters and extents do not fit.
    pub fn dot(&mut self, name: &str, x: Value, w: Value, spec: &str) -> Result<Value> {
        self.one(name, Op::Dot(Einsum { spec: spec.to_string(), out: None }), &[x, w])
    }

    /// Contraction of routed rows by an einsum spec.
    ///
    /// # Errors
    /// Letters and extents do not fit.
    pub fn grouped_dot(&mut self, name: &str, x: Value, w: Value, spec: &str) -> Result<Value> {
        let spec = spec.to_string();
        self.one(name, Op::GroupedDot(GroupedEinsum { spec, out: None }), &[x, w])
    }

    /// Sum of equal shapes, or with `y` broadcast along dimensions `dims` of `x`.
    ///
    /// # Errors
    /// Extents do not fit.
    pub fn add(&mut self, name: &str, x: Value, y: Value, dims: &[usize]) -> Result<Value> {
        self.one(name, Op::Add(AddLike { dims: dims.to_vec() }), &[x, y])
    }

    /// Product of equal shapes, or with `y` broadcast along dimensions `dims` of `x`.
    ///
    /// # Errors
    /// Extents do not fit.
    pub fn mul(&mut self, name: &str, x: Value, y: Value, dims: &[usize]) -> Result<Value> {
        self.one(name, Op::Mul(MulLike { dims: dims.to_vec() }), &[x, y])
    }

    /// An operator of one operand.
    ///
    /// # Errors
    /// The operator does not fit.
    pub fn unary(&mut self, name: &str, op: Op, x: Value) -> Result<Value> {
        self.one(name, op, &[x])
    }

    /// Ends the function.
    pub fn finish(mut self, returns: &[Value]) -> Func {
        self.func.returns = returns.to_vec();
        self.func
    }
}
