//! Saying why nothing fits: the smallest set of requests that conflict, and the nearest change.

use super::{Evaluator, NothingFits, Refusal};
use crate::codes;
use shardc_cost::memory::Memory;
use shardc_cost::serving::Unservable;
use shardc_ir::diag::Diagnostic;

/// Explains why no plan fits.
pub fn explain(evaluator: &Evaluator<'_>, nothing: &NothingFits) -> Box<Diagnostic> {
    let Some((degrees, refusal)) = &nothing.closest else {
        let message = "no tuple of parallel degrees is legal for this model on these devices";
        return Box::new(
            Diagnostic::error(codes::INFEASIBLE, message)
                .help("`shardc degrees MODEL --gpus N` lists every degree with its reason"),
        );
    };
    let diagnostic = match refusal {
        Refusal::Weights { memory, .. } => weights(evaluator, memory),
        Refusal::Service { cause: Unservable::KvMemory { needed, budget }, memory } => {
            kv(evaluator, memory, *needed, *budget)
        }
        Refusal::Service { cause, .. } => limits(cause),
    };
    let tried = format!("{} plans tried; the nearest is {degrees}", nothing.evaluations);
    Box::new(diagnostic.note(tried))
}

fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / (1u64 << 30) as f64)
}

/// Conflict: weights and fixed items against the memory of the devices.
fn weights(evaluator: &Evaluator<'_>, memory: &Memory) -> Diagnostic {
    let cluster = evaluator.cluster;
    let devices = evaluator.devices();
    let message = format!(
        "the model does not fit {devices} × {}: the fullest device needs {} and has {}",
        cluster.device.name,
        gib(memory.total()),
        gib(memory.usable)
    );
    let fixed = memory.total() - memory.weights;
    let free = memory.usable.saturating_sub(fixed);
    let factor = memory.weights.div_ceil(free.max(1)).max(2);
    let more = (devices.saturating_mul(factor)).next_multiple_of(cluster.node.devices.max(1));
    let help = if free == 0 {
        "use devices with more memory, shorter prompts (`--isl`), or a larger `--mem-fraction`"
            .to_string()
    } else {
        format!(
            "use at least {more} such devices, weights of {} bits or fewer, or devices with {} or more",
            (16 / factor).max(4),
            gib(memory.total())
        )
    };
    let items: Vec<String> = memory
        .items()
        .iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(name, bytes)| format!("{name} {}", gib(*bytes)))
        .collect();
    Diagnostic::error(codes::INFEASIBLE, message)
        .note(format!("conflict: weights, {devices} devices of {}", gib(memory.capacity)))
        .note(format!("on the fullest device: {}", items.join(", ")))
        .help(help)
}

/// Conflict: one request's KV cache against what weights leave.
fn kv(evaluator: &Evaluator<'_>, memory: &Memory, needed: u64, budget: u64) -> Diagnostic {
    let message = format!(
        "the KV cache of one request of {} tokens needs {} on the fullest device, and weights leave {}",
        evaluator.max_len,
        gib(needed),
        gib(budget)
    );
    let most = u128::from(evaluator.max_len) * u128::from(budget) / u128::from(needed.max(1));
    let help = format!(
        "max context {most} fits (`--max-len {most}`); or use more devices, or `--kv-dtype f8e4m3`"
    );
    Diagnostic::error(codes::INFEASIBLE, message)
        .note(format!(
            "conflict: context length, weights of {}, {} devices",
            gib(memory.weights),
            evaluator.devices()
        ))
        .help(help)
}

/// Conflict: latency limits against the fastest plan.
fn limits(cause: &Unservable) -> Diagnostic {
    let (conflict, help) = match cause {
        Unservable::Tpot { best, .. } => (
            "the TPOT limit",
            format!("`--tpot {:.1}` is the nearest limit that can be met", best.as_ms() + 0.05),
        ),
        Unservable::Ttft { best, .. } => (
            "the TTFT limit",
            format!("`--ttft {:.1}` is the nearest limit that can be met", best.as_ms() + 0.05),
        ),
        Unservable::Concurrency { .. } => (
            "the concurrency and the latency limits",
            "lower `--concurrency`, or leave it out to take the best that meets the limits"
                .to_string(),
        ),
        _ => ("the load", "check `--isl`, `--osl` and `--concurrency`".to_string()),
    };
    Diagnostic::error(codes::INFEASIBLE, format!("no plan meets {conflict}: {cause}"))
        .note(format!("conflict: {conflict}, these devices"))
        .help(help)
}
