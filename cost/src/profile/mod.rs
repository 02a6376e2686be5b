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
}

impl Host {
    /// Time of a step whose device is busy for `device_ns` with so many `requests`; `launched` is
    /// the number of kernels that no graph launches.
    pub fn step(&self, device_ns: f64, requests: u64, launched: u64) -> f64 {
        let each = requests as f64 * self.request_ns + launched as f64 * self.kernel_ns;
        (device_ns + self.serial_ns).max(self.step_ns + each)
    }
}

/// `floor + ((c)^p + (b)^p)^(1/p)` with
/// c = (wave·max(⌈x⌉, 1) + (1 − wave)·x)·SMs·2·128²·(k + k0) / (compute·peak),
/// x = batch·⌈m/64⌉·64·⌈n/128⌉ / (128·SMs), b = bytes / (memory·bandwidth).
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
    /// Whether compute and memory combine with p = 4 (almost a maximum), or else p = 2.
    pub sharp: bool,
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
    /// Fraction of peak FLOP/s of what lies outside the measured surface.
    pub beyond: f64,
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
        Load::Skewed { few: 0.59, many: 0.27, spread: 1.53, tail: 1.2, idle: 3.23 };
    /// Power law with exponent 1.2 (rows `power_law_1.2` of TensorRT-LLM 1.3).
    pub const POWER_LAW_1_2: Load =
        Load::Skewed { few: 0.62, many: 0.33, spread: 1.18, tail: 1.41, idle: 3.22 };
}

/// `floor + FLOPs / (compute·peak) + bytes / (memory·bandwidth)`, where the softmax counts as
/// `softmax_dim` more head dimensions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrefillFit {
    /// Time of an empty call, ns, on the H100.
    pub floor_ns: f64,
    /// Fraction of peak FLOP/s.
    pub compute: f64,
    /// Fraction of peak bandwidth.
    pub memory: f64,
    /// Head dimensions that the exponentials are worth.
    pub softmax_dim: f64,
}

/// `floor + max((b² + u²)^½, c)`: b = KV bytes, u = `block_ns` for each wave of (request, KV head)
/// blocks over the multiprocessors, c = FLOPs of query heads in tiles of 64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodeFit {
    /// Time of an empty call, ns, on the H100.
    pub floor_ns: f64,
    /// Fraction of peak bandwidth.
    pub memory: f64,
    /// Time of one block on a multiprocessor, ns.
    pub block_ns: f64,
    /// Fraction of peak FLOP/s.
    pub compute: f64,
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
    /// little, and no server streams.
    pub fn tensorrt() -> Profile {
        Profile { name: "tensorrt", host: engines::TENSORRT, ..Profile::vllm() }
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
}
