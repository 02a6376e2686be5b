//! Constants of vLLM 0.24 on an H100 SXM, and how each was fitted.

use super::{
    DecodeFit, ExpertFit, GemmFit, Load, Overlap, PrefillFit, Profile, StreamFit, Untuned, Wide,
    engines,
};
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
        unsplit: 3.0,
        untuned: Some(UNTUNED_8),
        beyond: 0.5,
        ..EXPERTS_16
    },
    experts_8_block: EXPERTS_8_BLOCK,
    experts_weight_only: EXPERTS_WEIGHT_ONLY,
    prefill_16: PREFILL_16,
    prefill_8: PREFILL_8,
    decode_16: DECODE_16,
    decode_8: DECODE_8,
    latent_16: LATENT_16,
    latent_8: LATENT_8,
    masked: None,
    stream: StreamFit { floor_ns: 2000.0, memory: 0.806 },
    load: Load::UNIFORM,
    benchmark: false,
    cuda_graphs: true,
    custom_all_reduce: true,
    host: engines::VLLM,
    overlap: Overlap::None,
    scheduling: Scheduling { mixed: true, ..Scheduling::ALONE },
    prefill_tokens: 8192,
};

/// `torch.nn.functional.linear`, 25,094 rows.
const GEMM_16: GemmFit = GemmFit {
    floor_ns: 2580.0,
    compute: 0.758,
    memory: 0.85,
    wave: 0.189,
    k0: 71.0,
    split_k: 3170.0,
    sharp: true,
    quantised: 0.0,
    quantised_row: 0.0,
    beyond: 0.75,
};

/// `CutlassFP8ScaledMMLinearKernel`, 25,042 rows: a scale for each row, found and applied by a
/// kernel of its own.
const GEMM_8: GemmFit = GemmFit {
    floor_ns: 5040.0,
    compute: 0.674,
    memory: 0.86,
    wave: 0.208,
    k0: 0.0,
    split_k: f64::INFINITY,
    sharp: false,
    quantised: 6.57,
    quantised_row: 3240.0,
    beyond: 0.65,
};

/// DeepGEMM, CUTLASS and FlashInfer, 24,881 rows. They hold about 80 us of eager quantisation,
/// which a CUDA graph does not pay: the floor is two launches, a guess; the rest is fitted above
/// the rows' own floor.
const GEMM_8_BLOCK: GemmFit = GemmFit {
    floor_ns: 8000.0,
    compute: 0.751,
    memory: 0.95,
    wave: 0.212,
    k0: 0.0,
    split_k: f64::INFINITY,
    sharp: false,
    quantised: 6.47,
    quantised_row: 0.0,
    beyond: 0.7,
};

/// TensorRT-LLM 1.3 rows with gates and balanced load, 9,070.
const EXPERTS_16: ExpertFit = ExpertFit {
    floor_ns: 31_800.0,
    compute: 1.0,
    weights: 0.873,
    rows: 0.266,
    tile: 74.0,
    unsplit: 1.5,
    untuned: Some(UNTUNED_16),
    beyond: 0.7,
};

/// The same with fp8 block scales, 9,034 rows.
const EXPERTS_8_BLOCK: ExpertFit = ExpertFit {
    floor_ns: 27_400.0,
    weights: 0.945,
    rows: 0.118,
    tile: 170.0,
    unsplit: 2.5,
    untuned: None,
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
    unsplit: 40.0,
    untuned: None,
    beyond: 0.5,
};

/// 3,034 rows of 161 runs in which no kernel was tuned: two thirds of them within 20 %.
const UNTUNED_16: Untuned =
    Untuned { floor_ns: 46_800.0, compute: 0.119, weights: 0.194, rows: 0.278, tile: 48.0 };

/// The same with fp8, 2,797 rows of 147 runs.
const UNTUNED_8: Untuned =
    Untuned { floor_ns: 45_300.0, compute: 0.143, weights: 0.193, rows: 0.211, tile: 80.0 };

/// FlashAttention 3, 17,930 rows.
const PREFILL_16: PrefillFit = PrefillFit {
    floor_ns: 10_500.0,
    compute: 0.982,
    queries: 0.941,
    cache: 0.184,
    softmax_dim: 48.5,
    vain: 39.7,
    tile_ns: 2230.0,
    wave: 0.95,
    wide: Wide { above: 256.0, slower: 2.24 },
};

/// FlashAttention 3 with an fp8 cache, 17,505 rows.
const PREFILL_8: PrefillFit = PrefillFit {
    floor_ns: 11_600.0,
    compute: 0.754,
    queries: 0.638,
    cache: 0.0637,
    softmax_dim: 16.3,
    vain: 75.7,
    tile_ns: 1790.0,
    wave: 1.0,
    wide: Wide { above: 192.0, slower: 1.47 },
};

/// FlashAttention 3, 21,977 rows.
const DECODE_16: DecodeFit = DecodeFit {
    floor_ns: 8500.0,
    memory: 0.94,
    queries: 0.468,
    block_ns: 2590.0,
    more: 95.9,
    serial_ns: 507.0,
    compute: 0.77,
    wide: Wide { above: 256.0, slower: 2.5 },
};

/// FlashAttention 3 with an fp8 cache, 21,523 rows.
const DECODE_8: DecodeFit = DecodeFit {
    floor_ns: 10_200.0,
    memory: 0.762,
    queries: 0.531,
    block_ns: 2210.0,
    more: 205.0,
    serial_ns: 630.0,
    compute: 0.33,
    wide: Wide { above: 192.0, slower: 1.45 },
};

/// Slopes of the MLA module rows: 0.377 ns a token of 1152 bytes (0.397 with 128 heads).
const LATENT_16: DecodeFit = DecodeFit {
    floor_ns: 11_890.0,
    memory: 0.912,
    queries: 0.912,
    block_ns: 3516.0,
    more: 0.0,
    serial_ns: 0.0,
    compute: 0.709,
    wide: Wide::NONE,
};

/// The same with fp8: 0.195 ns a token of 576 bytes (0.350 with 128 heads).
const LATENT_8: DecodeFit =
    DecodeFit { floor_ns: 13_790.0, memory: 0.882, queries: 0.882, compute: 0.805, ..LATENT_16 };
