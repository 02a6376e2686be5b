//! Whose kernels and collectives are priced: efficiency constants by name.
//!
//! Every constant is relative to the device that runs the kernel, so a formula fitted on an H100
//! carries over to another machine through its FLOP/s, bandwidth and launch floor. Fits are on the
//! H100 SXM rows of aiconfigurator-core 0.12.0 (Apache-2.0); `docs/cost.md` gives their errors.

mod engines;
mod vllm;

use crate::serving::{self, Scheduling};

/// Kernels and collectives of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Name in reports and options.
    pub name: &'static str,
    /// Matrix products on bf16 and f16 operands.
    pub gemm_16: GemmFit,
    /// Matrix products on fp8 and int8 operands with one scale a row, quantisation included.
    pub gemm_8: GemmFit,
    /// Matrix products on fp8 operands with 128 × 128 block scales.
    pub gemm_8_block: GemmFit,
    /// Experts on bf16 operands.
    pub experts_16: ExpertFit,
    /// Experts on fp8 operands with one scale a row.
    pub experts_8: ExpertFit,
    /// Experts on fp8 operands with block scales.
    pub experts_8_block: ExpertFit,
    /// Experts on bf16 operands whose weights are stored in fewer than 8 bits.
    pub experts_weight_only: ExpertFit,
    /// Attention over new tokens, 16-bit KV.
    pub prefill_16: PrefillFit,
    /// Attention over new tokens, 8-bit KV.
    pub prefill_8: PrefillFit,
    /// Attention of one token a request over a 16-bit KV cache.
    pub decode_16: DecodeFit,
    /// Attention of one token a request over an 8-bit KV cache.
    pub decode_8: DecodeFit,
    /// Attention of one token a request over a 16-bit latent cache (MLA).
    pub latent_16: DecodeFit,
    /// Attention of one token a request over an 8-bit latent cache (MLA).
    pub latent_8: DecodeFit,
    /// Masked kernels of a decode step in place of those above, if the engine has them.
    pub masked: Option<Masked>,
    /// Norms, additions, activations, rotary embeddings, gathers.
    pub stream: StreamFit,
    /// How tokens spread over experts.
    pub load: Load,
    /// Whether times are those of a benchmark, which calls kernels one by one from the host over
    /// the same buffers: fp8 block products pay for eager quantisation, and small KV caches stay
    /// in the device's cache. A model's CUDA graph does neither.
    pub benchmark: bool,
    /// Whether decode steps replay CUDA graphs, which makes the custom all-reduce fast.
    pub cuda_graphs: bool,
    /// Whether small all-reduces use one- and two-shot kernels over peer memory.
    pub custom_all_reduce: bool,
    /// What the host does in a step.
    pub host: Host,
    /// Whether collectives run beside kernels.
    pub overlap: Overlap,
    /// How requests share steps.
    pub scheduling: Scheduling,
    /// Tokens in a prefill step: requests are batched up to this many.
    pub prefill_tokens: u64,
}

/// Work of the host in a step: a part that the device waits for, and one that runs beside it, so
/// that the longer of the two decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// Time that the device waits for, ns.
    pub serial_ns: f64,
    /// Time of a step beside the device, ns.
    pub step_ns: f64,
    /// The same for each request in the step that streams its tokens to a client, ns.
    pub request_ns: f64,
    /// The same for each kernel that no CUDA graph launches: those of prompts, ns.
    pub kernel_ns: f64,
    /// How many requests wait outside the scheduler: see [`lagging`](Self::lagging).
    pub lag: f64,
    /// From which part of the device's time on.
    pub lag_from: f64,
}

impl Host {
    /// Time of a step whose device is busy for `device_ns` with so many `requests`; `launched` is
    /// the number of kernels that no graph launches.
    pub fn step(&self, device_ns: f64, requests: u64, launched: u64) -> f64 {
        let each = requests as f64 * self.request_ns + launched as f64 * self.kernel_ns;
        (device_ns + self.serial_ns).max(self.step_ns + each)
    }

    /// Part of the requests in flight that are in processes beside the scheduler, when decode steps
    /// of `requests` keep the device busy for `device_ns`: `lag` times what the host's work of a
    /// step, as a part of the device's, exceeds `lag_from`.
    pub fn lagging(&self, device_ns: f64, requests: u64) -> f64 {
        let host = self.step_ns + requests as f64 * self.request_ns;
        (self.lag * (host / device_ns.max(1.0) - self.lag_from)).clamp(0.0, 0.5)
    }
}

/// Whether collectives run beside kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Overlap {
    /// They take turns, as in engines that launch everything on one stream.
    None,
    /// They have a stream of their own, as in launch plans: one runs beside any kernel that waits for
    /// nothing of it. While it does, kernels have the multiprocessors that it leaves them.
    Streams {
        /// Multiprocessors that collectives take.
        multiprocessors: u64,
    },
}

impl Overlap {
    /// As many multiprocessors as suffice to saturate NVLink and InfiniBand on an H800 (20 of 132:
    /// DeepSeek-V3 technical report, arXiv 2412.19437, section 3.2.2). Nothing was fitted to runs.
    pub const STREAMS: Overlap = Overlap::Streams { multiprocessors: 20 };

    /// Name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Overlap::None => "none",
            Overlap::Streams { .. } => "modelled",
        }
    }
}

/// `floor + (c^p + b^p)^(1/p) + q` with
/// c = (wave·⌈x⌉·(min(k, split_k) + k0) + (1 − wave)·x·(k + k0))·SMs·2·128² / (compute·peak),
/// x = batch·⌈m/64⌉·64·⌈n/128⌉ / (128·SMs), b = bytes / (memory·bandwidth),
/// q = m·(k + quantised_row)·quantised / bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GemmFit {
    /// Time of an empty product, ns, on the H100.
    pub floor_ns: f64,
    /// Fraction of peak FLOP/s.
    pub compute: f64,
    /// Fraction of peak bandwidth.
    pub memory: f64,
    /// Share of a tile wave that is paid even when the wave is not full.
    pub wave: f64,
    /// Contraction length that a tile's prologue and epilogue are worth.
    pub k0: f64,
    /// Contraction length beyond which a wave that is not full is split along the contraction.
    pub split_k: f64,
    /// Whether compute and memory combine with p = 4 (almost a maximum), or else p = 2, as on every
    /// device before compute capability 9.0.
    pub sharp: bool,
    /// Bytes moved to round an element of the left operand to the type of the product.
    pub quantised: f64,
    /// Elements that rounding a row is worth beside its own.
    pub quantised_row: f64,
    /// Fraction of peak FLOP/s of what lies outside the measured surface.
    pub beyond: f64,
}

/// `floor + (c² + b²)^½ + a`: c = FLOPs at `tile` rows or more per touched expert, b = weights of
/// the touched experts, a = rows moved in and out, permuted, activated; as many experts are touched
/// as there are rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpertFit {
    /// Time of an empty call, ns, on the H100.
    pub floor_ns: f64,
    /// Fraction of peak FLOP/s.
    pub compute: f64,
    /// Fraction of peak bandwidth for weights.
    pub weights: f64,
    /// Fraction of peak bandwidth for activations.
    pub rows: f64,
    /// Rows that an expert pays for at least.
    pub tile: f64,
    /// Passes over the tokens that other devices hold, 16 bits an element, in a benchmark that
    /// gives every device all tokens.
    pub unsplit: f64,
    /// The kernel that runs where an autotuner found none, if rows show it.
    pub untuned: Option<Untuned>,
    /// Fraction of peak FLOP/s of what lies outside the measured surface.
    pub beyond: f64,
}

/// Constants of [`ExpertFit`] for a kernel that was not tuned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Untuned {
    /// Time of an empty call, ns, on the H100.
    pub floor_ns: f64,
    /// Fraction of peak FLOP/s.
    pub compute: f64,
    /// Fraction of peak bandwidth for weights.
    pub weights: f64,
    /// Fraction of peak bandwidth for activations.
    pub rows: f64,
    /// Rows that an expert pays for at least.
    pub tile: f64,
}

/// How tokens spread over experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Every expert has the same number of rows, up to one.
    Balanced,
    /// The busiest device has ep^γ times the mean rows, γ = `few` for at most 16 experts, `many`
    /// for at least 128, linear in their logarithm between. Touched experts follow
    /// `local·(1 − (1 + spread·rows/(local·tail))^−tail)`; `idle` rows an expert are hidden behind
    /// its weights.
    Skewed {
        /// γ of few experts.
        few: f64,
        /// γ of many experts.
        many: f64,
        /// How fast experts are touched by the first rows.
        spread: f64,
        /// How slowly the last ones are; infinite for independent uniform choices.
        tail: f64,
        /// Rows an expert that cost nothing beside its weights.
        idle: f64,
    },
}

impl Load {
    /// Independent uniform choices. A router trained for balance, or expert replicas, leave the
    /// busiest device somewhat ahead: 1.2 times the mean over 8 devices, 1.5 over 64 (a guess).
    pub const UNIFORM: Load =
        Load::Skewed { few: 0.1, many: 0.1, spread: 1.0, tail: 1e3, idle: 4.0 };
    /// Power law with exponent 1.01 (rows `power_law_1.01` of TensorRT-LLM 1.3).
    pub const POWER_LAW_1_01: Load =
        Load::Skewed { few: 0.67, many: 0.28, spread: 1.37, tail: 1.45, idle: 3.19 };
    /// Power law with exponent 1.2 (rows `power_law_1.2` of TensorRT-LLM 1.3).
    pub const POWER_LAW_1_2: Load =
        Load::Skewed { few: 0.68, many: 0.37, spread: 1.19, tail: 1.56, idle: 3.57 };
}

/// `floor + (x + wave·(⌈x⌉ − x))·t + K/(cache·bandwidth) + Q/(queries·bandwidth)`: x waves of tiles
/// of 128 query rows, heads of one KV head together, each of `tile_ns` and its products over its
/// keys and `vain` more; K and Q are the bytes of keys and values, and of queries and results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrefillFit {
    /// Time of an empty call, ns, on the H100.
    pub floor_ns: f64,
    /// Fraction of peak FLOP/s.
    pub compute: f64,
    /// Fraction of peak bandwidth for queries and results.
    pub queries: f64,
    /// Fraction of peak bandwidth for keys and values.
    pub cache: f64,
    /// Head dimensions that the exponentials are worth.
    pub softmax_dim: f64,
    /// Keys that a tile computes in vain.
    pub vain: f64,
    /// Time of a tile beside its products, ns, on the H100.
    pub tile_ns: f64,
    /// Share of a wave of tiles that is paid even when the wave is not full.
    pub wave: f64,
    /// Wide heads.
    pub wide: Wide,
}

/// `floor + max((b² + u²)^½, c) + q + serial·keys^¼`: b = bytes of the keys and `more` of each
/// block, u = `block_ns` for each wave of (request, KV head) blocks over the multiprocessors,
/// c = FLOPs of query heads in tiles of 64, q = bytes of queries and results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodeFit {
    /// Time of an empty call, ns, on the H100.
    pub floor_ns: f64,
    /// Fraction of peak bandwidth for the cache.
    pub memory: f64,
    /// Fraction of peak bandwidth for queries and results.
    pub queries: f64,
    /// Time of a wave of blocks, ns, on the H100.
    pub block_ns: f64,
    /// Keys that a block reads beside its own.
    pub more: f64,
    /// Time of the fourth root of the keys, ns, on the H100.
    pub serial_ns: f64,
    /// Fraction of peak FLOP/s.
    pub compute: f64,
    /// Wide heads.
    pub wide: Wide,
}

/// Attention of one token by a block for each query head, which reads the cache of its KV head by
/// itself, so that heads of a group read it again and the cache of the device catches most of it.
/// Caches of 8 bits are read like half as many keys of 16. Groups of heads over such a cache share a
/// block of another kernel, that of [`Profile::decode_8`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Masked {
    /// Share of the KV bytes that each further head of a group reads from memory.
    pub reread: f64,
    /// Largest group of an 8-bit cache whose heads share a block all the same.
    pub shared_8: f64,
}

impl Masked {
    /// Whether so many heads over one 8-bit KV head share a block.
    pub(crate) fn shares(&self, group: f64) -> bool {
        group > 1.0 && group <= self.shared_8
    }
}

/// Heads that a kernel is slower on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wide {
    /// Widest head that is not.
    pub above: f64,
    /// Times as long.
    pub slower: f64,
}

impl Wide {
    /// None.
    pub const NONE: Wide = Wide { above: f64::INFINITY, slower: 1.0 };

    /// Times as long for a width.
    pub(crate) fn of(&self, width: f64) -> f64 {
        if width > self.above { self.slower } else { 1.0 }
    }
}

/// `floor + bytes / (memory·bandwidth)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamFit {
    /// Time of an empty kernel inside a graph, ns, on the H100.
    pub floor_ns: f64,
    /// Fraction of peak bandwidth.
    pub memory: f64,
}

impl Profile {
    /// Names that [`Profile::named`] knows.
    pub const NAMES: [&'static str; 5] = ["vllm", "sglang", "trtllm", "tensorrt", "shardc"];

    /// Requests of `isl` and `osl` tokens as the engine batches them, at the best concurrency for
    /// throughput and without limits.
    pub fn load_of(&self, isl: u64, osl: u64) -> serving::Load {
        serving::Load {
            prefill_tokens: self.prefill_tokens,
            scheduling: self.scheduling,
            ..serving::Load::new(isl, osl)
        }
    }

    /// The profile of a name, if there is one.
    pub fn named(name: &str) -> Option<Profile> {
        match name {
            "vllm" => Some(Profile::vllm()),
            "sglang" => Some(Profile::sglang()),
            "trtllm" => Some(Profile::trtllm()),
            "tensorrt" => Some(Profile::tensorrt()),
            "shardc" => Some(Profile::shardc()),
            _ => None,
        }
    }

    /// vLLM 0.24: the profile on which every constant was fitted.
    pub fn vllm() -> Profile {
        vllm::PROFILE
    }

    /// SGLang: vLLM's kernels; whole prompts before any decoding.
    pub fn sglang() -> Profile {
        Profile {
            name: "sglang",
            host: engines::SGLANG,
            scheduling: Scheduling::default(),
            ..Profile::vllm()
        }
    }

    /// TensorRT-LLM with its PyTorch runtime: vLLM's kernels; prompts share steps with decoding.
    pub fn trtllm() -> Profile {
        Profile {
            name: "trtllm",
            host: engines::TRTLLM,
            scheduling: engines::TRTLLM_SCHEDULING,
            ..Profile::vllm()
        }
    }

    /// TensorRT-LLM with engines that TensorRT compiled, as before version 1.0: its C++ runtime adds
    /// little, no server streams, kernels of attention are its own, and all-reduces are NCCL's: on
    /// four A100 each takes 20 us more than custom ones at batch 1.
    pub fn tensorrt() -> Profile {
        Profile {
            name: "tensorrt",
            host: engines::TENSORRT,
            masked: Some(engines::TENSORRT_MASKED),
            custom_all_reduce: false,
            ..Profile::vllm()
        }
    }

    /// Our own executor: vLLM's kernels until its own are measured; steps are replayed from a plan,
    /// so the host adds little.
    pub fn shardc() -> Profile {
        Profile { name: "shardc", host: engines::SHARDC, ..Profile::vllm() }
    }
}

impl Default for Profile {
    fn default() -> Profile {
        Profile::vllm()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_its_profile() {
        for name in Profile::NAMES {
            assert_eq!(Profile::named(name).map(|p| p.name), Some(name));
        }
        assert_eq!(Profile::named("triton"), None);
    }

    #[test]
    fn no_fraction_exceeds_its_peak() {
        let p = Profile::vllm();
        for fit in [p.gemm_16, p.gemm_8, p.gemm_8_block] {
            assert!(fit.compute <= 1.0 && fit.memory <= 1.0 && fit.wave <= 1.0);
        }
        for fit in [p.experts_16, p.experts_8, p.experts_8_block, p.experts_weight_only] {
            assert!(fit.compute <= 1.0 && fit.weights <= 1.0 && fit.rows <= 1.0);
        }
    }

    #[test]
    fn requests_lag_where_the_host_is_the_longer() {
        let host = Profile::sglang().host;
        let device = |share: f64| (host.step_ns + 512.0 * host.request_ns) / share;
        assert_eq!(host.lagging(device(0.4), 512), 0.0, "the device hides half of the host");
        assert!((host.lagging(device(2.0), 512) - 0.09).abs() < 1e-12);
        assert!(host.lagging(0.0, 512) <= 0.5);
        assert_eq!(Profile::vllm().host.lagging(1.0, 512), 0.0);
    }
}
