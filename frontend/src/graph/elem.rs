//! Stored formats as element types of the IR.

use crate::spec::{Scales, Storage};
use shardc_ir::dtype::{BlockScale, Elem};

/// Elements of a weight whose first `batch` dimensions number matrices, whose dimensions up to
/// `split` are inputs and whose other dimensions are outputs.
///
/// The rows of a stored matrix are outputs, those of the IR's blocks inputs.
pub(super) fn elem(storage: Storage, batch: u8, split: u8) -> Elem {
    let (rows, cols, scale, zero) = match storage.scales {
        Scales::None => return Elem::plain(storage.dtype),
        Scales::Tensor { scale } => (0, 0, scale, None),
        Scales::Row { scale } => (0, 1, scale, None),
        Scales::Block { rows, cols, scale, zero } => (cols, rows, scale, zero),
    };
    let singles = storage.singles;
    let blocks = BlockScale { rows, cols, batch, split, scale, zero, singles };
    Elem { dtype: storage.dtype, blocks: Some(blocks) }
}
