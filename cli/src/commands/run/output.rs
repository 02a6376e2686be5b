//! What a run prints and writes.

use super::plan::Plan;
use super::steps::Generated;
use super::tokens::Tokens;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use shardc::codes;
use shardc_interp::Tensor;
use shardc_ir::diag::{Diagnostic, Result};
use std::fs;
use std::path::Path;

/// Writes the logits: beside the file first, then in its place.
///
/// Errors: `U005`.
pub fn write(path: &Path, generated: &Generated) -> Result<()> {
    let unwritable = |error: String| {
        let message = format!("{} cannot be written: {error}", path.display());
        Box::new(Diagnostic::error(codes::UNWRITABLE, message))
    };
    let [prefill, decode] = [&generated.prompt_logits, &generated.decode_logits].map(|l| bytes(l));
    let view = |(shape, bytes)| {
        TensorView::new(Dtype::F32, shape, bytes).map_err(|error| unwritable(error.to_string()))
    };
    let mut tensors = vec![("logits_prefill", view((prefill.0, &prefill.1))?)];
    if !generated.decode_logits.is_empty() {
        tensors.push(("logits_decode", view((decode.0, &decode.1))?));
    }
    let file = safetensors::serialize(tensors, None).map_err(|e| unwritable(e.to_string()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let written = fs::write(&beside, file).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        fs::remove_file(&beside).ok();
        unwritable(error.to_string())
    })
}

/// Logits `[B, 1, V]` of several positions as `[B, positions, V]` in f32.
fn bytes(steps: &[Tensor]) -> (Vec<usize>, Vec<u8>) {
    let Some(first) = steps.first() else { return (vec![0, 0, 0], Vec::new()) };
    let (requests, vocab) = (first.shape()[0], first.shape()[2]);
    let rows = (0..requests).flat_map(|b| steps.iter().map(move |s| (b, s)));
    let numbers = rows.flat_map(|(b, step)| step.row(&[b, 0]).iter().map(|&x| x as f32));
    (vec![requests, steps.len(), vocab], numbers.flat_map(f32::to_le_bytes).collect())
}

/// What `--json` prints.
pub fn document(plan: &Plan, tokens: &Tokens, generated: &Generated) -> Value {
    json!({
        "devices": plan.devices(),
        "requests": tokens.prompt.shape()[0],
        "prompt": tokens.prompt.shape()[1],
        "decode_steps": tokens.decode,
        "tokens": of_requests(tokens, generated),
    })
}

/// The chosen tokens of each request.
fn of_requests(tokens: &Tokens, generated: &Generated) -> Vec<Vec<u64>> {
    let of = |b: usize| generated.chosen.iter().map(|step| step[b]).collect();
    (0..tokens.prompt.shape()[0]).map(of).collect()
}

/// What a run prints for people.
pub fn screen(plan: &Plan, tokens: &Tokens, generated: &Generated) -> String {
    let [requests, prompt] = [tokens.prompt.shape()[0], tokens.prompt.shape()[1]];
    let many = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut out = format!(
        "ran       {} of {}, {}, on {} simulated device{}\n",
        many(requests, "request"),
        many(prompt, "token"),
        many(tokens.decode, "decode step"),
        plan.devices(),
        if plan.devices() == 1 { "" } else { "s" },
    );
    for (b, chosen) in of_requests(tokens, generated).iter().enumerate() {
        let ids: Vec<String> = chosen.iter().map(u64::to_string).collect();
        out.push_str(&format!("request {b}: {}\n", ids.join(",")));
    }
    out
}
