//! What a run prints and writes.

use super::Request;
use crate::beside;
use crate::codes;
use crate::memory_of;
use crate::session::{Generated, Logits};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use shardc_ir::diag::{Diagnostic, Result};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Writes the logits: beside the file first, then in its place, so that nothing half written stays.
///
/// # Errors
/// `W113` where the file cannot be written.
pub fn write(path: &Path, generated: &Generated) -> Result<()> {
    let unwritable = |error: String| {
        let message = format!("{} cannot be written: {error}", path.display());
        Box::new(Diagnostic::error(codes::UNWRITABLE, message))
    };
    let parts = [&generated.prompt_logits, &generated.decode_logits].map(|l| bytes(l));
    let names = ["logits_prefill", "logits_decode"];
    let mut tensors = Vec::new();
    for (name, (shape, bytes)) in names.into_iter().zip(&parts) {
        if shape[1] > 0 {
            let view = TensorView::new(Dtype::F32, shape.to_vec(), bytes);
            tensors.push((name, view.map_err(|error| unwritable(error.to_string()))?));
        }
    }
    let file = safetensors::serialize(tensors, None).map_err(|e| unwritable(e.to_string()))?;
    beside::write(path, |out| out.write_all(&file))
}

/// Prints to standard output. A reader that went away ends the command in peace.
///
/// # Errors
/// `W113` where it cannot be written.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let message = format!("standard output cannot be written: {error}");
            Err(Box::new(Diagnostic::error(codes::UNWRITABLE, message)))
        }
        _ => Ok(()),
    }
}

/// Logits `[B, positions, V]` in f32.
fn bytes(requests: &[Vec<Logits>]) -> ([usize; 3], Vec<u8>) {
    let positions = requests.first().map_or(0, Vec::len);
    let vocabulary = requests.first().and_then(|r| r.first()).map_or(0, Vec::len);
    let numbers = requests.iter().flatten().flatten();
    ([requests.len(), positions, vocabulary], numbers.flat_map(|x| x.to_le_bytes()).collect())
}

/// What `--json` prints.
///
/// # Errors
/// `W108` where the tokenizer makes no text of the tokens.
pub fn document(ranks: usize, request: &Request, generated: &Generated) -> Result<Value> {
    let job = &request.job;
    let usage = generated
        .usage
        .iter()
        .map(|u| json!({"weights": u.weights, "caches": u.caches, "scratch": u.scratch}));
    let mut out = json!({
        "ranks": ranks,
        "requests": job.prompts.len(),
        "prompt": job.prompts.first().map_or(0, Vec::len),
        "decode_steps": job.decode,
        "tokens": generated.chosen,
        "bytes": usage.collect::<Vec<_>>(),
        "peak_bytes": memory_of::peak(),
        "seconds": {
            "load": generated.time[0].as_secs_f64(),
            "prefill": generated.time[1].as_secs_f64(),
            "decode": generated.time[2].as_secs_f64(),
        },
    });
    if let Some(texts) = texts(request, generated)? {
        out["text"] = json!(texts);
    }
    Ok(out)
}

/// What was generated, as text, where the prompt was one.
fn texts(request: &Request, generated: &Generated) -> Result<Option<Vec<String>>> {
    let Some(text) = &request.text else { return Ok(None) };
    generated.chosen.iter().map(|tokens| text.decode(tokens)).collect::<Result<_>>().map(Some)
}

/// What a run prints for people; `what` names its ranks, such as `8 CPU ranks`.
///
/// # Errors
/// `W108` where the tokenizer makes no text of the tokens.
pub fn screen(what: &str, request: &Request, generated: &Generated) -> Result<String> {
    let job = &request.job;
    let many = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut out = format!(
        "ran       {} of {}, {}, on {what}\n",
        many(job.prompts.len(), "request"),
        many(job.prompts.first().map_or(0, Vec::len), "token"),
        many(job.decode, "decode step"),
    );
    if let Some(most) = generated.usage.iter().max_by_key(|u| u.weights + u.caches + u.scratch) {
        let mib = |n: usize| n as f64 / (1 << 20) as f64;
        out.push_str(&format!(
            "a rank    {:.1} MiB weights, {:.1} MiB caches, {:.1} MiB scratch\n",
            mib(most.weights),
            mib(most.caches),
            mib(most.scratch)
        ));
        let [load, prefill, decode] = generated.time.map(|t| t.as_secs_f64());
        let rate = (job.decode * job.prompts.len()) as f64 / decode;
        let rate = if job.decode > 0 { format!(", {rate:.2} tokens/s") } else { String::new() };
        out.push_str(&format!(
            "took      {load:.2} s weights, {prefill:.2} s prompts, {decode:.2} s decode steps{rate}\n"
        ));
        if let Some(peak) = memory_of::peak() {
            out.push_str(&format!("peak      {:.1} MiB resident, this process\n", mib(peak)));
        }
    }
    for (b, chosen) in generated.chosen.iter().enumerate() {
        let ids: Vec<String> = chosen.iter().map(i64::to_string).collect();
        out.push_str(&format!("request {b}: {}\n", ids.join(",")));
    }
    for text in texts(request, generated)?.into_iter().flatten() {
        out.push_str(&format!("text      {text}\n"));
    }
    Ok(out)
}
