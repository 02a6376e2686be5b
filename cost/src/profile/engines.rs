//! What the hosts of engines add to steps, and how each was fitted.
//!
//! Served rows of Llama-3.1-8B give the constants (docs/results/serving.md): a decode step that the
//! device could do in 1 ms takes what the host needs, which grows with the requests that stream.

use super::{Host, Masked};
use crate::serving::Scheduling;

/// No processes beside the scheduler that requests wait in.
const ALONE: Host =
    Host { serial_ns: 0.0, step_ns: 0.0, request_ns: 0.0, kernel_ns: 0.0, lag: 0.0, lag_from: 0.0 };

/// vLLM 0.12: the scheduler runs between steps.
pub(super) const VLLM: Host = Host {
    serial_ns: 400_000.0,
    step_ns: 3_500_000.0,
    request_ns: 10_000.0,
    kernel_ns: 10_000.0,
    ..ALONE
};

/// SGLang 0.5: the scheduler runs beside the device; tokens pass two more processes to the client.
/// `lag` was fitted on tp 1 and 4, and is the best on tp 2 and 8 too.
pub(super) const SGLANG: Host = Host {
    serial_ns: 200_000.0,
    step_ns: 1_500_000.0,
    request_ns: 36_000.0,
    kernel_ns: 25_000.0,
    lag: 0.06,
    lag_from: 0.5,
};

/// TensorRT-LLM 1.0, PyTorch runtime with the overlap scheduler. `lag` was fitted on tp 1 and 4.
pub(super) const TRTLLM: Host = Host {
    serial_ns: 300_000.0,
    step_ns: 2_300_000.0,
    request_ns: 45_000.0,
    kernel_ns: 45_000.0,
    lag: 0.15,
    lag_from: 1.0,
};

/// TensorRT-LLM before 1.0: engines launch their kernels from C++.
pub(super) const TENSORRT: Host =
    Host { serial_ns: 300_000.0, step_ns: 0.0, request_ns: 0.0, kernel_ns: 5_000.0, ..ALONE };

/// Our executor, a guess.
pub(super) const SHARDC: Host =
    Host { serial_ns: 50_000.0, step_ns: 0.0, request_ns: 0.0, kernel_ns: 0.0, ..ALONE };

/// TensorRT-LLM's server: one request in flight always waits for a place, and its one process
/// streams 9,000 tokens a second.
pub(super) const TRTLLM_SCHEDULING: Scheduling =
    Scheduling { mixed: true, held: 1.0, tokens_per_s: 9_000.0, ..Scheduling::ALONE };

/// TensorRT-LLM 0.14 on an H100, 16-bit caches of Llama-3.1-70B (8 heads a group), less what the
/// blocks of all heads cost to launch. Its kernels that share a block (XQA) run on 8-bit caches.
pub(super) const TENSORRT_MASKED: Masked = Masked { reread: 0.2, shared_8: 16.0 };
