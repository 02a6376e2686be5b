//! Element types: plain numbers and block-scaled storage.

use std::fmt;

/// A number format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// Brain float, 8 exponent bits.
    Bf16,
    /// IEEE half.
    F16,
    /// IEEE single.
    F32,
    /// 8-bit float, 4 exponent bits, finite (OCP E4M3).
    F8E4M3,
    /// 8-bit float, 5 exponent bits (OCP E5M2).
    F8E5M2,
    /// 4-bit float, 2 exponent bits (OCP E2M1); storage only.
    F4E2M1,
    /// 8-bit power of two (OCP E8M0); scales only.
    F8E8M0,
    /// Signed 4-bit integer; storage only.
    I4,
    /// Signed 8-bit integer.
    I8,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 8-bit integer.
    U8,
    /// Truth value, one byte.
    Bool,
}

impl DType {
    /// Every format: name in the text, bits per element.
    pub const TABLE: [(DType, &'static str, u64); 13] = [
        (DType::Bf16, "bf16", 16),
        (DType::F16, "f16", 16),
        (DType::F32, "f32", 32),
        (DType::F8E4M3, "f8e4m3", 8),
        (DType::F8E5M2, "f8e5m2", 8),
        (DType::F4E2M1, "f4e2m1", 4),
        (DType::F8E8M0, "f8e8m0", 8),
        (DType::I4, "i4", 4),
        (DType::I8, "i8", 8),
        (DType::I32, "i32", 32),
        (DType::I64, "i64", 64),
        (DType::U8, "u8", 8),
        (DType::Bool, "bool", 8),
    ];

    /// Name in the text.
    pub fn name(self) -> &'static str {
        Self::TABLE[self as usize].1
    }

    /// Bits per element.
    pub fn bits(self) -> u64 {
        Self::TABLE[self as usize].2
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Whether the format holds real numbers.
    pub fn is_float(self) -> bool {
        use DType::*;
        matches!(self, Bf16 | F16 | F32 | F8E4M3 | F8E5M2 | F4E2M1)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Scales of a block-scaled matrix: one per `rows × cols` block.
///
/// A weight of higher rank is read as a stack of matrices: the first `batch` dimensions number the
/// matrices, the dimensions up to `split` form the rows and the rest the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockScale {
    /// Rows of a block; 0 for all, in which case the rows may be split anywhere.
    pub rows: u32,
    /// Columns of a block; 0 for all, in which case the columns may be split anywhere.
    pub cols: u32,
    /// Leading dimensions that number matrices.
    pub batch: u8,
    /// First dimension of the columns.
    pub split: u8,
    /// Format of a scale.
    pub scale: DType,
    /// Format of a zero point beside each scale; `None` where values lie around zero.
    pub zero: Option<DType>,
    /// `f32` numbers that each matrix has besides: a static scale of its inputs, a second level of
    /// scales (NVFP4).
    pub singles: u8,
}

impl BlockScale {
    /// Bytes of the scales, zero points and single numbers of one matrix of so many blocks;
    /// saturating.
    pub fn bytes(&self, blocks: u64) -> u64 {
        let of = |dtype: DType| blocks.saturating_mul(dtype.bits()).div_ceil(8);
        let zeros = self.zero.map_or(0, of);
        of(self.scale).saturating_add(zeros).saturating_add(4 * u64::from(self.singles))
    }
}

/// What one element of a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Elem {
    /// The number format.
    pub dtype: DType,
    /// Scales, for block-scaled storage.
    pub blocks: Option<BlockScale>,
}

impl Elem {
    /// Plain elements.
    pub const fn plain(dtype: DType) -> Self {
        Elem { dtype, blocks: None }
    }
}

impl From<DType> for Elem {
    fn from(dtype: DType) -> Self {
        Elem::plain(dtype)
    }
}

impl fmt::Display for Elem {
    /// `bf16`, or `f8e4m3/128x128:f32@0:1` (block, scale format, batch and split); before the `@`,
    /// `:i4` is the format of zero points and `:1` counts single numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dtype)?;
        match self.blocks {
            Some(b) => {
                write!(f, "/{}x{}:{}", b.rows, b.cols, b.scale)?;
                b.zero.map_or(Ok(()), |zero| write!(f, ":{zero}"))?;
                if b.singles > 0 {
                    write!(f, ":{}", b.singles)?;
                }
                write!(f, "@{}:{}", b.batch, b.split)
            }
            None => Ok(()),
        }
    }
}
