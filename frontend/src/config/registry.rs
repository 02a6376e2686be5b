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

/// Declares the table by rows of *name, reader, model types, architectures, summary*.
macro_rules! families {
    ($($name:literal $read:path [$($ty:literal),*] [$($arch:literal),*] $summary:literal;)*) => {
        /// Every family, in the order of the documentation.
        pub static FAMILIES: &[Family] = &[$(Family {
            name: $name,
            model_types: &[$($ty),*],
            architectures: &[$($arch),*],
            summary: $summary,
            read: $read,
        }),*];
    };
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

families! {
    "llama" llama::llama
        ["llama", "code_llama", "aquila", "xverse", "iquestcoder"]
        ["LlamaForCausalLM", "LLaMAForCausalLM", "AquilaForCausalLM", "AquilaModel",
        "XverseForCausalLM", "IQuestCoderForCausalLM"]
        "grouped-query attention, RMS norms, SwiGLU (Llama 1 to 3, Code Llama, Yi)";
    "llama4" llama4::llama4 ["llama4_text", "llama4"]
        ["Llama4ForCausalLM", "Llama4ForConditionalGeneration"]
        "chunked attention, layers without RoPE, MoE layers between dense ones";
    "seed_oss" llama::seed_oss ["seed_oss"] ["SeedOssForCausalLM"]
        "Llama with biases on q, k and v";
    "arcee" llama::arcee ["arcee"] ["ArceeForCausalLM"]
        "Llama with squared ReLU and no gate";
    "helium" llama::helium ["helium"] ["HeliumForCausalLM"]
        "Llama whose RoPE turns neighbours";
    "smollm3" llama::smollm3 ["smollm3"] ["SmolLM3ForCausalLM"]
        "Llama without RoPE in every fourth layer";
    "cwm" llama::cwm ["cwm"] ["CwmForCausalLM"]
        "Llama with a window in three layers of four";
    "internlm" llama::internlm ["internlm"] ["InternLMForCausalLM"]
        "Llama with biases in attention";
    "internlm3" llama::internlm3 ["internlm3"] ["InternLM3ForCausalLM"]
        "Llama with biases on q, k and v";
    "internlm2" llama::internlm2 ["internlm2"] ["InternLM2ForCausalLM"]
        "Llama with one tensor for q, k and v";
    "minicpm" minicpm::minicpm ["minicpm"] ["MiniCPMForCausalLM"]
        "Llama with factors on embeddings, residual branches and logits";
    "minicpm3" minicpm::minicpm3 ["minicpm3"] ["MiniCPM3ForCausalLM"]
        "MiniCPM with latent attention";
    "apertus" apertus::apertus ["apertus"] ["ApertusForCausalLM"]
        "Llama with a norm on each head and a learned activation";
    "baichuan" alibi::baichuan ["baichuan"] ["BaichuanForCausalLM", "BaiChuanForCausalLM"]
        "Llama with one tensor for q, k and v; ALiBi in 13B";
    "nemotron_nas" nemotron_nas::nemotron_nas ["nemotron-nas"] ["DeciLMForCausalLM"]
        "Llama 3 pruned block by block (Llama Nemotron)";
    "mistral" mistral::mistral ["mistral", "ministral", "ministral3"]
        ["MistralForCausalLM", "MinistralForCausalLM", "Ministral3ForCausalLM"]
        "Llama with a sliding window (Mistral, Ministral)";
    "mixtral" mistral::mixtral ["mixtral"] ["MixtralForCausalLM"]
        "Mistral with experts, weights of the chosen renormalised";
    "qwen1" qwen::qwen1 ["qwen"] ["QWenLMHeadModel"]
        "Qwen 1: fused q, k and v, doubled `intermediate_size`";
    "qwen2" qwen::qwen2 ["qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text",
        "mimo"]
        ["Qwen2ForCausalLM", "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration"]
        "Llama with biases on q, k and v (Qwen 1.5, 2, 2.5)";
    "qwen2_moe" qwen::qwen2_moe ["qwen2_moe"] ["Qwen2MoeForCausalLM"]
        "Qwen 2 with experts and a gated shared expert";
    "qwen3" qwen::qwen3 ["qwen3", "qwen3_vl_text"] ["Qwen3ForCausalLM"]
        "Llama with a norm on each query and key head";
    "qwen3_moe" qwen::qwen3_moe ["qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text"]
        ["Qwen3MoeForCausalLM"]
        "Qwen 3 with many small experts";
    "deepseek" deepseek::v1 ["deepseek"] ["DeepseekForCausalLM"]
        "Llama with small experts and shared ones (DeepSeek MoE 16B)";
    "deepseek_v2" deepseek::v2 ["deepseek_v2"] ["DeepseekV2ForCausalLM"]
        "latent attention, softmax routing within groups";
    "deepseek_v3" deepseek::v3 ["deepseek_v3", "kimi_k2", "glm4_moe_lite", "sarvam_mla"]
        ["DeepseekV3ForCausalLM", "Glm4MoeLiteForCausalLM"]
        "latent attention, sigmoid routing with a correction bias (V3, V3.1, R1, Kimi K2, GLM 4.7 Flash)";
    "deepseek_v32" deepseek::v32 ["deepseek_v32", "glm_moe_dsa"]
        ["DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"]
        "DeepSeek V3 with an indexer for sparse attention (V3.2, GLM 5)";
    "mistral4" deepseek::mistral4 ["mistral4"] ["Mistral4ForCausalLM"]
        "latent attention, softmax routing, queries that grow with the position";
    "axk1" deepseek::axk1 ["axk1"] ["AXK1ForCausalLM"]
        "DeepSeek V3 with a norm on the output of experts (A.X K1)";
    "youtu" deepseek::youtu ["youtu"] ["YoutuForCausalLM"]
        "latent attention, dense blocks only";
    "gpt_oss" gpt_oss::gpt_oss ["gpt_oss"] ["GptOssForCausalLM"]
        "attention sinks, a window in every other layer, clamped SwiGLU experts";
    "gemma" gemma::gemma ["gemma"] ["GemmaForCausalLM"]
        "scaled tied embeddings, norms of 1 + weight, GeGLU";
    "gemma2" gemma::gemma2 ["gemma2"] ["Gemma2ForCausalLM"]
        "Gemma with sandwich norms, soft caps, a window in even layers";
    "vaultgemma" gemma::vaultgemma ["vaultgemma"] ["VaultGemmaForCausalLM"]
        "Gemma 2 without norms on branch outputs";
    "gemma3" gemma::gemma3 ["gemma3_text", "gemma3"]
        ["Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"]
        "Gemma 2 with query and key norms, a window in five layers of six";
    "phi" phi::phi ["phi"] ["PhiForCausalLM"]
        "parallel blocks, layer norms, biases everywhere (Phi 1 to 2)";
    "phi3" phi::phi3 ["phi3", "phi4mm", "phi4_multimodal"]
        ["Phi3ForCausalLM", "Phi4MMForCausalLM", "Phi4MultimodalForCausalLM"]
        "Llama with fused projections and LongRoPE (Phi 3, 3.5 mini, 4)";
    "phimoe" phi::phimoe ["phimoe"] ["PhimoeForCausalLM", "PhiMoEForCausalLM"]
        "layer norms, biases, experts chosen one after another (Phi 3.5 MoE)";
    "dbrx" dbrx::dbrx ["dbrx"] ["DbrxForCausalLM"]
        "clamped q, k and v, layer norms, 16 experts in stacked tensors";
    "falcon" falcon::falcon ["falcon", "RefinedWeb", "RefinedWebModel"]
        ["FalconForCausalLM", "RWForCausalLM"]
        "multi-query attention beside a plain MLP";
    "glm" glm::glm ["glm"] ["GlmForCausalLM"]
        "half of each head rotates, biases on q, k and v (GLM 4 9B)";
    "glm4" glm::glm4 ["glm4", "glm4v_text"] ["Glm4ForCausalLM"]
        "GLM with sandwich norms (GLM 4 0414)";
    "chatglm" glm::chatglm ["chatglm"] ["ChatGLMModel", "ChatGLMForConditionalGeneration"]
        "GLM under the keys of its own code (ChatGLM 2, 3, GLM 4 9B)";
    "glm4_moe" glm::glm4_moe ["glm4_moe", "glm4v_moe_text"] ["Glm4MoeForCausalLM"]
        "GLM with DeepSeek V3's experts (GLM 4.5, 4.6)";
    "sarvam_moe" glm::sarvam_moe ["sarvam_moe"] ["SarvamMoEForCausalLM"]
        "GLM 4.5 with whole heads rotating (Sarvam 30B)";
    "solar_open" glm::solar_open ["solar_open"] ["SolarOpenForCausalLM"]
        "GLM 4.5 with experts in every layer";
    "dots1" glm::dots1 ["dots1"] ["Dots1ForCausalLM"]
        "GLM 4.5's experts, a norm on each query and key head";
    "granite" granite::granite ["granite"] ["GraniteForCausalLM"]
        "Llama with multipliers on embeddings, scores, residuals and logits";
    "granitemoe" granite::granitemoe ["granitemoe", "granitemoeshared"]
        ["GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"]
        "Granite with experts, softmax over the chosen";
    "granitemoehybrid" granite::granitemoehybrid ["granitemoehybrid"]
        ["GraniteMoeHybridForCausalLM"]
        "Granite 4 models whose layers are all attention";
    "hyperclovax" granite::hyperclovax ["hyperclovax"] ["HyperCLOVAXForCausalLM"]
        "Granite with norms on branch outputs (HyperCLOVA X)";
    "minimax_m2" minimax::minimax_m2 ["minimax_m2"] ["MiniMaxM2ForCausalLM"]
        "256 small experts, sigmoid routing, norms over all heads";
    "olmo" olmo::olmo ["olmo"] ["OlmoForCausalLM"]
        "Llama with layer norms without weights";
    "olmo2" olmo::olmo2 ["olmo2"] ["Olmo2ForCausalLM"]
        "norms on branch outputs and over all heads";
    "olmo3" olmo::olmo3 ["olmo3"] ["Olmo3ForCausalLM"]
        "OLMo 2 with a window in three layers of four";
    "olmoe" olmo::olmoe ["olmoe"] ["OlmoeForCausalLM"]
        "64 small experts, norms over all heads";
    "flex_olmo" olmo::flex_olmo ["flex_olmo"] ["FlexOlmoForCausalLM"]
        "OLMoE with norms on branch outputs";
    "cohere" cohere::cohere ["cohere"] ["CohereForCausalLM"]
        "parallel blocks, tied and scaled logits (Command R, R+)";
    "cohere2" cohere::cohere2 ["cohere2"] ["Cohere2ForCausalLM"]
        "Cohere with a window in three layers of four (Command R7B, A)";
    "exaone" exaone::exaone3 ["exaone"] ["ExaoneForCausalLM"]
        "Llama under names of its own (EXAONE 3, 3.5)";
    "exaone4" exaone::exaone4 ["exaone4"] ["Exaone4ForCausalLM"]
        "norms on branch outputs, layers with a window and RoPE, layers with neither";
    "exaone_moe" exaone::exaone_moe ["exaone_moe"] ["ExaoneMoeForCausalLM"]
        "EXAONE 4's attention, DeepSeek V3's experts";
    "ernie4_5" ernie::ernie ["ernie4_5"] ["Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"]
        "Llama whose RoPE turns neighbours (ERNIE 4.5)";
    "ernie4_5_moe" ernie::ernie_moe ["ernie4_5_moe"] ["Ernie4_5_MoeForCausalLM"]
        "ERNIE 4.5 with experts, softmax routing with a correction bias";
    "hunyuan" hunyuan::dense ["hunyuan_v1_dense"] ["HunYuanDenseV1ForCausalLM"]
        "a norm on each head after RoPE (Hunyuan dense)";
    "hunyuan_moe" hunyuan::sparse ["hunyuan_v1_moe"] ["HunYuanMoEV1ForCausalLM"]
        "Hunyuan with experts and one shared expert (A13B)";
    "hunyuan_v3" hunyuan::v3 ["hy_v3"] ["HYV3ForCausalLM"]
        "192 experts, sigmoid routing with a correction bias";
    "stablelm" layernorm::stablelm ["stablelm"] ["StableLmForCausalLM"]
        "layer norms, a quarter of each head rotates";
    "starcoder2" layernorm::starcoder2 ["starcoder2"] ["Starcoder2ForCausalLM"]
        "layer norms, biases, a plain MLP";
    "nemotron" layernorm::nemotron ["nemotron"] ["NemotronForCausalLM"]
        "layer norms of 1 + weight, squared ReLU (Nemotron 4, Minitron)";
    "gpt_neox" layernorm::gpt_neox ["gpt_neox"] ["GPTNeoXForCausalLM"]
        "parallel branches with a layer norm each (Pythia)";
    "gpt2" gpt2::gpt2 ["gpt2"] ["GPT2LMHeadModel"]
        "learned positions, layer norms, tied heads";
    "gpt_bigcode" gpt2::bigcode ["gpt_bigcode"] ["GPTBigCodeForCausalLM"]
        "GPT-2 with one KV head (StarCoder 1)";
    "gptj" gpt2::gptj ["gptj"] ["GPTJForCausalLM"]
        "parallel branches under one norm, neighbours turn";
    "gpt_neo" gpt2::gpt_neo ["gpt_neo"] ["GPTNeoForCausalLM"]
        "GPT-2 with a window in every other layer";
    "opt" opt::opt ["opt"] ["OPTForCausalLM"]
        "learned positions, layer norms, ReLU";
    "bloom" alibi::bloom ["bloom"] ["BloomForCausalLM"]
        "scores that fall with the distance (ALiBi), a norm on embeddings";
    "mpt" alibi::mpt ["mpt"] ["MptForCausalLM", "MPTForCausalLM"]
        "ALiBi, no biases, layer norms";
    "bailing_moe" bailing::bailing ["bailing_moe", "bailing_moe_v2"]
        ["BailingMoeForCausalLM", "BailingMoeV2ForCausalLM"]
        "Ling and Ring: many small experts, from 2.0 on routed within groups";
    "mimo_v2_flash" mimo::mimo_v2_flash ["mimo_v2_flash"] ["MiMoV2FlashForCausalLM"]
        "windows with sinks in five layers of six, narrow value heads, 256 experts";
    "afmoe" afmoe::afmoe ["afmoe"] ["AfmoeForCausalLM"]
        "gated attention, sandwich norms, many experts (Trinity)";
    "laguna" afmoe::laguna ["laguna"] ["LagunaForCausalLM"]
        "attention with a factor per head, many experts";
    "mellum" qwen::mellum ["mellum"] ["MellumForCausalLM"]
        "Qwen 3 MoE with windows in three layers of four (Mellum 2)";
    "jais2" layernorm::jais2 ["jais2"] ["Jais2ForCausalLM"]
        "Llama with layer norms, biases and squared ReLU";
    "orion" layernorm::orion ["orion"] ["OrionForCausalLM"]
        "Llama with layer norms";
}
