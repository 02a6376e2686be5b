//! Multi-head latent attention in its expanded form, and DeepSeek's sparse-attention indexer.
//!
//! The cache holds one row per token: the normed latent, then the rotated key that all heads share.
//! Every head's key is its own projection of the latent beside that shared part.

use super::context::{Cx, Extents};
use super::position::{rotate, tuned};
use crate::spec::{DType, Indexer, Mask, Mla, Rope};
use shardc_ir::attr::F64;
use shardc_ir::diag::Result;
use shardc_ir::dim::Dim;
use shardc_ir::graph::Value;
use shardc_ir::ops::Op;
use shardc_ir::ops::attention::{Attention, SparseIndex};
use shardc_ir::ops::contract::Einsum;
use shardc_ir::ops::shape::{Broadcast, Concat, Slice};

const LATENT: &str = "attn.latent_cache";
const INDEX: &str = "index.k_cache";

/// Declares the latent cache `[B, C, latent + rope]` and the indexer's keys `[B, C, d]`.
pub(super) fn declare_caches(cx: &mut Cx, a: &Mla, extents: &Extents, kv: DType) {
    let rows = |width: u64| vec![extents.b, extents.cached(Mask::Causal), Dim::fixed(width)];
    cx.declare_cache(LATENT, rows(a.kv_lora_rank.saturating_add(a.rope_dim)), kv);
    if let Some(indexer) = a.indexer {
        cx.declare_cache(INDEX, rows(indexer.head_dim), kv);
    }
}

/// Attention of `x` `[B, S, H]` at positions `pos`, up to and with the output projection.
pub(super) fn build(cx: &mut Cx, a: &Mla, x: Value, pos: Value) -> Result<Value> {
    let latent = query_latent(cx, a, x)?;
    let q = queries(cx, a, latent, pos)?;
    write_row(cx, a, x, pos)?;
    let [k, v] = keys_and_values(cx, a)?;
    let mut operands = vec![q, k, v, pos];
    if let Some(indexer) = &a.indexer {
        operands.push(select(cx, a, indexer, [latent, x, pos])?);
    }
    let op = Attention {
        scale: F64(a.scale),
        window: None,
        chunk: None,
        soft_cap: None,
        sinks: false,
        alibi: false,
        selected: a.indexer.is_some(),
        fresh: false,
        bidirectional: false,
    };
    let ctx = cx.op("attn.ctx", Op::Attention(op), &operands)?;
    cx.project("attn.o", ctx, "attn.o", "bskgd,kgdh->bsh", &[2])
}

/// What queries are projected from: the normed query latent, or `x` itself.
fn query_latent(cx: &mut Cx, a: &Mla, x: Value) -> Result<Value> {
    if a.q_lora_rank.is_none() {
        return Ok(x);
    }
    let down = cx.project("attn.q_a", x, "attn.q_a", "bsh,hr->bsr", &[2])?;
    cx.norm("attn.q_a_norm", down, a.latent_norm, 1)
}

/// Queries `[B, S, n, 1, nope + rope]`, their last `rope` elements rotated.
fn queries(cx: &mut Cx, a: &Mla, latent: Value, pos: Value) -> Result<Value> {
    let weight = if a.q_lora_rank.is_some() { "attn.q_b" } else { "attn.q" };
    let q = cx.project("attn.q", latent, weight, "bsr,rkgd->bskgd", &[])?;
    let whole = a.nope_dim.saturating_add(a.rope_dim);
    let nope = slice(cx, "attn.q.nope", q, 4, 0, a.nope_dim)?;
    let tail = slice(cx, "attn.q.tail", q, 4, a.nope_dim, whole)?;
    let tail = rotate(cx, "attn.q.rope", tail, &a.rope, pos)?;
    let whole = cx.op("attn.q.whole", Op::Concat(Concat { dim: 4 }), &[nope, tail])?;
    tuned(cx, a.temperature, whole, pos)
}

/// Writes the row of each new token: normed latent, rotated shared key.
fn write_row(cx: &mut Cx, a: &Mla, x: Value, pos: Value) -> Result<()> {
    let row = cx.project("attn.kv_a", x, "attn.kv_a", "bsh,hr->bsr", &[2])?;
    let whole = a.kv_lora_rank.saturating_add(a.rope_dim);
    let latent = slice(cx, "attn.kv_a.latent", row, 2, 0, a.kv_lora_rank)?;
    let latent = cx.norm("attn.kv_a_norm", latent, a.latent_norm, 1)?;
    let key = slice(cx, "attn.kv_a.tail", row, 2, a.kv_lora_rank, whole)?;
    let key = rotate(cx, "attn.k.rope", key, &a.rope, pos)?;
    let row = cx.op("attn.latent", Op::Concat(Concat { dim: 2 }), &[latent, key])?;
    let row = cx.stored("attn.latent.stored", row, LATENT)?;
    cx.write(LATENT, row, pos)
}

/// Keys `[B, C, n, nope + rope]` and values `[B, C, n, v]` of all cached tokens.
fn keys_and_values(cx: &mut Cx, a: &Mla) -> Result<[Value; 2]> {
    let rows = cx.read("attn.latents", LATENT)?;
    let whole = a.kv_lora_rank.saturating_add(a.rope_dim);
    let latent = slice(cx, "attn.latents.kv", rows, 2, 0, a.kv_lora_rank)?;
    let shared = slice(cx, "attn.latents.rope", rows, 2, a.kv_lora_rank, whole)?;
    let nope = expand(cx, "attn.k", latent, "attn.kv_b_k.w")?;
    let v = expand(cx, "attn.v", latent, "attn.kv_b_v.w")?;
    let shared = cx.cast_if("attn.k.shared", shared, cx.dtype)?;
    let mut shape = cx.ty(nope).dims.clone();
    shape[3] = Dim::fixed(a.rope_dim);
    let op = Op::Broadcast(Broadcast { shape, dims: vec![0, 1, 3] });
    let shared = cx.op("attn.k.tail", op, &[shared])?;
    let k = cx.op("attn.k.whole", Op::Concat(Concat { dim: 3 }), &[nope, shared])?;
    Ok([k, v])
}

/// A part of every head from the cached latents.
fn expand(cx: &mut Cx, name: &str, latent: Value, weight: &str) -> Result<Value> {
    let w = cx.weight(weight)?;
    let out = Some(cx.dtype).filter(|&d| d != cx.ty(latent).elem.dtype);
    let op = Einsum { spec: "bcr,rnd->bcnd".to_string(), out };
    cx.op(name, Op::Dot(op), &[latent, w])
}

/// The positions `[B, S, top_k]` that the indexer keeps for each query: scores are
/// `Σ_n w_n · relu(q_n · k) / √(heads · width)` (DeepSeek-V3.2's reference implementation).
fn select(cx: &mut Cx, a: &Mla, indexer: &Indexer, [latent, x, pos]: [Value; 3]) -> Result<Value> {
    let rope = Rope { interleaved: indexer.interleaved, ..a.rope.clone() };
    let q = cx.project("index.q", latent, "index.q", "bsr,rnd->bsnd", &[])?;
    let q = rotate(cx, "index.q.rope", q, &rope, pos)?;
    let k = cx.project("index.k", x, "index.k", "bsh,hd->bsd", &[])?;
    let k = cx.norm("index.k_norm", k, indexer.key_norm, 1)?;
    let k = rotate(cx, "index.k.rope", k, &rope, pos)?;
    let k = cx.stored("index.k.stored", k, INDEX)?;
    cx.write(INDEX, k, pos)?;
    let keys = cx.read("index.keys", INDEX)?;
    let w = cx.project("index.weights", x, "index.weights", "bsh,hn->bsn", &[])?;
    let by = 1.0 / (indexer.heads as f64 * indexer.head_dim as f64).sqrt();
    let w = cx.scale_if("index.weights.scaled", w, Some(by))?;
    let op = Op::SparseIndex(SparseIndex { top_k: indexer.top_k });
    cx.op("index.selected", op, &[q, keys, w, pos])
}

fn slice(cx: &mut Cx, name: &str, x: Value, dim: usize, lo: u64, hi: u64) -> Result<Value> {
    cx.op(name, Op::Slice(Slice { dim, lo, hi }), &[x])
}
