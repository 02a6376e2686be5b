//! Tensors of a small safetensors file.

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use shardc_interp::{Inputs, Tensor};

/// What can be wrong with a file.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Reads every tensor of a safetensors file.
pub fn tensors(bytes: &[u8]) -> Result<Inputs> {
    let file = SafeTensors::deserialize(bytes)?;
    file.tensors().into_iter().map(|(name, view)| Ok((name, numbers(&view)?))).collect()
}

/// The numbers of a tensor, in full precision.
fn numbers(view: &TensorView<'_>) -> Result<Tensor> {
    use safetensors::Dtype;
    let bytes = view.data();
    let data: Vec<f64> = match view.dtype() {
        Dtype::F32 => chunks(bytes).map(|b| f64::from(f32::from_le_bytes(b))).collect(),
        Dtype::BF16 => chunks(bytes).map(bf16).collect(),
        Dtype::I64 => chunks(bytes).map(|b| i64::from_le_bytes(b) as f64).collect(),
        other => return Err(format!("tensors in {other:?} are not read").into()),
    };
    Ok(Tensor::new(view.shape().to_vec(), data)?)
}

fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks().0.iter().copied()
}

fn bf16([low, high]: [u8; 2]) -> f64 {
    f64::from(f32::from_le_bytes([0, 0, low, high]))
}
