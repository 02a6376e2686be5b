//! What every operator computes, on the part of its operands that one device holds.
//!
//! An operator is told where its parts lie and nothing of meshes: a look-up in some rows of a table
//! leaves zeros for the others, experts are numbered from the first that is here. On a whole tensor
//! this is the operator's definition. What an operator reads across must be here; it says so
//! otherwise.

mod attention;
mod cache;
mod contract;
mod elementwise;
mod embed;
mod moe;
mod norm;
mod position;
mod reduce;
mod router;
mod shape;

use crate::held::Held;
use crate::place::{Part, Place};
use crate::tensor::Tensor;
use shardc_ir::ops::Op;

/// Results of an operator that computes, in the places `out`; layers, placement and communication are the machine's.
///
/// # Errors
/// Says what the operator reads that is not here, or what does not fit.
pub(crate) fn evaluate(op: &Op, x: &[Part<'_>], out: &[Place]) -> Result<Vec<Held>, String> {
    let (min, max) = op.info().operands;
    let (Some(first), true) = (out.first(), (min..=max).contains(&x.len())) else {
        return Err(format!(
            "`{}` has {} operands and {} results",
            op.info().name,
            x.len(),
            out.len()
        ));
    };
    if let Op::Router(router) = op {
        let (weights, ids) = router::route(router, x)?;
        return Ok(vec![weights.into(), ids.into()]);
    }
    Ok(vec![match op {
        Op::ArgMax(a) => reduce::arg_max(a.dim, x[0]),
        Op::Attention(a) => attention::attend(a, x)?,
        _ => plain(op, x, first)?.into(),
    }])
}

/// The result of an operator that leaves a complete value or a partial sum.
fn plain(op: &Op, x: &[Part<'_>], out: &Place) -> Result<Tensor, String> {
    if let Some(f) = elementwise::unary(op) {
        return Ok(x[0].tensor.map(f));
    }
    if let Some((dims, f)) = elementwise::binary(op) {
        return elementwise::combine(dims, x[0], x[1], f);
    }
    match op {
        Op::Dot(a) => contract::einsum(&a.spec, x[0], x[1]),
        Op::GroupedDot(a) => contract::einsum(&a.spec, x[0], x[1]),
        Op::Reduce(a) => reduce::reduce(a, x[0]),
        Op::Softmax(a) => reduce::softmax(a.dim, x[0]),
        Op::RmsNorm(a) => norm::rms_norm(a, x),
        Op::LayerNorm(a) => norm::layer_norm(a, x),
        Op::Rope(a) => position::rotate(a, x[0], x[1]),
        Op::AlibiSlopes(a) => Ok(position::alibi_slopes(a)),
        Op::PositionScale(a) => position::scale(a, x[0], x[1]),
        Op::KvWrite(_) => cache::write(x[0], x[1], x[2]),
        Op::SparseIndex(a) => cache::select(a.top_k, x),
        Op::Dispatch(_) => moe::dispatch(x, out),
        Op::Combine(_) => moe::combine(x),
        Op::Embedding(_) => embed::look_up(x[0], x[1]),
        Op::LastToken(_) => Ok(embed::last_token(x[0])),
        Op::Reshape(_) => shape::reshape(x[0], out),
        Op::Transpose(a) => Ok(shape::transpose(&a.perm, x[0])),
        Op::Concat(a) => shape::concat(a.dim, x),
        Op::Slice(a) => shape::slice(a.dim, a.lo as usize..a.hi as usize, x[0]),
        Op::Pad(a) => shape::pad(a, x[0]),
        Op::Broadcast(a) => Ok(shape::broadcast(&a.dims, x[0], out)),
        Op::Quantise(a) => shape::quantise(a, x[0]),
        Op::KvRead(_) | Op::Cast(_) | Op::Dequantise(_) => Ok(x[0].tensor.clone()),
        Op::Constant(a) => Ok(Tensor::filled(&out.shape(), a.value.0)),
        _ => Err(format!("`{}` computes nothing", op.info().name)),
    }
}
