//! How a weight's elements are stored.

pub use shardc_ir::dtype::DType;

/// Element format of a stored weight, with its scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Storage {
    /// Format of an element.
    pub dtype: DType,
    /// Scales stored beside the elements.
    pub scales: Scales,
    /// `f32` numbers that each matrix has besides: a static scale of its inputs, a second level of
    /// scales (NVFP4).
    pub singles: u8,
}

/// The scales of a quantised matrix of `rows` outputs and `cols` inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scales {
    /// Not scaled.
    None,
    /// One for the whole matrix.
    Tensor {
        /// Format of the scale.
        scale: DType,
    },
    /// One per output row.
    Row {
        /// Format of a scale.
        scale: DType,
    },
    /// One per block of `rows × cols`; edge blocks may be short.
    Block {
        /// Outputs of a block.
        rows: u32,
        /// Inputs of a block.
        cols: u32,
        /// Format of a scale.
        scale: DType,
        /// Format of a zero point stored per block, where there is one.
        zero: Option<DType>,
    },
}

impl Storage {
    /// Unscaled elements.
    pub const fn plain(dtype: DType) -> Self {
        Storage { dtype, scales: Scales::None, singles: 0 }
    }

    /// Bytes of one `rows × cols` matrix with its scales; `None` beyond 64 bits.
    pub fn bytes(&self, rows: u64, cols: u64) -> Option<u64> {
        let data = bytes(rows.checked_mul(cols)?, self.dtype)?;
        data.checked_add(self.scale_bytes(rows, cols)?)
    }

    /// Bytes of the scales, zero points and single numbers of one `rows × cols` matrix.
    pub fn scale_bytes(&self, rows: u64, cols: u64) -> Option<u64> {
        let scales = match self.scales {
            Scales::None => Some(0),
            Scales::Tensor { scale } => bytes(1, scale),
            Scales::Row { scale } => bytes(rows, scale),
            Scales::Block { rows: r, cols: c, scale, zero } => {
                let blocks = rows
                    .div_ceil(u64::from(r.max(1)))
                    .checked_mul(cols.div_ceil(u64::from(c.max(1))))?;
                let zeros = zero.map_or(Some(0), |z| bytes(blocks, z))?;
                bytes(blocks, scale)?.checked_add(zeros)
            }
        };
        scales?.checked_add(4 * u64::from(self.singles))
    }
}

fn bytes(elements: u64, dtype: DType) -> Option<u64> {
    Some(elements.checked_mul(dtype.bits())?.div_ceil(8))
}
