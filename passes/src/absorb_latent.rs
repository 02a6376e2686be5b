//! `absorb-latent-attention`: latent attention over the latents themselves.
//!
//! Expanded, every cached latent is multiplied out into keys and values per head. Since
//! `q · (W_k c) = (W_kᵀ q) · c`, the key projection can move to the query, and the value projection
//! behind the attention: one kv head of latent width that all heads share. A decode step then reads
//! each latent once instead of multiplying the whole context; a prompt is cheaper expanded.

use crate::dce::dce;
use shardc_ir::diag::Result;
use shardc_ir::dim::Dim;
use shardc_ir::graph::{Def, Func, Inst, InstData, Module, Value};
use shardc_ir::ops::Op;
use shardc_ir::ops::contract::Einsum;
use shardc_ir::ops::shape::{Concat, Reshape, Slice, Transpose};
use shardc_ir::rewrite::Rewriter;
use shardc_ir::types::{Kind, Type};

/// Rewrites every expanded latent attention; returns how many there were.
///
/// # Errors
/// None; the signature is that of every pass.
pub fn absorb_latent_attention(module: &mut Module) -> Result<u64> {
    let mut count = 0;
    for func in module.funcs.values_mut() {
        let sites: Vec<Expanded> =
            func.body.iter().filter_map(|&i| Expanded::at(func, i)).collect();
        if sites.is_empty() {
            continue;
        }
        count += sites.len() as u64;
        *func = rewrite(func, &sites);
    }
    dce(module)?;
    Ok(count)
}

/// An attention over keys and values multiplied out of latents.
struct Expanded {
    attention: Inst,
    /// `[b, s, n, 1, nope]` and `[b, s, n, 1, rope]`.
    query: (Value, Value),
    /// `[b, c, rank + rope]`.
    latents: Value,
    /// `[rank, n, nope]` and `[rank, n, v]`.
    key_weight: Value,
    value_weight: Value,
    positions: Vec<Value>,
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
        let (Op::Attention(_), [q, k, v, rest @ ..]) = (&data.op, &data.operands[..]) else {
            return None;
        };
        let query = concatenated(func, *q)?;
        let (k_nope, k_rope) = concatenated(func, *k)?;
        let (latent, key_weight) = multiplied_out(func, k_nope)?;
        let (same_latent, value_weight) = multiplied_out(func, *v)?;
        let tail = producer(func, k_rope).filter(|d| matches!(d.op, Op::Broadcast(_)))?;
        let (latents, from) = sliced(func, latent)?;
        let (tail_of, _) = sliced(func, tail.operands[0])?;
        let matches = latent == same_latent && tail_of == latents && from == 0;
        let positions = rest.to_vec();
        matches.then_some(Expanded {
            attention: inst,
            query,
            latents,
            key_weight,
            value_weight,
            positions,
        })
    }
}

fn concatenated(func: &Func, value: Value) -> Option<(Value, Value)> {
    match producer(func, value)? {
        InstData { op: Op::Concat(_), operands, .. } if operands.len() == 2 => {
            Some((operands[0], operands[1]))
        }
        _ => None,
    }
}

fn multiplied_out(func: &Func, value: Value) -> Option<(Value, Value)> {
    match producer(func, value)? {
        InstData { op: Op::Dot(einsum), operands, .. } if einsum.spec == "bcr,rnd->bcnd" => {
            Some((operands[0], operands[1]))
        }
        _ => None,
    }
}

/// What a value is a slice of, seen through casts, and where the slice begins.
fn sliced(func: &Func, value: Value) -> Option<(Value, u64)> {
    match producer(func, value)? {
        InstData { op: Op::Slice(slice), operands, .. } => Some((operands[0], slice.lo)),
        InstData { op: Op::Cast(_), operands, .. } => sliced(func, operands[0]),
        _ => None,
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

/// The type `[…, kv, group, width]` of a query-like value.
fn query_type(like: &Type, kv: Dim, group: Dim, width: Dim) -> Type {
    like.with_dims(vec![like.dims[0], like.dims[1], kv, group, width])
}

fn absorb(rewriter: &mut Rewriter<'_>, site: &Expanded) {
    let old = rewriter.old();
    let result = old.insts[site.attention].results[0];
    let name = old.values[result].name.clone();
    let (nope, rope) = (rewriter.get(site.query.0), rewriter.get(site.query.1));
    let like = old.ty(site.query.0).clone();
    let (heads, one) = (like.dims[2], like.dims[3]);
    let rank = old.ty(site.key_weight).dims[0];
    let latents = old.ty(site.latents).clone();
    let (width, kv) = (latents.dims[2], Dim::fixed(1));
    let dot = |spec: &str| Op::Dot(Einsum { spec: spec.to_string(), out: None });
    let swap = || Op::Transpose(Transpose { perm: vec![0, 1, 3, 2, 4] });

    let key_weight = rewriter.get(site.key_weight);
    let projected = rewriter.emit(
        "attn.q.latent",
        dot("bsngd,rnd->bsngr"),
        vec![nope, key_weight],
        query_type(&like, heads, one, rank),
        None,
    );
    let joined = rewriter.emit(
        "attn.q.absorbed",
        Op::Concat(Concat { dim: 4 }),
        vec![projected, rope],
        query_type(&like, heads, one, width),
        None,
    );
    let query = rewriter.emit(
        "attn.q.shared",
        swap(),
        vec![joined],
        query_type(&like, kv, heads, width),
        None,
    );
    let shape = vec![latents.dims[0], latents.dims[1], kv, width];
    let source = rewriter.get(site.latents);
    let keys = rewriter.emit(
        "attn.k.shared",
        Op::Reshape(Reshape { shape: shape.clone() }),
        vec![source],
        latents.with_dims(shape.clone()),
        None,
    );
    let value_dims = [&shape[..3], &[rank]].concat();
    let slice = Slice { dim: 3, lo: 0, hi: rank.as_fixed().unwrap_or(0) };
    let values = rewriter.emit(
        "attn.v.shared",
        Op::Slice(slice),
        vec![keys],
        latents.with_dims(value_dims),
        None,
    );
    let mut operands = vec![query, keys, values];
    operands.extend(site.positions.iter().map(|&v| rewriter.get(v)));
    let attended = rewriter.emit(
        "attn.ctx.shared",
        old.insts[site.attention].op.clone(),
        operands,
        query_type(&like, kv, heads, rank),
        None,
    );
    let by_head = rewriter.emit(
        "attn.ctx.latent",
        swap(),
        vec![attended],
        query_type(&like, heads, kv, rank),
        None,
    );
    let value_weight = rewriter.get(site.value_weight);
    let context = rewriter.emit(
        &name,
        dot("bsngr,rnd->bsngd"),
        vec![by_head, value_weight],
        old.ty(result).clone(),
        None,
    );
    debug_assert!(matches!(old.ty(site.latents).kind, Kind::Tensor));
    rewriter.bind(result, context);
}
