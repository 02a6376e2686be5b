//! Constants of vLLM 0.24 on an H100 SXM, and how each was fitted.

use super::{DecodeFit, ExpertFit, GemmFit, Load, PrefillFit, Profile, StreamFit, engines};
use crate::serving::Scheduling;

/// The whole profile.
pub(super) const PROFILE: Profile = Profile {
    name: "vllm",
    gemm_16: GEMM_16,
    gemm_8: GEMM_8,
    gemm_8_block: GEMM_8_BLOCK,
    experts_16: EXPERTS_16,
    experts_8: ExpertFit {
        floor_ns: 32_300.0,
        weights: 0.882,
        tile: 152.0,
        beyond: 0.5,
        ..EXPERTS_16
    },
    experts_8_block: EXPERTS_8_BLOCK,
    experts_weight_only: EXPERTS_WEIGHT_ONLY,
    prefill_16: PrefillFit { floor_ns: 13_040.0, compute: 1.0, memory: 0.353, softmax_dim: 59.0 },
    prefill_8: PrefillFit { floor_ns: 14_460.0, compute: 0.667, memory: 0.277, softmax_dim: 10.0 },
    decode_16: DECODE_16,
    decode_8: DECODE_8,
    latent_16: DecodeFit { memory: 0.912, compute: 0.709, ..DECODE_16 },
    latent_8: DecodeFit { memory: 0.882, compute: 0.805, ..DECODE_8 },
    stream: StreamFit { floor_ns: 2000.0, memory: 0.806 },
    load: Load::UNIFORM,
    benchmark: false,
    cuda_graphs: true,
    custom_all_reduce: true,
    host: engines::VLLM,
    scheduling: Scheduling { mixed: true, ..Scheduling::ALONE },
    prefill_tokens: 8192,
};

/// `torch.nn.functional.linear`, 25,094 rows.
const GEMM_16: GemmFit = GemmFit {
    floor_ns: 2770.0,
    compute: 0.847,
    memory: 0.854,
    wave: 0.084,
    k0: 160.0,
    sharp: true,
    beyond: 0.72,
};

/// `CutlassFP8ScaledMMLinearKernel`, 25,042 rows.
const GEMM_8: GemmFit = GemmFit {
    floor_ns: 5530.0,
    compute: 0.481,
    memory: 0.989,
    wave: 0.202,
    k0: 554.0,
    sharp: false,
    beyond: 0.55,
};

/// DeepGEMM, CUTLASS and FlashInfer, 24,881 rows. They hold about 80 us of eager quantisation,
/// which a CUDA graph does not pay: the floor is two launches, a guess; the rest is fitted above
/// the rows' own floor.
const GEMM_8_BLOCK: GemmFit = GemmFit {
    floor_ns: 8000.0,
    compute: 0.733,
    memory: 0.95,
    wave: 0.053,
    k0: 128.0,
    sharp: false,
    beyond: 0.6,
};

/// TensorRT-LLM 1.3 rows with gates and balanced load, 9,070.
const EXPERTS_16: ExpertFit = ExpertFit {
    floor_ns: 31_800.0,
    compute: 1.0,
    weights: 0.873,
    rows: 0.266,
    tile: 74.0,
    beyond: 0.7,
};

/// The same with fp8 block scales, 9,034 rows.
const EXPERTS_8_BLOCK: ExpertFit = ExpertFit {
    floor_ns: 27_400.0,
    weights: 0.945,
    rows: 0.118,
    tile: 170.0,
    beyond: 0.55,
    ..EXPERTS_16
};

/// The same with 4-bit weights (MXFP4), 248 rows of one shape.
const EXPERTS_WEIGHT_ONLY: ExpertFit = ExpertFit {
    floor_ns: 76_000.0,
    compute: 1.0,
    weights: 0.613,
    rows: 0.173,
    tile: 1.0,
    beyond: 0.5,
};

/// FlashAttention 3, 21,977 rows; the compute share, 650 TFLOP/s, is assumed.
/// The latent fits keep the floors and take the slopes of the MLA module rows: 0.377 ns a token
/// of 1152 bytes (0.397 with 128 heads), 0.195 ns a token of 576 bytes (0.350 with 128 heads).
const DECODE_16: DecodeFit =
    DecodeFit { floor_ns: 11_890.0, memory: 0.853, block_ns: 3516.0, compute: 0.657 };

/// FlashAttention 3 with an fp8 cache, 21,523 rows.
const DECODE_8: DecodeFit =
    DecodeFit { floor_ns: 13_790.0, memory: 0.616, block_ns: 3542.0, compute: 0.657 };
