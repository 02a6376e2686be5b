//! The tokens of a run from their file.

use crate::codes;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use shardc_ir::diag::{Diagnostic, Result};
use std::fs;
use std::path::Path;

/// Tokens of requests.
type Ids = Vec<Vec<i64>>;

/// `input_ids` and `decode_ids` of a file.
///
/// # Errors
/// `W112` where the file cannot be read, `W108` where it holds no tokens.
pub fn file(path: &Path) -> Result<(Ids, Option<Ids>)> {
    let bytes = fs::read(path).map_err(|error| {
        let message = format!("{} cannot be read: {error}", path.display());
        Box::new(Diagnostic::error(codes::FILE, message))
    })?;
    let name = path.display().to_string();
    let tensors =
        SafeTensors::deserialize(&bytes).map_err(|error| wrong(format!("{name}: {error}")))?;
    let get = |key: &str| tensors.tensor(key).ok().map(|view| ids(key, &view)).transpose();
    let prompts = get("input_ids")?.ok_or_else(|| wrong(format!("{name} has no `input_ids`")))?;
    Ok((prompts, get("decode_ids")?))
}

/// Token ids `[B, S]`.
fn ids(name: &str, view: &TensorView<'_>) -> Result<Ids> {
    let data = view.data();
    let numbers: Vec<i64> = match view.dtype() {
        Dtype::I64 => data.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b)).collect(),
        Dtype::I32 => data.as_chunks().0.iter().map(|&b| i32::from_le_bytes(b).into()).collect(),
        other => return Err(wrong(format!("`{name}` is in {other:?}, not in I64 or I32"))),
    };
    let &[requests, length] = view.shape() else {
        return Err(wrong(format!("`{name}` has shape {:?}, not [B, S]", view.shape())));
    };
    if requests == 0 || length == 0 && name == "input_ids" {
        return Err(wrong("there is no token".to_string()));
    }
    match length {
        0 => Ok(vec![Vec::new(); requests]),
        _ => Ok(numbers.chunks(length).map(<[i64]>::to_vec).collect()),
    }
}

fn wrong(cause: String) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(codes::REQUEST, cause))
}
