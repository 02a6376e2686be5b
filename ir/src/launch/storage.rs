//! How a value is stored in its buffer: which parts follow each other, and how many bytes they take.
//!
//! | value | parts, one behind the other |
//! |---|---|
//! | plain | elements, row-major by the extents at run time |
//! | block-scaled | elements, then of each matrix its scales, zero points and single numbers |
//! | routed rows | the rows that exist, by expert, then token; the token of each row; where each expert's rows begin and the last ones end |
//! | pending `sum`, `max` | as if complete |
//! | pending `argmax` | values in f32, then indices |
//! | pending `lse` | accumulators in f32; per row the largest score in f32; per row the sum of exponentials in f32 |
//!
//! Every part begins at a multiple of [`PART_ALIGNMENT`] from the beginning of the buffer.

use crate::dim::Bindings;
use crate::layout::{Layout, ReduceKind};
use crate::types::{Kind, Type};

/// Bytes that the parts of a buffer begin at multiples of.
pub const PART_ALIGNMENT: u64 = 16;

/// Bytes of an f32, and of the u32 in which tokens and offsets of routed rows are kept.
const WORD: u64 = 4;

/// A part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What it holds.
    pub what: Content,
    /// Where it begins in the buffer.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What a part of a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Elements in the element type; accumulators of a pending `lse` and values of a pending
    /// `argmax` in f32.
    Elements,
    /// Scales, with what stands beside them.
    Scales,
    /// Of each stored row its token, u32, counted over the local requests and new tokens.
    Tokens,
    /// Where the rows of each expert begin, and where the last ones end, u32.
    Offsets,
    /// Indices of a pending `argmax`, in the element type.
    Indices,
    /// Largest scores of a pending `lse`, f32.
    Maxima,
    /// Sums of exponentials of a pending `lse`, f32.
    Sums,
}

/// The parts of a value's buffer under `bind`; numbers saturate.
pub fn parts(ty: &Type, layout: Option<&Layout>, bind: &Bindings) -> Vec<Part> {
    let elements = ty.elements(bind);
    let words = |n: u64| n.saturating_mul(WORD);
    let plain = ty.bytes(bind).saturating_sub(ty.scale_bytes(bind));
    let mut sizes = match pending(layout) {
        Some(ReduceKind::ArgMax) => {
            vec![(Content::Elements, words(elements)), (Content::Indices, plain)]
        }
        Some(ReduceKind::Lse) => {
            let row = ty.dims.last().map_or(1, |d| d.eval(bind)).max(1);
            let rows = words(elements / row);
            vec![
                (Content::Elements, words(elements)),
                (Content::Maxima, rows),
                (Content::Sums, rows),
            ]
        }
        _ => vec![(Content::Elements, plain)],
    };
    if ty.elem.blocks.is_some() {
        sizes.push((Content::Scales, ty.scale_bytes(bind)));
    }
    if let Kind::Routed { .. } = ty.kind {
        let experts = ty.dims.first().map_or(0, |d| d.eval(bind));
        let widths = ty.dims.iter().skip(3).map(|d| d.eval(bind));
        let width = widths.fold(1u64, u64::saturating_mul).max(1);
        sizes.push((Content::Tokens, words(elements / width)));
        sizes.push((Content::Offsets, words(experts.saturating_add(1))));
    }
    let mut offset = 0u64;
    let place = |(what, bytes): (Content, u64)| {
        let part = Part { what, offset, bytes };
        offset = align(offset.saturating_add(bytes), PART_ALIGNMENT);
        part
    };
    sizes.into_iter().map(place).collect()
}

/// Bytes of a value's buffer under `bind`, saturating.
pub fn bytes(ty: &Type, layout: Option<&Layout>, bind: &Bindings) -> u64 {
    parts(ty, layout, bind).last().map_or(0, |last| last.offset.saturating_add(last.bytes))
}

/// The next multiple of `to`, saturating.
pub fn align(offset: u64, to: u64) -> u64 {
    offset.checked_next_multiple_of(to.max(1)).unwrap_or(u64::MAX)
}

/// The kind of reduction that is completed first.
fn pending(layout: Option<&Layout>) -> Option<ReduceKind> {
    layout.and_then(|l| l.unreduced.first()).map(|p| p.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::layout::Partial;

    fn shape(dims: &[u64], dtype: DType) -> Type {
        Type::tensor(dims.iter().map(|&d| d.into()).collect(), dtype)
    }

    fn sizes(ty: &Type, pending: Option<ReduceKind>) -> Vec<(u64, u64)> {
        let unreduced = pending.map(|kind| Partial { kind, axes: Vec::new() });
        let layout = Layout { unreduced: unreduced.into_iter().collect(), ..Layout::replicated(0) };
        let parts = parts(ty, Some(&layout), &Bindings::default());
        parts.iter().map(|p| (p.offset, p.bytes)).collect()
    }

    #[test]
    fn partial_values_have_room_for_what_pends() {
        let ty = shape(&[3, 5], DType::Bf16);
        assert_eq!(sizes(&ty, None), [(0, 30)]);
        assert_eq!(sizes(&ty, Some(ReduceKind::Sum)), [(0, 30)]);
        assert_eq!(sizes(&ty, Some(ReduceKind::ArgMax)), [(0, 60), (64, 30)]);
        assert_eq!(sizes(&ty, Some(ReduceKind::Lse)), [(0, 60), (64, 12), (80, 12)]);
    }

    #[test]
    fn routed_rows_say_whose_they_are() {
        let mut ty = shape(&[4, 3, 5, 7], DType::Bf16);
        ty.kind = Kind::Routed { top_k: 2 };
        assert_eq!(sizes(&ty, None), [(0, 420), (432, 120), (560, 20)]);
        assert_eq!(bytes(&ty, None, &Bindings::default()), 580);
    }
}
