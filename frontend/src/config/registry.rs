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

impl Family {
    /// Whether the family answers to this architecture.
    pub fn reads(&self, architecture: &str) -> bool {
        self.architectures.contains(&architecture)
    }
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
        model_types: &["llama", "code_llama", "internlm3", "iquestcoder"],
        architectures: &["LlamaForCausalLM"],
        summary: "grouped-query attention, RMS norms, SwiGLU (Llama 1 to 3, Code Llama, Yi)",
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
        name: "seed_oss",
        model_types: &["seed_oss"],
        architectures: &["SeedOssForCausalLM"],
        summary: "Llama with biases on q, k and v",
        read: llama::seed_oss,
    },
    Family {
        name: "arcee",
        model_types: &["arcee"],
        architectures: &["ArceeForCausalLM"],
        summary: "Llama with squared ReLU and no gate",
        read: llama::arcee,
    },
    Family {
        name: "helium",
        model_types: &["helium"],
        architectures: &["HeliumForCausalLM"],
        summary: "Llama whose RoPE turns neighbours",
        read: llama::helium,
    },
    Family {
        name: "smollm3",
        model_types: &["smollm3"],
        architectures: &["SmolLM3ForCausalLM"],
        summary: "Llama without RoPE in every fourth layer",
        read: llama::smollm3,
    },
    Family {
        name: "cwm",
        model_types: &["cwm"],
        architectures: &["CwmForCausalLM"],
        summary: "Llama with a window in three layers of four",
        read: llama::cwm,
    },
    Family {
        name: "internlm2",
        model_types: &["internlm2"],
        architectures: &["InternLM2ForCausalLM"],
        summary: "Llama with one tensor for q, k and v",
        read: llama::internlm2,
    },
    Family {
        name: "minicpm",
        model_types: &["minicpm"],
        architectures: &["MiniCPMForCausalLM"],
        summary: "Llama with factors on embeddings, residual branches and logits",
        read: llama::minicpm,
    },
    Family {
        name: "nemotron_nas",
        model_types: &["nemotron-nas"],
        architectures: &["DeciLMForCausalLM"],
        summary: "Llama 3 pruned block by block (Llama Nemotron)",
        read: nemotron_nas::nemotron_nas,
    },
    Family {
        name: "mistral",
        model_types: &["mistral", "ministral", "ministral3"],
        architectures: &["MistralForCausalLM", "MinistralForCausalLM", "Ministral3ForCausalLM"],
        summary: "Llama with a sliding window (Mistral, Ministral)",
        read: mistral::mistral,
    },
    Family {
        name: "mixtral",
        model_types: &["mixtral"],
        architectures: &["MixtralForCausalLM"],
        summary: "Mistral with experts, weights of the chosen renormalised",
        read: mistral::mixtral,
    },
    Family {
        name: "qwen1",
        model_types: &["qwen"],
        architectures: &["QWenLMHeadModel"],
        summary: "Qwen 1: fused q, k and v, doubled `intermediate_size`",
        read: qwen::qwen1,
    },
    Family {
        name: "qwen2",
        model_types: &[
            "qwen2",
            "qwen2_vl",
            "qwen2_vl_text",
            "qwen2_5_vl",
            "qwen2_5_vl_text",
            "mimo",
        ],
        architectures: &[
            "Qwen2ForCausalLM",
            "Qwen2VLForConditionalGeneration",
            "Qwen2_5_VLForConditionalGeneration",
        ],
        summary: "Llama with biases on q, k and v (Qwen 1.5, 2, 2.5)",
        read: qwen::qwen2,
    },
    Family {
        name: "qwen2_moe",
        model_types: &["qwen2_moe"],
        architectures: &["Qwen2MoeForCausalLM"],
        summary: "Qwen 2 with experts and a gated shared expert",
        read: qwen::qwen2_moe,
    },
    Family {
        name: "qwen3",
        model_types: &["qwen3", "qwen3_vl_text"],
        architectures: &["Qwen3ForCausalLM"],
        summary: "Llama with a norm on each query and key head",
        read: qwen::qwen3,
    },
    Family {
        name: "qwen3_moe",
        model_types: &["qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text"],
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
        model_types: &["deepseek_v3", "kimi_k2", "glm4_moe_lite"],
        architectures: &["DeepseekV3ForCausalLM", "Glm4MoeLiteForCausalLM"],
        summary: "latent attention, sigmoid routing with a correction bias (V3, V3.1, R1, Kimi K2, GLM 4.7 Flash)",
        read: deepseek::v3,
    },
    Family {
        name: "deepseek_v32",
        model_types: &["deepseek_v32", "glm_moe_dsa"],
        architectures: &["DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"],
        summary: "DeepSeek V3 with an indexer for sparse attention (V3.2, GLM 5)",
        read: deepseek::v32,
    },
    Family {
        name: "youtu",
        model_types: &["youtu"],
        architectures: &["YoutuForCausalLM"],
        summary: "latent attention, dense blocks only",
        read: deepseek::youtu,
    },
    Family {
        name: "gpt_oss",
        model_types: &["gpt_oss"],
        architectures: &["GptOssForCausalLM"],
        summary: "attention sinks, a window in every other layer, clamped SwiGLU experts",
        read: gpt_oss::gpt_oss,
    },
    Family {
        name: "gemma",
        model_types: &["gemma"],
        architectures: &["GemmaForCausalLM"],
        summary: "scaled tied embeddings, norms of 1 + weight, GeGLU",
        read: gemma::gemma,
    },
    Family {
        name: "gemma2",
        model_types: &["gemma2"],
        architectures: &["Gemma2ForCausalLM"],
        summary: "Gemma with sandwich norms, soft caps, a window in even layers",
        read: gemma::gemma2,
    },
    Family {
        name: "gemma3",
        model_types: &["gemma3_text", "gemma3"],
        architectures: &["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"],
        summary: "Gemma 2 with query and key norms, a window in five layers of six",
        read: gemma::gemma3,
    },
    Family {
        name: "phi",
        model_types: &["phi"],
        architectures: &["PhiForCausalLM"],
        summary: "parallel blocks, layer norms, biases everywhere (Phi 1 to 2)",
        read: phi::phi,
    },
    Family {
        name: "phi3",
        model_types: &["phi3", "phi4mm", "phi4_multimodal"],
        architectures: &["Phi3ForCausalLM", "Phi4MMForCausalLM", "Phi4MultimodalForCausalLM"],
        summary: "Llama with fused projections and LongRoPE (Phi 3, 3.5 mini, 4)",
        read: phi::phi3,
    },
    Family {
        name: "phimoe",
        model_types: &["phimoe"],
        architectures: &["PhimoeForCausalLM", "PhiMoEForCausalLM"],
        summary: "layer norms, biases, experts chosen one after another (Phi 3.5 MoE)",
        read: phi::phimoe,
    },
    Family {
        name: "dbrx",
        model_types: &["dbrx"],
        architectures: &["DbrxForCausalLM"],
        summary: "clamped q, k and v, layer norms, 16 experts in stacked tensors",
        read: dbrx::dbrx,
    },
    Family {
        name: "falcon",
        model_types: &["falcon", "RefinedWeb", "RefinedWebModel"],
        architectures: &["FalconForCausalLM", "RWForCausalLM"],
        summary: "multi-query attention beside a plain MLP",
        read: falcon::falcon,
    },
    Family {
        name: "glm",
        model_types: &["glm"],
        architectures: &["GlmForCausalLM"],
        summary: "half of each head rotates, biases on q, k and v (GLM 4 9B)",
        read: glm::glm,
    },
    Family {
        name: "glm4",
        model_types: &["glm4", "glm4v_text"],
        architectures: &["Glm4ForCausalLM"],
        summary: "GLM with sandwich norms (GLM 4 0414)",
        read: glm::glm4,
    },
    Family {
        name: "chatglm",
        model_types: &["chatglm"],
        architectures: &["ChatGLMModel", "ChatGLMForConditionalGeneration"],
        summary: "GLM under the keys of its own code (ChatGLM 2, 3, GLM 4 9B)",
        read: glm::chatglm,
    },
    Family {
        name: "glm4_moe",
        model_types: &["glm4_moe", "glm4v_moe_text"],
        architectures: &["Glm4MoeForCausalLM"],
        summary: "GLM with DeepSeek V3's experts (GLM 4.5, 4.6)",
        read: glm::glm4_moe,
    },
    Family {
        name: "solar_open",
        model_types: &["solar_open"],
        architectures: &["SolarOpenForCausalLM"],
        summary: "GLM 4.5 with experts in every layer",
        read: glm::solar_open,
    },
    Family {
        name: "dots1",
        model_types: &["dots1"],
        architectures: &["Dots1ForCausalLM"],
        summary: "GLM 4.5's experts, a norm on each query and key head",
        read: glm::dots1,
    },
    Family {
        name: "granite",
        model_types: &["granite"],
        architectures: &["GraniteForCausalLM"],
        summary: "Llama with multipliers on embeddings, scores, residuals and logits",
        read: granite::granite,
    },
    Family {
        name: "granitemoe",
        model_types: &["granitemoe", "granitemoeshared"],
        architectures: &["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"],
        summary: "Granite with experts, softmax over the chosen",
        read: granite::granitemoe,
    },
    Family {
        name: "granitemoehybrid",
        model_types: &["granitemoehybrid"],
        architectures: &["GraniteMoeHybridForCausalLM"],
        summary: "Granite 4 models whose layers are all attention",
        read: granite::granitemoehybrid,
    },
    Family {
        name: "minimax_m2",
        model_types: &["minimax_m2"],
        architectures: &["MiniMaxM2ForCausalLM"],
        summary: "256 small experts, sigmoid routing, norms over all heads",
        read: minimax::minimax_m2,
    },
    Family {
        name: "olmo",
        model_types: &["olmo"],
        architectures: &["OlmoForCausalLM"],
        summary: "Llama with layer norms without weights",
        read: olmo::olmo,
    },
    Family {
        name: "olmo2",
        model_types: &["olmo2"],
        architectures: &["Olmo2ForCausalLM"],
        summary: "norms on branch outputs and over all heads",
        read: olmo::olmo2,
    },
    Family {
        name: "olmo3",
        model_types: &["olmo3"],
        architectures: &["Olmo3ForCausalLM"],
        summary: "OLMo 2 with a window in three layers of four",
        read: olmo::olmo3,
    },
    Family {
        name: "olmoe",
        model_types: &["olmoe"],
        architectures: &["OlmoeForCausalLM"],
        summary: "64 small experts, norms over all heads",
        read: olmo::olmoe,
    },
    Family {
        name: "flex_olmo",
        model_types: &["flex_olmo"],
        architectures: &["FlexOlmoForCausalLM"],
        summary: "OLMoE with norms on branch outputs",
        read: olmo::flex_olmo,
    },
    Family {
        name: "cohere",
        model_types: &["cohere"],
        architectures: &["CohereForCausalLM"],
        summary: "parallel blocks, tied and scaled logits (Command R, R+)",
        read: cohere::cohere,
    },
    Family {
        name: "cohere2",
        model_types: &["cohere2"],
        architectures: &["Cohere2ForCausalLM"],
        summary: "Cohere with a window in three layers of four (Command R7B, A)",
        read: cohere::cohere2,
    },
    Family {
        name: "exaone",
        model_types: &["exaone"],
        architectures: &["ExaoneForCausalLM"],
        summary: "Llama under names of its own (EXAONE 3, 3.5)",
        read: exaone::exaone3,
    },
    Family {
        name: "exaone4",
        model_types: &["exaone4"],
        architectures: &["Exaone4ForCausalLM"],
        summary: "norms on branch outputs, layers with a window and RoPE, layers with neither",
        read: exaone::exaone4,
    },
    Family {
        name: "exaone_moe",
        model_types: &["exaone_moe"],
        architectures: &["ExaoneMoeForCausalLM"],
        summary: "EXAONE 4's attention, DeepSeek V3's experts",
        read: exaone::exaone_moe,
    },
    Family {
        name: "ernie4_5",
        model_types: &["ernie4_5"],
        architectures: &["Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"],
        summary: "Llama whose RoPE turns neighbours (ERNIE 4.5)",
        read: ernie::ernie,
    },
    Family {
        name: "ernie4_5_moe",
        model_types: &["ernie4_5_moe"],
        architectures: &["Ernie4_5_MoeForCausalLM"],
        summary: "ERNIE 4.5 with experts, softmax routing with a correction bias",
        read: ernie::ernie_moe,
    },
    Family {
        name: "hunyuan",
        model_types: &["hunyuan_v1_dense"],
        architectures: &["HunYuanDenseV1ForCausalLM"],
        summary: "a norm on each head after RoPE (Hunyuan dense)",
        read: hunyuan::dense,
    },
    Family {
        name: "hunyuan_moe",
        model_types: &["hunyuan_v1_moe"],
        architectures: &["HunYuanMoEV1ForCausalLM"],
        summary: "Hunyuan with experts and one shared expert (A13B)",
        read: hunyuan::sparse,
    },
    Family {
        name: "hunyuan_v3",
        model_types: &["hy_v3"],
        architectures: &["HYV3ForCausalLM"],
        summary: "192 experts, sigmoid routing with a correction bias",
        read: hunyuan::v3,
    },
    Family {
        name: "stablelm",
        model_types: &["stablelm"],
        architectures: &["StableLmForCausalLM"],
        summary: "layer norms, a quarter of each head rotates",
        read: layernorm::stablelm,
    },
    Family {
        name: "starcoder2",
        model_types: &["starcoder2"],
        architectures: &["Starcoder2ForCausalLM"],
        summary: "layer norms, biases, a plain MLP",
        read: layernorm::starcoder2,
    },
    Family {
        name: "nemotron",
        model_types: &["nemotron"],
        architectures: &["NemotronForCausalLM"],
        summary: "layer norms of 1 + weight, squared ReLU (Nemotron 4, Minitron)",
        read: layernorm::nemotron,
    },
    Family {
        name: "gpt_neox",
        model_types: &["gpt_neox"],
        architectures: &["GPTNeoXForCausalLM"],
        summary: "parallel branches with a layer norm each (Pythia)",
        read: layernorm::gpt_neox,
    },
    Family {
        name: "gpt2",
        model_types: &["gpt2"],
        architectures: &["GPT2LMHeadModel"],
        summary: "learned positions, layer norms, tied heads",
        read: gpt2::gpt2,
    },
    Family {
        name: "gpt_bigcode",
        model_types: &["gpt_bigcode"],
        architectures: &["GPTBigCodeForCausalLM"],
        summary: "GPT-2 with one KV head (StarCoder 1)",
        read: gpt2::bigcode,
    },
];
