//! What building one function needs at hand: its weights by name, its caches, the extents.

use super::params::Param;
use crate::codes;
use crate::spec::{DType, Mask, ModelSpec, Norm, NormKind, Storage};
use shardc_ir::attr::F64;
use shardc_ir::builder::FuncBuilder;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dim::Dim;
use shardc_ir::graph::{Func, Module, Value};
use shardc_ir::ops::Op;
use shardc_ir::ops::attention::{KvRead, KvWrite};
use shardc_ir::ops::contract::{Einsum, GroupedEinsum};
use shardc_ir::ops::elementwise::{Offset, Scale, Unary};
use shardc_ir::ops::norm::{LayerNorm, RmsNorm};
use shardc_ir::ops::shape::Cast;
use shardc_ir::types::{Kind, Type};
use std::collections::BTreeMap;

/// Most requests in one step.
const MAX_REQUESTS: u64 = 65_536;

/// Longest context of a model whose configuration names none.
const UNBOUNDED_POSITIONS: u64 = 1 << 20;

/// The symbolic extents of a module.
#[derive(Clone, Debug)]
pub(super) struct Extents {
    /// Requests.
    pub(super) b: Dim,
    /// New tokens of a request.
    pub(super) s: Dim,
    /// Cached positions, by the bound on the keys that a query sees.
    cached: BTreeMap<Option<u64>, Dim>,
}

impl Extents {
    /// Declares the symbols that the layers of a model need.
    pub(super) fn declare(module: &mut Module, spec: &ModelSpec) -> Self {
        let longest = spec.max_positions.unwrap_or(UNBOUNDED_POSITIONS);
        let mut symbol = |name: &str, hi: u64| Dim::sym(module.declare(name, 1, hi));
        let (b, s) = (symbol("B", MAX_REQUESTS), symbol("S", longest));
        let mut bounds: Vec<Option<u64>> =
            spec.layers.iter().map(|l| l.attention.kv_cache().bound).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let mut cached = BTreeMap::new();
        for bound in bounds {
            let dim = match bound {
                None => symbol("C", longest),
                Some(w) => symbol(&format!("C.{w}"), w.min(longest)),
            };
            cached.insert(bound, dim);
        }
        Extents { b, s, cached }
    }

    /// Cached positions of a layer with this mask.
    pub(super) fn cached(&self, mask: Mask) -> Dim {
        self.cached.get(&mask.bound()).copied().unwrap_or(self.s)
    }
}

/// A function under construction.
pub(super) struct Cx {
    pub(super) f: FuncBuilder,
    weights: BTreeMap<String, Value>,
    /// Caches by name, each with its newest version.
    caches: Vec<(String, Value)>,
    /// Format of activations.
    pub(super) dtype: DType,
}

impl Cx {
    /// Starts a function.
    pub(super) fn new(name: &str, dtype: DType) -> Self {
        let (f, weights) = (FuncBuilder::new(name), BTreeMap::new());
        Cx { f, weights, caches: Vec::new(), dtype }
    }

    /// Adds a weight parameter.
    pub(super) fn declare(&mut self, param: &Param, storage: Storage) {
        let dims = param.dims.iter().copied().map(Dim::fixed).collect();
        let value = self.f.weight(&param.name, dims, param.elem(storage));
        self.weights.insert(param.name.clone(), value);
    }

    /// Adds a cache parameter.
    pub(super) fn declare_cache(&mut self, name: &str, dims: Vec<Dim>, dtype: DType) {
        let value = self.f.cache(name, dims, dtype);
        self.caches.push((name.to_string(), value));
    }

    /// The weight of that name, if the function has one.
    pub(super) fn weight_if(&self, name: &str) -> Option<Value> {
        self.weights.get(name).copied()
    }

    /// The weight of that name.
    pub(super) fn weight(&self, name: &str) -> Result<Value> {
        self.weight_if(name).ok_or_else(|| missing("weight", name))
    }

    fn cache(&mut self, name: &str) -> Result<&mut Value> {
        let found = self.caches.iter_mut().find(|(n, _)| n == name).map(|(_, value)| value);
        found.ok_or_else(|| missing("cache", name))
    }

    /// Ends the function: it returns `results`, then the caches.
    pub(super) fn finish(self, results: &[Value]) -> Func {
        let caches = self.caches.iter().map(|(_, value)| *value);
        let returns: Vec<Value> = results.iter().copied().chain(caches).collect();
        self.f.finish(&returns)
    }

    /// An operator with one result.
    pub(super) fn op(&mut self, name: &str, op: Op, operands: &[Value]) -> Result<Value> {
        self.f.one(name, op, operands)
    }

    /// The projection of `x` by `weight.w`; plus `weight.b` along dimensions `bias` of the result
    /// where there is one. Routed rows meet each expert's own matrix.
    pub(super) fn project(
        &mut self,
        name: &str,
        x: Value,
        weight: &str,
        spec: &str,
        bias: &[usize],
    ) -> Result<Value> {
        let w = self.weight(&format!("{weight}.w"))?;
        let spec = spec.to_string();
        let op = match self.f.ty(x).kind {
            Kind::Routed { .. } => Op::GroupedDot(GroupedEinsum { spec, out: None }),
            _ => Op::Dot(Einsum { spec, out: None }),
        };
        let y = self.op(name, op, &[x, w])?;
        match self.weight_if(&format!("{weight}.b")) {
            Some(b) => self.f.add(&format!("{name}.biased"), y, b, bias),
            None => Ok(y),
        }
    }

    /// The norm `name` of `x` over its last `last` dimensions, with weights `name.w` and `name.b`
    /// where the function has them.
    pub(super) fn norm(&mut self, name: &str, x: Value, norm: Norm, last: usize) -> Result<Value> {
        let (w, b) = (self.weight_if(&format!("{name}.w")), self.weight_if(&format!("{name}.b")));
        let (eps, one_plus) = (F64(norm.eps), norm.unit_offset);
        let last_dims = (last > 1).then_some(last);
        let op = match norm.kind {
            NormKind::Rms => Op::RmsNorm(RmsNorm { eps, last: last_dims, one_plus }),
            NormKind::Layer => Op::LayerNorm(LayerNorm { eps, last: last_dims, one_plus }),
        };
        let fused = if norm.kind == NormKind::Layer && w.is_some() { b } else { None };
        let operands: Vec<Value> = [Some(x), w, fused].into_iter().flatten().collect();
        let y = self.op(name, op, &operands)?;
        let rank = self.f.ty(y).rank();
        match b.filter(|_| fused.is_none()) {
            Some(b) => {
                let dims: Vec<usize> = (rank.saturating_sub(last)..rank).collect();
                self.f.add(&format!("{name}.biased"), y, b, &dims)
            }
            None => Ok(y),
        }
    }

    /// The norm `name` of each row of `x` by itself, each with its own weights: `name.w` and
    /// `name.b` span all dimensions of `x` after `[B, S]`.
    pub(super) fn norm_by_rows(&mut self, name: &str, x: Value, norm: Norm) -> Result<Value> {
        let eps = F64(norm.eps);
        let op = match norm.kind {
            NormKind::Rms => Op::RmsNorm(RmsNorm { eps, last: None, one_plus: false }),
            NormKind::Layer => Op::LayerNorm(LayerNorm { eps, last: None, one_plus: false }),
        };
        let rows: Vec<usize> = (2..self.f.ty(x).rank()).collect();
        let mut y = self.op(&format!("{name}.rows"), op, &[x])?;
        if let Some(w) = self.weight_if(&format!("{name}.w")) {
            let scaled = self.f.mul(name, y, w, &rows)?;
            y = match norm.unit_offset {
                true => self.f.add(&format!("{name}.offset"), scaled, y, &[])?,
                false => scaled,
            };
        }
        match self.weight_if(&format!("{name}.b")) {
            Some(b) => self.f.add(&format!("{name}.biased"), y, b, &rows),
            None => Ok(y),
        }
    }

    /// [`Cx::norm`] over the last dimension, or `x` itself without a norm.
    pub(super) fn norm_if(&mut self, name: &str, x: Value, norm: Option<Norm>) -> Result<Value> {
        norm.map_or(Ok(x), |norm| self.norm(name, x, norm, 1))
    }

    /// `x` times a constant, or `x` itself where there is none or it is 1.
    pub(super) fn scale_if(&mut self, name: &str, x: Value, by: Option<f64>) -> Result<Value> {
        match by.filter(|&by| by != 1.0) {
            Some(by) => self.op(name, Op::Scale(Scale { by: F64(by) }), &[x]),
            None => Ok(x),
        }
    }

    /// `ln(1 + exp(x))`.
    pub(super) fn softplus(&mut self, name: &str, x: Value) -> Result<Value> {
        let power = self.op(&format!("{name}.exp"), Op::Exp(Unary {}), &[x])?;
        let raised = Op::Offset(Offset { by: F64(1.0) });
        let raised = self.op(&format!("{name}.exp_plus_one"), raised, &[power])?;
        self.op(name, Op::Log(Unary {}), &[raised])
    }

    /// `x` in another format, or `x` itself where it has that format.
    pub(super) fn cast_if(&mut self, name: &str, x: Value, to: DType) -> Result<Value> {
        if self.f.ty(x).elem.dtype == to {
            return Ok(x);
        }
        self.op(name, Op::Cast(Cast { to }), &[x])
    }

    /// `rows` in the format of a cache.
    pub(super) fn stored(&mut self, name: &str, rows: Value, cache: &str) -> Result<Value> {
        let current = *self.cache(cache)?;
        let dtype = self.f.ty(current).elem.dtype;
        self.cast_if(name, rows, dtype)
    }

    /// Writes rows at positions `pos` of a cache.
    pub(super) fn write(&mut self, cache: &str, rows: Value, pos: Value) -> Result<()> {
        let current = *self.cache(cache)?;
        let op = Op::KvWrite(KvWrite {});
        let written = self.op(&format!("{cache}.new"), op, &[current, rows, pos])?;
        *self.cache(cache)? = written;
        Ok(())
    }

    /// The newest version of a cache as a tensor.
    pub(super) fn read(&mut self, name: &str, cache: &str) -> Result<Value> {
        let current = *self.cache(cache)?;
        self.op(name, Op::KvRead(KvRead {}), &[current])
    }

    /// The type of a value.
    pub(super) fn ty(&self, value: Value) -> &Type {
        self.f.ty(value)
    }
}

fn missing(what: &str, name: &str) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(
        codes::GRAPH,
        format!("the graph needs {what} `{name}` and has none"),
    ))
}
