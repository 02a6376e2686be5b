//! The tokens of a run.

use super::RunArgs;
use crate::failure::Outcome;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use shardc::codes;
use shardc_interp::Tensor;
use shardc_ir::diag::{Diagnostic, Result};
use std::fs;
use std::path::Path;

/// What is fed.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// Prompts, `[B, S]`.
    pub prompt: Tensor,
    /// Tokens to feed after them, `[B, T]`, instead of those that the model chooses.
    pub fed: Option<Tensor>,
    /// Tokens to generate.
    pub decode: usize,
}

/// The tokens of the command line or of its file.
///
/// Errors: `U002`, `U160` where they make no sense.
pub fn read(args: &RunArgs, vocab: u64) -> Outcome<Tokens> {
    let (prompt, fed) = match &args.tokens_file {
        Some(path) => file(path)?,
        None => {
            let ids = args.tokens.iter().map(|&id| id as f64).collect();
            (Tensor::new(vec![1, args.tokens.len()], ids).map_err(|cause| wrong(&cause))?, None)
        }
    };
    check(&prompt, vocab)?;
    fed.as_ref().map_or(Ok(()), |fed| check(fed, vocab))?;
    let given = fed.as_ref().map_or(0, |fed| fed.shape()[1]);
    let decode = args.decode.unwrap_or(given);
    let fits = fed.as_ref().is_none_or(|fed| fed.shape()[0] == prompt.shape()[0]);
    if !fits || fed.is_some() && decode > given {
        let cause = format!("`decode_ids` do not hold {decode} tokens of every request");
        return Err(wrong(&cause).into());
    }
    Ok(Tokens { prompt, fed, decode })
}

fn file(path: &Path) -> Outcome<(Tensor, Option<Tensor>)> {
    let bytes = fs::read(path).map_err(|error| {
        let message = format!("{} cannot be read: {error}", path.display());
        Box::new(Diagnostic::error(codes::UNREADABLE, message))
    })?;
    let name = path.display().to_string();
    let tensors =
        SafeTensors::deserialize(&bytes).map_err(|error| wrong(&format!("{name}: {error}")))?;
    let get = |key: &str| tensors.tensor(key).ok().map(|view| ids(key, &view)).transpose();
    let prompt = get("input_ids")?.ok_or_else(|| wrong(&format!("{name} has no `input_ids`")))?;
    Ok((prompt, get("decode_ids")?))
}

/// Token ids `[B, S]`.
fn ids(name: &str, view: &TensorView<'_>) -> Result<Tensor> {
    let data = view.data();
    let numbers: Vec<f64> = match view.dtype() {
        Dtype::I64 => data.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b) as f64).collect(),
        Dtype::I32 => {
            data.as_chunks().0.iter().map(|&b| f64::from(i32::from_le_bytes(b))).collect()
        }
        other => return Err(wrong(&format!("`{name}` is in {other:?}, not in I64 or I32"))),
    };
    if view.shape().len() != 2 {
        return Err(wrong(&format!("`{name}` has shape {:?}, not [B, S]", view.shape())));
    }
    Tensor::new(view.shape().to_vec(), numbers).map_err(|cause| wrong(&cause))
}

fn check(ids: &Tensor, vocab: u64) -> Result<()> {
    if ids.data().is_empty() {
        return Err(wrong("there is no token"));
    }
    match ids.data().iter().find(|&&id| !(id >= 0.0 && id < vocab as f64)) {
        None => Ok(()),
        Some(id) => Err(wrong(&format!("token {id} is not in the vocabulary of {vocab}"))),
    }
}

fn wrong(cause: &str) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(codes::TOKENS, cause))
}
