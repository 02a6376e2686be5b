//! `absorb-latent-attention`: latent attention over the latents themselves.
//!
//! Expanded, every cached latent is multiplied out into keys and values per head. Since
//! `q · (W_k c) = (W_kᵀ q) · c`, the key projection can move to the query, and the value projection
//! behind the attention: one kv head of latent width that all heads share. A decode step then reads
//! each latent once instead of multiplying the whole context; a prompt is cheaper expanded.
//!
//! It applies where every head has keys of its own, made of a projection of the latent and a tail
//! that all heads share, without sinks or fresh keys, and where the user pinned no layout on what
//! vanishes: queries, keys and values.

use crate::dce::dce;
use crate::edits::Edits;
use crate::registry::{Options, Report};
use shardc_ir::diag::Result;
use shardc_ir::dim::Dim;
use shardc_ir::graph::{Def, Func, Inst, InstData, Module, Value};
use shardc_ir::ops::Op;
use shardc_ir::ops::contract::Einsum;
use shardc_ir::ops::shape::{Concat, Reshape, Slice, Transpose};
use shardc_ir::rewrite::Rewriter;
use shardc_ir::types::Type;

/// The product that leads from attention over the latents to what the heads give.
pub(crate) const VALUE_SPEC: &str = "bsngr,rnd->bsngd";

/// Rewrites every expanded latent attention; an edit is an attention.
///
/// # Errors
/// None; the signature is that of every pass.
pub fn absorb_latent_attention(module: &mut Module, options: &Options) -> Result<Report> {
    let mut edits = Edits::new(options);
    for func in module.funcs.values_mut() {
        let found = func.body.iter().filter_map(|&i| Expanded::at(func, i));
        let sites: Vec<Expanded> = found.take_while(|_| edits.grant()).collect();
        if !sites.is_empty() {
            *func = rewrite(func, &sites);
        }
    }
    if edits.made() > 0 {
        dce(module, &Options::default())?;
    }
    Ok(Report::of(edits.made()))
}

/// An attention over keys and values multiplied out of latents.
struct Expanded {
    attention: Inst,
    /// `[b, s, n, 1, nope]` and `[b, s, n, 1, rope]`.
    query: (Value, Value),
    /// `[b, c, rank + rope]`.
    latents: Value,
    /// Width of the latent.
    rank: u64,
    /// `[rank, n, nope]` and `[rank, n, v]`.
    key_weight: Value,
    value_weight: Value,
    /// Positions, and the selected ones where there are any.
    rest: Vec<Value>,
}

fn producer(func: &Func, value: Value) -> Option<&InstData> {
    match func.values[value].def {
        Def::Result(inst, _) => Some(&func.insts[inst]),
        Def::Param(_) => None,
    }
}

impl Expanded {
    /// Matches the form that the front end builds.
    fn at(func: &Func, inst: Inst) -> Option<Self> {
        let data = &func.insts[inst];
        let (Op::Attention(op), [q, k, v, rest @ ..]) = (&data.op, &data.operands[..]) else {
            return None;
        };
        let query = joined(func, *q, 4)?;
        let (own, tail) = joined(func, *k, 3)?;
        let (latent, key_weight) = multiplied_out(func, own)?;
        let (same_latent, value_weight) = multiplied_out(func, *v)?;
        let part = sliced(func, latent)?;
        let shared = shared_tail(func, tail)?;
        let width = func.ty(part.of).dims.get(2)?.as_fixed()?;
        let fits = !op.sinks
            && !op.fresh
            && func.ty(*q).dims.get(3)?.as_fixed() == Some(1)
            && sliced(func, same_latent)? == part
            && part.lo == 0
            && shared == Part { of: part.of, lo: part.hi, hi: width };
        let pinned = |v: &Value| func.values[*v].sharding.is_some();
        let vanish = [*q, *k, *v, own, tail];
        (fits && !vanish.iter().any(pinned)).then_some(Expanded {
            attention: inst,
            query,
            latents: part.of,
            rank: part.hi,
            key_weight,
            value_weight,
            rest: rest.to_vec(),
        })
    }
}

/// The two operands of a concat along `dim`.
fn joined(func: &Func, value: Value, dim: usize) -> Option<(Value, Value)> {
    match producer(func, value)? {
        InstData { op: Op::Concat(concat), operands, .. } if concat.dim == dim => {
            match operands[..] {
                [a, b] => Some((a, b)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The latents and the weight of a projection per head.
fn multiplied_out(func: &Func, value: Value) -> Option<(Value, Value)> {
    match producer(func, value)? {
        InstData { op: Op::Dot(einsum), operands, .. } if einsum.spec == "bcr,rnd->bcnd" => {
            Some((operands[0], operands[1]))
        }
        _ => None,
    }
}

/// A range of the last dimension of rows `[b, c, width]`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Part {
    of: Value,
    lo: u64,
    hi: u64,
}

fn sliced(func: &Func, value: Value) -> Option<Part> {
    match producer(func, value)? {
        InstData { op: Op::Slice(slice), operands, .. } if slice.dim == 2 => {
            Some(Part { of: operands[0], lo: slice.lo, hi: slice.hi })
        }
        _ => None,
    }
}

/// What is copied to every head, in whichever format it is kept.
fn shared_tail(func: &Func, value: Value) -> Option<Part> {
    let data = producer(func, value)?;
    let source = match &data.op {
        Op::Broadcast(broadcast) if broadcast.dims == [0, 1, 3] => data.operands[0],
        _ => return None,
    };
    match producer(func, source)? {
        InstData { op: Op::Cast(_), operands, .. } => sliced(func, operands[0]),
        _ => sliced(func, source),
    }
}

fn rewrite(func: &Func, sites: &[Expanded]) -> Func {
    let mut rewriter = Rewriter::new(func);
    for &inst in &func.body {
        match sites.iter().find(|s| s.attention == inst) {
            None => {
                rewriter.copy(inst);
            }
            Some(site) => absorb(&mut rewriter, site),
        }
    }
    rewriter.finish()
}

/// The type `[b, s, kv, group, width]` of a query-like value.
fn query_type(like: &Type, kv: Dim, group: Dim, width: Dim) -> Type {
    like.with_dims(vec![like.dims[0], like.dims[1], kv, group, width])
}

/// Swaps kv heads and the heads of a group: heads with keys of their own become a group that shares
/// them, and back.
fn swap_heads() -> Op {
    Op::Transpose(Transpose { perm: vec![0, 1, 3, 2, 4] })
}

fn dot(spec: &str) -> Op {
    Op::Dot(Einsum { spec: spec.to_string(), out: None })
}

fn absorb(rewriter: &mut Rewriter<'_>, site: &Expanded) {
    let old = rewriter.old();
    let result = old.insts[site.attention].results[0];
    let like = old.ty(site.query.0).clone();
    let (heads, one, rank) = (like.dims[2], Dim::fixed(1), Dim::fixed(site.rank));
    let query = shared_query(rewriter, site);
    let (keys, values) = shared_keys(rewriter, site);
    let mut operands = vec![query, keys, values];
    operands.extend(site.rest.iter().map(|&v| rewriter.get(v)));
    let op = old.insts[site.attention].op.clone();
    let ty = query_type(&like, one, heads, rank);
    let attended = rewriter.emit("attn.ctx.shared", op, operands, ty, None);
    let ty = query_type(&like, heads, one, rank);
    let by_head = rewriter.emit("attn.ctx.latent", swap_heads(), vec![attended], ty, None);
    let value_weight = rewriter.get(site.value_weight);
    let data = old.values[result].clone();
    let operands = vec![by_head, value_weight];
    let op = dot(VALUE_SPEC);
    let context = rewriter.emit(&data.name, op, operands, data.ty, data.sharding);
    rewriter.bind(result, context);
}

/// Queries `[b, s, 1, n, rank + rope]` for the latents themselves.
fn shared_query(rewriter: &mut Rewriter<'_>, site: &Expanded) -> Value {
    let old = rewriter.old();
    let like = old.ty(site.query.0).clone();
    let (heads, one) = (like.dims[2], Dim::fixed(1));
    let width = old.ty(site.latents).dims[2];
    let nope = rewriter.get(site.query.0);
    let rope = rewriter.get(site.query.1);
    let weight = rewriter.get(site.key_weight);
    let ty = query_type(&like, heads, one, Dim::fixed(site.rank));
    let op = dot("bsngd,rnd->bsngr");
    let latent = rewriter.emit("attn.q.latent", op, vec![nope, weight], ty, None);
    let ty = query_type(&like, heads, one, width);
    let op = Op::Concat(Concat { dim: 4 });
    let whole = rewriter.emit("attn.q.absorbed", op, vec![latent, rope], ty, None);
    let ty = query_type(&like, one, heads, width);
    rewriter.emit("attn.q.shared", swap_heads(), vec![whole], ty, None)
}

/// The latents as keys `[b, c, 1, rank + rope]`, and their first part as values `[b, c, 1, rank]`.
fn shared_keys(rewriter: &mut Rewriter<'_>, site: &Expanded) -> (Value, Value) {
    let latents = rewriter.old().ty(site.latents).clone();
    let (b, c, width) = (latents.dims[0], latents.dims[1], latents.dims[2]);
    let shape = vec![b, c, Dim::fixed(1), width];
    let source = rewriter.get(site.latents);
    let op = Op::Reshape(Reshape { shape: shape.clone() });
    let keys = rewriter.emit("attn.k.latent", op, vec![source], latents.with_dims(shape), None);
    let ty = latents.with_dims(vec![b, c, Dim::fixed(1), Dim::fixed(site.rank)]);
    let op = Op::Slice(Slice { dim: 3, lo: 0, hi: site.rank });
    let values = rewriter.emit("attn.v.latent", op, vec![keys], ty, None);
    (keys, values)
}
