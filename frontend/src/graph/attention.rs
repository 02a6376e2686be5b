//! Grouped-query attention with its variants, and its KV cache.

use super::context::{Cx, Extents};
use super::position::{rotate, tuned};
use crate::codes;
use crate::spec::{DType, GateActivation, Gqa, Mask, QkNorm, QkNormSpan};
use shardc_ir::attr::F64;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dim::Dim;
use shardc_ir::graph::Value;
use shardc_ir::ops::Op;
use shardc_ir::ops::attention::Attention;
use shardc_ir::ops::elementwise::{Clamp, Unary};
use shardc_ir::ops::position::AlibiSlopes;

const KEYS: &str = "attn.k_cache";
const VALUES: &str = "attn.v_cache";

/// Declares the caches `[B, C, kv, d]`, rotated keys and values.
pub(super) fn declare_caches(cx: &mut Cx, a: &Gqa, extents: &Extents, kv: DType) {
    let rows = |width: u64| {
        vec![extents.b, extents.cached(a.mask), Dim::fixed(a.kv_heads), Dim::fixed(width)]
    };
    cx.declare_cache(KEYS, rows(a.head_dim), kv);
    cx.declare_cache(VALUES, rows(a.v_head_dim), kv);
}

/// Attention of `x` `[B, S, H]` at positions `pos`, up to and with the output projection.
pub(super) fn build(cx: &mut Cx, a: &Gqa, x: Value, pos: Value) -> Result<Value> {
    check(a)?;
    let q = cx.project("attn.q", x, "attn.q", "bsh,hkgd->bskgd", &[2, 3, 4])?;
    let k = cx.project("attn.k", x, "attn.k", "bsh,hkd->bskd", &[2, 3])?;
    let v = cx.project("attn.v", x, "attn.v", "bsh,hkd->bskd", &[2, 3])?;
    let q = positioned(cx, a, 'q', q, pos)?;
    let k = positioned(cx, a, 'k', k, pos)?;
    let v = clip(cx, a, 'v', v)?;
    let v = cx.scale_if("attn.v.scaled", v, a.v_scale)?;
    let q = tuned(cx, a.temperature, q, pos)?;
    let ctx = attend(cx, a, [q, k, v], pos)?;
    let ctx = gated(cx, a, x, ctx)?;
    cx.project("attn.o", ctx, "attn.o", "bskgd,kgdh->bsh", &[2])
}

/// What attention gives, times the gate of the layer's input where there is one.
fn gated(cx: &mut Cx, a: &Gqa, x: Value, ctx: Value) -> Result<Value> {
    let Some(gate) = a.gate else { return Ok(ctx) };
    let (param, spec, dims): (_, _, &[usize]) = match gate.per_head {
        true => ("attn.head_gate", "bsh,hkg->bskg", &[0, 1, 2, 3]),
        false => ("attn.gate", "bsh,hkgd->bskgd", &[]),
    };
    let open = cx.project("attn.gate", x, param, spec, &[])?;
    let open = match gate.activation {
        GateActivation::Sigmoid => cx.op("attn.gate.act", Op::Sigmoid(Unary {}), &[open])?,
        GateActivation::Softplus => cx.softplus("attn.gate.act", open)?,
    };
    cx.f.mul("attn.ctx.gated", ctx, open, dims)
}

/// Heads must group.
fn check(a: &Gqa) -> Result<()> {
    if a.kv_heads == 0 || !a.heads.is_multiple_of(a.kv_heads) {
        let message = format!("{} query heads do not group over {} KV heads", a.heads, a.kv_heads);
        return Err(Box::new(
            Diagnostic::error(codes::UNSUPPORTED_VALUE, message)
                .help("the number of query heads must be a multiple of the KV heads"),
        ));
    }
    Ok(())
}

/// Queries or keys clipped, normed and rotated, in the model's order.
fn positioned(cx: &mut Cx, a: &Gqa, side: char, x: Value, pos: Value) -> Result<Value> {
    let (before, after) = match a.qk_norm {
        Some(norm) if norm.after_rope => (None, Some(norm)),
        norm => (norm, None),
    };
    let x = head_norm(cx, before, side, x)?;
    let x = clip(cx, a, side, x)?;
    let x = match &a.rope {
        Some(rope) => rotate(cx, &format!("attn.{side}.rope"), x, rope, pos)?,
        None => x,
    };
    head_norm(cx, after, side, x)
}

fn clip(cx: &mut Cx, a: &Gqa, side: char, x: Value) -> Result<Value> {
    let Some(limit) = a.clip_qkv else { return Ok(x) };
    let op = Clamp { lo: Some(F64(-limit)), hi: Some(F64(limit)) };
    cx.op(&format!("attn.{side}.clip"), Op::Clamp(op), &[x])
}

/// A norm on queries `[B, S, kv, group, d]` or keys `[B, S, kv, d]`.
fn head_norm(cx: &mut Cx, norm: Option<QkNorm>, side: char, x: Value) -> Result<Value> {
    let Some(QkNorm { norm, span, .. }) = norm else { return Ok(x) };
    let name = format!("attn.{side}_norm");
    let heads = cx.ty(x).rank() - 3;
    match span {
        QkNormSpan::Head => cx.norm(&name, x, norm, 1),
        QkNormSpan::Whole => cx.norm(&name, x, norm, heads + 1),
        QkNormSpan::EachHead => cx.norm_by_rows(&name, x, norm),
    }
}

/// Attention over the cached keys. A window's cache keeps its last rows only, so there the new
/// keys are seen beside it and written afterwards.
fn attend(cx: &mut Cx, a: &Gqa, [q, k, v]: [Value; 3], pos: Value) -> Result<Value> {
    let fresh = a.mask != Mask::Causal;
    let k = cx.stored("attn.k.stored", k, KEYS)?;
    let v = cx.stored("attn.v.stored", v, VALUES)?;
    if !fresh {
        cx.write(KEYS, k, pos)?;
        cx.write(VALUES, v, pos)?;
    }
    let keys = cx.read("attn.keys", KEYS)?;
    let values = cx.read("attn.values", VALUES)?;
    let mut operands = vec![q, keys, values, pos];
    if a.sinks {
        operands.push(cx.weight("attn.sinks.w")?);
    }
    operands.extend(slopes(cx, a)?);
    if fresh {
        operands.extend([k, v]);
    }
    let op = Attention {
        scale: F64(a.scale),
        window: window(a.mask),
        chunk: chunk(a.mask),
        soft_cap: a.soft_cap.map(F64),
        sinks: a.sinks,
        alibi: a.alibi.is_some(),
        selected: false,
        fresh,
        bidirectional: false,
    };
    let ctx = cx.op("attn.ctx", Op::Attention(op), &operands)?;
    if fresh {
        cx.write(KEYS, k, pos)?;
        cx.write(VALUES, v, pos)?;
    }
    Ok(ctx)
}

/// The slopes `[kv, group]` of ALiBi, where the layer has them.
fn slopes(cx: &mut Cx, a: &Gqa) -> Result<Option<Value>> {
    let Some(alibi) = a.alibi else { return Ok(None) };
    let op = AlibiSlopes {
        kv: a.kv_heads,
        group: a.heads / a.kv_heads,
        max_bias: F64(alibi.max_bias),
        scale: Some(F64(alibi.scale)).filter(|_| alibi.scale != 1.0),
    };
    cx.op("attn.slopes", Op::AlibiSlopes(op), &[]).map(Some)
}

fn window(mask: Mask) -> Option<u64> {
    if let Mask::Window(n) = mask { Some(n) } else { None }
}

fn chunk(mask: Mask) -> Option<u64> {
    if let Mask::Chunk(n) = mask { Some(n) } else { None }
}
