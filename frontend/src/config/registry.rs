//! The table of families: one row each.

use super::Cx;
use super::families::*;
use crate::spec::ModelSpec;
use shardc_ir::diag::Result;

/// A family of models with one reader.
pub struct Family {
    /// Name in messages, in `--assume` and in [`ModelSpec::family`].
    pub name: &'static str,
    /// Values of `model_type` that it answers to.
    pub model_types: &'static [&'static str],
    /// Values of `architectures` that it answers to where the model type is unknown.
    pub architectures: &'static [&'static str],
    /// What sets it apart.
    pub summary: &'static str,
    pub(crate) read: fn(&Cx) -> Result<ModelSpec>,
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Every family, in the order of the documentation.
pub static FAMILIES: &[Family] = &[
    Family {
        name: "llama",
        model_types: &["llama", "code_llama"],
        architectures: &["LlamaForCausalLM"],
        summary: "grouped-query attention, RMS norms, SwiGLU (Llama 1 to 3, Code Llama)",
        read: llama::llama,
    },
    Family {
        name: "llama4",
        model_types: &["llama4_text", "llama4"],
        architectures: &["Llama4ForCausalLM", "Llama4ForConditionalGeneration"],
        summary: "chunked attention, layers without RoPE, MoE layers between dense ones",
        read: llama4::llama4,
    },
    Family {
        name: "mistral",
        model_types: &["mistral"],
        architectures: &["MistralForCausalLM"],
        summary: "Llama with a sliding window in all layers",
        read: mistral::mistral,
    },
    Family {
        name: "mixtral",
        model_types: &["mixtral"],
        architectures: &["MixtralForCausalLM"],
        summary: "Mistral with 8 experts, softmax over the chosen",
        read: mistral::mixtral,
    },
    Family {
        name: "qwen2",
        model_types: &["qwen2"],
        architectures: &["Qwen2ForCausalLM"],
        summary: "Llama with biases on q, k and v (Qwen 1.5, 2, 2.5)",
        read: qwen::qwen2,
    },
    Family {
        name: "qwen3",
        model_types: &["qwen3"],
        architectures: &["Qwen3ForCausalLM"],
        summary: "Llama with a norm on each query and key head",
        read: qwen::qwen3,
    },
    Family {
        name: "qwen3_moe",
        model_types: &["qwen3_moe"],
        architectures: &["Qwen3MoeForCausalLM"],
        summary: "Qwen 3 with many small experts",
        read: qwen::qwen3_moe,
    },
    Family {
        name: "deepseek_v2",
        model_types: &["deepseek_v2"],
        architectures: &["DeepseekV2ForCausalLM"],
        summary: "latent attention, softmax routing within groups",
        read: deepseek::v2,
    },
    Family {
        name: "deepseek_v3",
        model_types: &["deepseek_v3", "kimi_k2"],
        architectures: &["DeepseekV3ForCausalLM"],
        summary: "latent attention, sigmoid routing with a correction bias (V3, V3.1, R1, Kimi K2)",
        read: deepseek::v3,
    },
    Family {
        name: "gpt_oss",
        model_types: &["gpt_oss"],
        architectures: &["GptOssForCausalLM"],
        summary: "attention sinks, a window in every other layer, clamped SwiGLU experts",
        read: gpt_oss::gpt_oss,
    },
    Family {
        name: "phi3",
        model_types: &["phi3"],
        architectures: &["Phi3ForCausalLM"],
        summary: "Llama with fused projections and LongRoPE (Phi 3, 3.5 mini, 4)",
        read: phi::phi3,
    },
];
