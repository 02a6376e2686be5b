//! The function `@main`: from token ids to next tokens.

use super::classes::Class;
use super::context::{Cx, Extents};
use super::params;
use crate::codes;
use crate::spec::{ModelSpec, Positions, Role, Storage, Weight};
use shardc_ir::attr::F64;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dtype::DType;
use shardc_ir::graph::{Func, Module, Value};
use shardc_ir::layers::{Interface, Slot};
use shardc_ir::ops::Op;
use shardc_ir::ops::control::Repeat;
use shardc_ir::ops::elementwise::{Offset, Scale, Unary};
use shardc_ir::ops::embed::{Embedding, LastToken};
use shardc_ir::ops::reduce::ArgMax;
use shardc_ir::types::{Kind, Type};
use std::collections::BTreeMap;

/// `(ids [B, S], pos [B, S], weights…, caches…)` to `(next, logits, caches…)`; the layer functions
/// are in `module`.
pub(super) fn build(
    spec: &ModelSpec,
    classes: &[Class],
    module: &Module,
    extents: &Extents,
    all_logits: bool,
) -> Result<Func> {
    let mut cx = Cx::new("main", spec.dtype);
    let ids = cx.f.input("ids", vec![extents.b, extents.s], DType::I32);
    let pos = cx.f.input("pos", vec![extents.b, extents.s], DType::I32);
    let repeat = Repeat::of_sequence(&sequence(spec, classes));
    let interface = Interface::of(module, &repeat).map_err(graph_bug)?;
    declare(&mut cx, params::of_entry(spec), spec.entry_weights());
    let mut stacked = declare_stacked(&mut cx, module, &interface, Kind::Weight)?;
    declare(&mut cx, params::of_exit(spec), spec.exit_weights());
    stacked.extend(declare_stacked(&mut cx, module, &interface, Kind::Cache)?);
    let x = embed(&mut cx, spec, ids, pos)?;
    let results = run_layers(&mut cx, module, &interface, repeat, [x, pos], &stacked)?;
    let (x, caches) = results.split_first().ok_or_else(|| graph_bug("no layers".to_string()))?;
    let [next, logits] = predict(&mut cx, spec, *x, all_logits)?;
    Ok(cx.finish(&[&[next, logits], caches].concat()))
}

/// The function of every layer, in order.
fn sequence<'a>(spec: &ModelSpec, classes: &'a [Class]) -> Vec<&'a str> {
    let mut names = vec![""; spec.layers.len()];
    for class in classes {
        for &index in &class.members {
            names[index] = &class.name;
        }
    }
    names
}

fn declare(cx: &mut Cx, params: Vec<params::Param>, weights: Vec<Weight>) {
    let storage: BTreeMap<Role, Storage> = weights.iter().map(|w| (w.role, w.storage)).collect();
    for param in params {
        let plain = Storage::plain(cx.dtype);
        cx.declare(&param, storage.get(&param.role).copied().unwrap_or(plain));
    }
}

/// What a stacked value is called outside: `f.<name>` for `<name>` of `@f`.
fn outer_name(module: &Module, slot: &Slot) -> String {
    let name = |&(func, value)| {
        let func: &Func = &module.funcs[func];
        format!("{}.{}", func.name, func.values[value].name)
    };
    slot.inner.first().map(name).unwrap_or_default()
}

/// Declares the stacked parameters of one kind; gives their values by position in the operands.
fn declare_stacked(
    cx: &mut Cx,
    module: &Module,
    interface: &Interface,
    kind: Kind,
) -> Result<BTreeMap<usize, Value>> {
    let mut values = BTreeMap::new();
    for (at, slot) in interface.operands.iter().enumerate() {
        let ty = outer_type(module, slot)?;
        if ty.kind == kind {
            values.insert(at, cx.f.param(&outer_name(module, slot), ty));
        }
    }
    Ok(values)
}

fn outer_type(module: &Module, slot: &Slot) -> Result<Type> {
    slot.outer_type(module).ok_or_else(|| graph_bug("a value of no layer".to_string()))
}

/// The first hidden state.
fn embed(cx: &mut Cx, spec: &ModelSpec, ids: Value, pos: Value) -> Result<Value> {
    let table = cx.weight("embed.w")?;
    let mut x = cx.op("embed", Op::Embedding(Embedding {}), &[table, ids])?;
    x = cx.scale_if("embed.scaled", x, spec.embedding.scale)?;
    if let Some(Positions { first, .. }) = spec.embedding.positions {
        let table = cx.weight("embed.positions.w")?;
        let pos = match first {
            0 => pos,
            n => cx.op("pos.row", Op::Offset(Offset { by: F64(n as f64) }), &[pos])?,
        };
        let rows = cx.op("embed.positions", Op::Embedding(Embedding {}), &[table, pos])?;
        x = cx.f.add("embed.positioned", x, rows, &[])?;
    }
    cx.norm_if("embed.norm", x, spec.embedding.norm)
}

/// All layers: the last hidden state, then the caches.
fn run_layers(
    cx: &mut Cx,
    module: &Module,
    interface: &Interface,
    repeat: Repeat,
    [x, pos]: [Value; 2],
    stacked: &BTreeMap<usize, Value>,
) -> Result<Vec<Value>> {
    let operands: Vec<Value> = [x, pos].into_iter().chain(stacked.values().copied()).collect();
    let mut results = Vec::new();
    for slot in &interface.results {
        let name = match slot.stacked {
            Some(_) => outer_name(module, slot),
            None => "hidden".to_string(),
        };
        results.push((name, outer_type(module, slot)?));
    }
    Ok(cx.f.emit_named(Op::Repeat(repeat), &operands, results))
}

/// Next tokens and logits from the last hidden state.
fn predict(cx: &mut Cx, spec: &ModelSpec, x: Value, all_logits: bool) -> Result<[Value; 2]> {
    let x = cx.norm_if("norm", x, spec.final_norm)?;
    let x = match all_logits {
        true => x,
        false => cx.op("last", Op::LastToken(LastToken {}), &[x])?,
    };
    let logits = match spec.head.tied {
        true => {
            let table = cx.weight("embed.w")?;
            let logits = cx.f.dot("logits", x, table, "bsh,vh->bsv")?;
            match cx.weight_if("head.b") {
                Some(b) => cx.f.add("logits.biased", logits, b, &[2])?,
                None => logits,
            }
        }
        false => cx.project("logits", x, "head", "bsh,hv->bsv", &[2])?,
    };
    let logits = cx.scale_if("logits.scaled", logits, spec.head.scale)?;
    let logits = cap(cx, logits, spec.head.soft_cap)?;
    let next = cx.op("next", Op::ArgMax(ArgMax { dim: 2 }), &[logits])?;
    Ok([next, logits])
}

/// `cap · tanh(logits / cap)`.
fn cap(cx: &mut Cx, logits: Value, cap: Option<f64>) -> Result<Value> {
    let Some(cap) = cap else { return Ok(logits) };
    let inner = Scale { by: F64(1.0 / cap) };
    let small = cx.op("logits.small", Op::Scale(inner), &[logits])?;
    let bent = cx.op("logits.bent", Op::Tanh(Unary {}), &[small])?;
    cx.op("logits.capped", Op::Scale(Scale { by: F64(cap) }), &[bent])
}

fn graph_bug(cause: String) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(codes::GRAPH, cause))
}
