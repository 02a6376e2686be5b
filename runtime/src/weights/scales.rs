//! Scales of quantised matrices, as checkpoints store them beside the numbers.

use super::checkpoint::{Checkpoint, Stored};
use crate::codes;
use crate::number::{self, widen};
use safetensors::tensor::Dtype;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dtype::DType;

/// Elements that one MXFP4 scale stands for (OCP MX 1.0).
const MX_BLOCK: u64 = 32;

/// The scales of one matrix: a grid over outputs and inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Scales {
    /// Outputs and inputs that one scale stands for.
    block: (u64, u64),
    /// Scales of a row of blocks.
    columns: u64,
    values: Vec<f32>,
}

impl Scales {
    /// The scales of matrix `matrix` of `count` in tensor `name`, each `[outputs, inputs]`; none
    /// where the checkpoint has none.
    ///
    /// A scale multiplies: `weight_scale_inv` of DeepSeek's blocks, `weight_scale` of a tensor or of
    /// its rows.
    ///
    /// # Errors
    /// `W001` to `W005`.
    pub fn of(
        checkpoint: &Checkpoint,
        name: &str,
        (matrix, count): (u64, u64),
        (outputs, inputs): (u64, u64),
    ) -> Result<Option<Scales>> {
        let found = ["_scale_inv", "_scale"].map(|suffix| format!("{name}{suffix}"));
        let Some(name) = found.into_iter().find(|name| checkpoint.get(name).is_some()) else {
            return Ok(None);
        };
        let stored = checkpoint.find(&name)?;
        let total = stored.shape.iter().map(|&n| n as u64).product::<u64>();
        let own = total / count.max(1);
        let values = checkpoint.bytes(stored, matrix * own, own)?;
        let values = decode(&name, stored, &values)?;
        let columns = match stored.shape[..] {
            [.., rows, columns] if rows as u64 * columns as u64 == own => columns as u64,
            _ if own == outputs => 1,
            _ => own,
        };
        let rows = own / columns.max(1);
        let block = (span(outputs, rows), span(inputs, columns));
        Ok(Some(Scales { block, columns, values }))
    }

    /// The scales of matrix `matrix` of an MXFP4 tensor `name` of `[outputs, inputs]`.
    ///
    /// # Errors
    /// `W001` to `W005`.
    pub fn mx(
        checkpoint: &Checkpoint,
        name: &str,
        matrix: u64,
        (outputs, inputs): (u64, u64),
    ) -> Result<Scales> {
        let stored = checkpoint.find(&format!("{name}_scales"))?;
        let columns = inputs.div_ceil(MX_BLOCK);
        let powers = checkpoint.bytes(stored, matrix * outputs * columns, outputs * columns)?;
        let mut values = vec![0.0; powers.len()];
        widen(DType::F8E8M0, &powers, 0, &mut values);
        Ok(Scales { block: (1, MX_BLOCK), columns, values })
    }

    /// The one scale of a block of elements; none where they have several.
    pub fn of_block(&self, outputs: &[u64], inputs: &[u64]) -> Option<f32> {
        let (&output, &input) = (outputs.first()?, inputs.first()?);
        let same = outputs.iter().all(|o| o / self.block.0 == output / self.block.0)
            && inputs.iter().all(|i| i / self.block.1 == input / self.block.1);
        same.then(|| self.at(output, input))
    }

    /// The factor on an element.
    pub fn at(&self, output: u64, input: u64) -> f32 {
        let at = output / self.block.0 * self.columns + input / self.block.1;
        self.values.get(at as usize).copied().unwrap_or(f32::NAN)
    }
}

/// Elements of a block where `blocks` cover `size`, the last perhaps in part: a power of two.
fn span(size: u64, blocks: u64) -> u64 {
    size.div_ceil(blocks.max(1)).max(1).next_power_of_two()
}

/// The numbers of a tensor's bytes.
///
/// # Errors
/// `W005` where their format is not read.
pub(super) fn decode(name: &str, stored: &Stored, bytes: &[u8]) -> Result<Vec<f32>> {
    let dtype = match stored.dtype {
        Dtype::F64 => {
            let numbers = bytes.as_chunks::<8>().0.iter().map(|&b| f64::from_le_bytes(b) as f32);
            return Ok(numbers.collect());
        }
        Dtype::F32 => DType::F32,
        Dtype::BF16 => DType::Bf16,
        Dtype::F16 => DType::F16,
        Dtype::F8_E4M3 => DType::F8E4M3,
        Dtype::F8_E5M2 => DType::F8E5M2,
        Dtype::F8_E8M0 => DType::F8E8M0,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        other => {
            let message = format!("`{name}` is stored in {other:?}, which is not read");
            let help = "convert the checkpoint to bf16, f16, f32 or fp8";
            return Err(Box::new(Diagnostic::error(codes::FORMAT, message).help(help)));
        }
    };
    let mut out = vec![0.0; bytes.len() / number::bytes_of(dtype, 1)];
    widen(dtype, bytes, 0, &mut out);
    Ok(out)
}

/// A row of inputs of an MXFP4 matrix, elements `from..from + count` of the tensor: two to a byte, the
/// lower half first, a power of two for each 32.
///
/// # Errors
/// `W001` to `W005`.
pub fn mxfp4(checkpoint: &Checkpoint, name: &str, from: u64, count: u64) -> Result<Vec<f32>> {
    let blocks = checkpoint.find(&format!("{name}_blocks"))?;
    let scales = checkpoint.find(&format!("{name}_scales"))?;
    let (first, last) = (from / MX_BLOCK, (from + count).div_ceil(MX_BLOCK));
    let bytes = checkpoint.bytes(blocks, first * MX_BLOCK / 2, (last - first) * MX_BLOCK / 2)?;
    let powers = checkpoint.bytes(scales, first, last - first)?;
    let mut numbers = vec![0.0; count as usize];
    widen(DType::F4E2M1, &bytes, (from - first * MX_BLOCK) as usize, &mut numbers);
    let mut scales = vec![0.0; powers.len()];
    widen(DType::F8E8M0, &powers, 0, &mut scales);
    for (i, x) in (from..).zip(&mut numbers) {
        *x *= scales[(i / MX_BLOCK - first) as usize];
    }
    Ok(numbers)
}
