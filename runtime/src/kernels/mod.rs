//! What every operator computes, on the part of its operands that one rank holds.
//!
//! Operands are stored numbers of any format, sums are in f32. An operator is told where its parts lie
//! and nothing of meshes: a look-up in some rows of a table leaves zeros for the others, experts are
//! numbered from the first that is here. Parts have their true extents, without padding, and of routed
//! rows only those that exist are stored.

mod attention;
mod cache;
mod contract;
mod elementwise;
mod embed;
mod matmul;
mod merge;
mod moe;
mod norm;
mod operand;
mod position;
mod reduce;
mod router;
mod shape;

pub use cache::write as write_cache;
pub use embed::token;
pub use merge::merge;
pub use operand::{Numbers, Operand, Output, ROUTED, Rows, larger};

use crate::place::Place;
use shardc_ir::ops::Op;

/// Results of an operator that computes, in the places `out`. Layers, placement, communication and
/// writing to a cache, which happens in place, are not among them.
///
/// # Errors
/// Says what the operator reads that is not here, or what does not fit.
pub fn evaluate(op: &Op, x: &[Operand<'_>], out: &[&Place]) -> Result<Vec<Output>, String> {
    let (min, max) = op.info().operands;
    let (Some(&first), true) = (out.first(), (min..=max).contains(&x.len())) else {
        let (name, results) = (op.info().name, out.len());
        return Err(format!("`{name}` has {} operands and {results} results", x.len()));
    };
    if let Op::Router(router) = op {
        return Ok(router::route(router, x)?.into());
    }
    Ok(vec![single(op, x, first)?])
}

/// The result of an operator that has one.
fn single(op: &Op, x: &[Operand<'_>], out: &Place) -> Result<Output, String> {
    if let Some(f) = elementwise::unary(op) {
        return Ok(elementwise::map(&x[0], f));
    }
    if let Some((dims, f)) = elementwise::binary(op) {
        return elementwise::combine(dims, &x[0], &x[1], f);
    }
    match op {
        Op::Dot(a) => contract::einsum(&a.spec, &x[0], &x[1]),
        Op::GroupedDot(a) => contract::einsum(&a.spec, &x[0], &x[1]),
        Op::Reduce(a) => reduce::reduce(a, &x[0]),
        Op::Softmax(a) => reduce::softmax(a.dim, &x[0]),
        Op::ArgMax(a) => reduce::arg_max(a.dim, &x[0]),
        Op::RmsNorm(a) => norm::rms_norm(a, x),
        Op::LayerNorm(a) => norm::layer_norm(a, x),
        Op::Rope(a) => position::rotate(a, &x[0], &x[1]),
        Op::AlibiSlopes(a) => Ok(position::alibi_slopes(a)),
        Op::PositionScale(a) => position::scale(a, &x[0], &x[1]),
        Op::Attention(a) => attention::attend(a, x),
        Op::SparseIndex(a) => cache::select(a.top_k, x),
        Op::Dispatch(_) => moe::dispatch(x, out),
        Op::Combine(_) => moe::combine(x),
        Op::Embedding(_) => embed::look_up(&x[0], &x[1]),
        Op::LastToken(_) => Ok(embed::last_token(&x[0])),
        Op::Reshape(_) => shape::reshape(&x[0], out),
        Op::Transpose(a) => shape::transpose(&a.perm, &x[0]),
        Op::Concat(a) => shape::concat(a.dim, x),
        Op::Slice(a) => shape::slice(a.dim, a.lo as usize..a.hi as usize, &x[0]),
        Op::Pad(a) => shape::pad(a, &x[0]),
        Op::Broadcast(a) => shape::broadcast(&a.dims, &x[0], out),
        // What the result's type stores is up to who stores it.
        Op::KvRead(_) | Op::Cast(_) | Op::Quantise(_) | Op::Dequantise(_) => Ok(shape::same(&x[0])),
        Op::Constant(a) => Ok(vec![a.value.0 as f32; out.volume()].into()),
        _ => Err(format!("`{}` computes nothing", op.info().name)),
    }
}
