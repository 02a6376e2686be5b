"""Tiny random models of every family that Hugging Face `transformers` has, held against shardc.

    python compare.py make DIR [NAME…]      needs torch and transformers
    python compare.py check DIR [NAME…]     needs numpy and safetensors, and `shardc` on the PATH

`make` writes a folder for each model that the installed `transformers` knows: `config.json` and
`model.safetensors` as `save_pretrained` writes them, and `golden.safetensors` with two prompts,
four decode steps and their logits. `check` compiles each for several layouts on up to eight ranks,
runs it with `shardc run`, and prints how far the logits are off.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

REQUESTS, PROMPT, STEPS = 2, 16, 4

# Logits farther off than this are marked.
TOLERANCE = 4e-4

# Sizes that every configuration takes which has the key.
PLAIN = dict(
    vocab_size=224, hidden_size=64, intermediate_size=96, num_hidden_layers=3,
    num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=256, pad_token_id=0,
    bos_token_id=1, eos_token_id=2, tie_word_embeddings=False, use_cache=True,
)
# The same with a head width of its own.
WIDE = dict(PLAIN, head_dim=16)
# Latent attention, and experts as DeepSeek has them.
LATENT = dict(
    PLAIN, num_key_value_heads=8, q_lora_rank=32, kv_lora_rank=24, qk_nope_head_dim=16,
    qk_rope_head_dim=8, v_head_dim=12,
)
EXPERTS = dict(
    n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, moe_intermediate_size=16,
    first_k_dense_replace=1, n_group=4, topk_group=2, routed_scaling_factor=2.5,
    norm_topk_prob=True,
)
YARN = dict(
    rope_type="yarn", type="yarn", factor=4.0, beta_fast=32, beta_slow=1,
    original_max_position_embeddings=64, mscale=1.0, mscale_all_dim=1.0,
)
LONG = dict(
    type="longrope", short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[1.5, 2.0, 3.0, 4.0],
)
LLAMA3 = dict(
    rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=32,
)

MODELS = {}


def add(name, model_type, base, **own):
    """A model by its name here, the type and the keys of its configuration."""
    MODELS[name] = (model_type, {**base, **own})


add("llama", "llama", WIDE)
add("llama-bias", "llama", WIDE, attention_bias=True, mlp_bias=True)
add("llama-l3", "llama", WIDE, rope_scaling=LLAMA3, tie_word_embeddings=True)
add("llama-linear", "llama", WIDE, rope_scaling=dict(rope_type="linear", factor=4.0))
add("llama-dynamic", "llama", WIDE, rope_scaling=dict(rope_type="dynamic", factor=4.0))
add(
    "llama-yarn", "llama", WIDE,
    rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64),
)
add(
    "llama-mha-odd", "llama", PLAIN, hidden_size=60, num_attention_heads=6, num_key_value_heads=3,
    intermediate_size=100, vocab_size=211,
)
add("llama-mqa", "llama", WIDE, num_key_value_heads=1)
add(
    "llama-7heads", "llama", PLAIN, hidden_size=56, num_attention_heads=7, num_key_value_heads=1,
    intermediate_size=77, vocab_size=199,
)
add("seed_oss", "seed_oss", WIDE, attention_bias=True, attention_out_bias=False)
add("arcee", "arcee", WIDE)
add("helium", "helium", WIDE, head_dim=8)
add("smollm3", "smollm3", WIDE, num_hidden_layers=5)
add("cwm", "cwm", WIDE, num_hidden_layers=5, sliding_window=8)
add("internlm3", "internlm3", WIDE)
add("apertus", "apertus", WIDE)
add(
    "minicpm3", "minicpm3", LATENT, scale_emb=12, scale_depth=1.4, dim_model_base=32,
)
add("mistral", "mistral", WIDE, sliding_window=8)
add("mistral-nowin", "mistral", WIDE, sliding_window=None)
add("ministral", "ministral", WIDE, sliding_window=8)
add("ministral3", "ministral3", WIDE)
add(
    "mixtral", "mixtral", PLAIN, num_local_experts=8, num_experts_per_tok=2, intermediate_size=32,
    sliding_window=None,
)
add(
    "mixtral-win", "mixtral", PLAIN, num_local_experts=6, num_experts_per_tok=2,
    intermediate_size=32, sliding_window=8,
)
add("qwen2", "qwen2", PLAIN)
add("qwen2-win", "qwen2", PLAIN, use_sliding_window=True, sliding_window=8, max_window_layers=1)
add(
    "qwen2_moe", "qwen2_moe", PLAIN, num_experts=8, num_experts_per_tok=3, moe_intermediate_size=16,
    shared_expert_intermediate_size=40, decoder_sparse_step=1, norm_topk_prob=False,
)
add(
    "qwen2_moe-step", "qwen2_moe", PLAIN, num_hidden_layers=4, num_experts=8, num_experts_per_tok=3,
    moe_intermediate_size=16, shared_expert_intermediate_size=40, decoder_sparse_step=2,
    norm_topk_prob=True, mlp_only_layers=[3],
)
add("qwen3", "qwen3", WIDE)
add("qwen3-tied", "qwen3", WIDE, tie_word_embeddings=True, attention_bias=True)
add(
    "qwen3_moe", "qwen3_moe", WIDE, num_experts=16, num_experts_per_tok=4, moe_intermediate_size=16,
    norm_topk_prob=True, mlp_only_layers=[1],
)
add(
    "qwen3_moe-nonorm", "qwen3_moe", WIDE, num_experts=12, num_experts_per_tok=4,
    moe_intermediate_size=16, norm_topk_prob=False,
)
add(
    "deepseek_v2", "deepseek_v2", LATENT,
    **{**EXPERTS, "n_shared_experts": 2, "topk_method": "group_limited_greedy",
       "norm_topk_prob": False, "routed_scaling_factor": 1.5},
)
add(
    "deepseek_v2-lite", "deepseek_v2", LATENT,
    **{**EXPERTS, "q_lora_rank": None, "topk_method": "greedy", "n_group": 1, "topk_group": 1,
       "norm_topk_prob": False, "routed_scaling_factor": 1.0},
)
add(
    "deepseek_v2-yarn", "deepseek_v2", LATENT,
    rope_scaling={**YARN, "mscale":0.707, "mscale_all_dim":0.707},
    **{**EXPERTS, "topk_method": "group_limited_greedy", "norm_topk_prob": False},
)
add("deepseek_v3", "deepseek_v3", LATENT, rope_scaling=YARN, **EXPERTS)
add(
    "deepseek_v3-noq", "deepseek_v3", LATENT,
    **{**EXPERTS, "q_lora_rank": None, "n_group": 1, "topk_group": 1, "n_shared_experts": 2},
)
add("deepseek_v3-noilv", "deepseek_v3", LATENT, rope_interleave=False, **EXPERTS)
add("glm4_moe_lite", "glm4_moe_lite", LATENT, **EXPERTS)
add(
    "deepseek_v32", "deepseek_v32", LATENT, index_n_heads=16, index_head_dim=16, index_topk=8,
    **EXPERTS,
)
add(
    "glm_moe_dsa", "glm_moe_dsa", LATENT, index_n_heads=16, index_head_dim=16, index_topk=8,
    **EXPERTS,
)
add("mistral4", "mistral4", LATENT, **EXPERTS)
add("sarvam_mla", "sarvam_mla", LATENT, **EXPERTS)
add("axk1", "axk1", LATENT, **EXPERTS)
add("youtu", "youtu", LATENT)
add(
    "gpt_oss", "gpt_oss", WIDE, num_local_experts=8, num_experts_per_tok=2, intermediate_size=16,
    sliding_window=8, num_hidden_layers=3,
)
add("gemma", "gemma", WIDE, tie_word_embeddings=True)
add("gemma2", "gemma2", WIDE, tie_word_embeddings=True, sliding_window=8, query_pre_attn_scalar=24)
add(
    "vaultgemma", "vaultgemma", WIDE, tie_word_embeddings=True, sliding_window=8,
    query_pre_attn_scalar=24,
)
add(
    "gemma3", "gemma3_text", WIDE, tie_word_embeddings=True, sliding_window=8,
    query_pre_attn_scalar=24, num_hidden_layers=7,
)
add(
    "gemma3-linear", "gemma3_text", WIDE, tie_word_embeddings=True, sliding_window=8,
    query_pre_attn_scalar=24, num_hidden_layers=7,
    rope_scaling=dict(rope_type="linear", factor=8.0),
)
add("phi", "phi", PLAIN)
add("phi-qkln", "phi", PLAIN, qk_layernorm=True, partial_rotary_factor=0.25, hidden_size=128)
add("phi3", "phi3", PLAIN, sliding_window=None)
add("phi3-win", "phi3", PLAIN, sliding_window=8, partial_rotary_factor=0.5)
add(
    "phi3-long", "phi3", PLAIN, sliding_window=None, max_position_embeddings=256,
    original_max_position_embeddings=64,
    rope_scaling=LONG,
)
add(
    "phi3-long-beyond", "phi3", PLAIN, sliding_window=None, max_position_embeddings=256,
    original_max_position_embeddings=8,
    rope_scaling=LONG,
)
add(
    "phimoe", "phimoe", PLAIN, num_local_experts=8, num_experts_per_tok=2, intermediate_size=32,
    sliding_window=None, attention_bias=True, lm_head_bias=True, rope_scaling=None,
)
add(
    "falcon-7b", "falcon", {}, vocab_size=224, hidden_size=64, num_hidden_layers=3,
    num_attention_heads=8, multi_query=True, parallel_attn=True, new_decoder_architecture=False,
    bias=False, alibi=False,
)
add(
    "falcon-40b", "falcon", {}, vocab_size=224, hidden_size=64, num_hidden_layers=3,
    num_attention_heads=8, num_kv_heads=4, new_decoder_architecture=True, bias=False, alibi=False,
    parallel_attn=True, multi_query=True,
)
add(
    "falcon-11b", "falcon", {}, vocab_size=224, hidden_size=64, num_hidden_layers=3,
    num_attention_heads=8, num_kv_heads=4, new_decoder_architecture=True, bias=False, alibi=False,
    parallel_attn=True, multi_query=True, num_ln_in_parallel_attn=1, ffn_hidden_size=96,
)
add(
    "falcon-rw", "falcon", {}, vocab_size=224, hidden_size=64, num_hidden_layers=3,
    num_attention_heads=8, multi_query=False, parallel_attn=False, new_decoder_architecture=False,
    bias=True, alibi=True,
)
add("glm", "glm", WIDE, attention_bias=True)
add("glm4", "glm4", WIDE, attention_bias=True)
add("glm4_moe", "glm4_moe", WIDE, **EXPERTS, use_qk_norm=True, attention_bias=True)
add("glm4_moe-noqk", "glm4_moe", WIDE, **EXPERTS, use_qk_norm=False)
add("dots1", "dots1", WIDE, **EXPERTS)
add("sarvam_moe", "sarvam_moe", WIDE, **EXPERTS)
add("solar_open", "solar_open", WIDE, **EXPERTS)
add(
    "granite", "granite", PLAIN, embedding_multiplier=12., attention_multiplier=0.2,
    residual_multiplier=0.22, logits_scaling=8.0,
)
add(
    "granitemoe", "granitemoe", PLAIN, num_local_experts=8, num_experts_per_tok=2,
    intermediate_size=32, embedding_multiplier=12., attention_multiplier=0.2,
    residual_multiplier=0.22, logits_scaling=6.0,
)
add(
    "granitemoeshared", "granitemoeshared", PLAIN, num_local_experts=8, num_experts_per_tok=2,
    intermediate_size=32, shared_intermediate_size=48, embedding_multiplier=12.,
    attention_multiplier=0.2, residual_multiplier=0.22, logits_scaling=6.0,
)
add(
    "granitemoehybrid", "granitemoehybrid", PLAIN, num_local_experts=0, num_experts_per_tok=0,
    intermediate_size=32, shared_intermediate_size=48, embedding_multiplier=12.,
    attention_multiplier=0.2, residual_multiplier=0.22, logits_scaling=6.0,
    layer_types=["attention"]*3,
)
add(
    "granitemoehybrid-moe", "granitemoehybrid", PLAIN, num_local_experts=8, num_experts_per_tok=2,
    intermediate_size=32, shared_intermediate_size=48, embedding_multiplier=12.,
    attention_multiplier=0.2, residual_multiplier=0.22, logits_scaling=6.0,
    layer_types=["attention"]*3, position_embedding_type="rope",
)
add("hyperclovax", "hyperclovax", PLAIN)
add(
    "minimax_m2", "minimax_m2", WIDE, num_local_experts=8, num_experts_per_tok=3,
    intermediate_size=16, rotary_dim=8,
)
add("olmo", "olmo", PLAIN)
add("olmo-clip", "olmo", PLAIN, clip_qkv=1.0)
add("olmo2", "olmo2", PLAIN)
add("olmo3", "olmo3", PLAIN, num_hidden_layers=5, sliding_window=8)
add("olmoe", "olmoe", PLAIN, num_experts=16, num_experts_per_tok=4, intermediate_size=16)
add("flex_olmo", "flex_olmo", PLAIN, num_experts=8, num_experts_per_tok=3, intermediate_size=16)
add("cohere", "cohere", PLAIN, tie_word_embeddings=True, logit_scale=0.5)
add("cohere-qk", "cohere", PLAIN, tie_word_embeddings=True, logit_scale=0.5, use_qk_norm=True)
add(
    "cohere2", "cohere2", PLAIN, tie_word_embeddings=True, logit_scale=0.5, sliding_window=8,
    num_hidden_layers=5,
)
add("exaone", "exaone", PLAIN)
add("exaone4", "exaone4", PLAIN, sliding_window=8, sliding_window_pattern=4, num_hidden_layers=5)
add(
    "exaone4-nowin", "exaone4", PLAIN, sliding_window=None, sliding_window_pattern=0,
    layer_types=["full_attention"]*3,
)
add(
    "exaone_moe", "exaone_moe", WIDE, sliding_window=8, num_hidden_layers=4, num_experts=8,
    num_experts_per_tok=3, moe_intermediate_size=16, num_shared_experts=1, n_group=1, topk_group=1,
    first_k_dense_replace=1,
)
add("ernie4_5", "ernie4_5", WIDE)
add(
    "ernie4_5_moe", "ernie4_5_moe", PLAIN, moe_num_experts=8, moe_k=3, moe_intermediate_size=16,
    moe_num_shared_experts=2, moe_layer_start_index=1, moe_layer_end_index=2, use_bias=False,
)
add("hunyuan", "hunyuan_v1_dense", WIDE)
add("hunyuan_moe", "hunyuan_v1_moe", WIDE, num_experts=8, moe_topk=2, intermediate_size=32)
add("hy_v3", "hy_v3", WIDE, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32)
add("stablelm", "stablelm", PLAIN, partial_rotary_factor=0.5)
add(
    "stablelm-par", "stablelm", PLAIN, partial_rotary_factor=0.5, use_parallel_residual=True,
    qk_layernorm=True, use_qkv_bias=True,
)
add("starcoder2", "starcoder2", PLAIN, sliding_window=8)
add("nemotron", "nemotron", WIDE, partial_rotary_factor=0.5)
add("gpt_neox", "gpt_neox", PLAIN, rotary_pct=0.25, hidden_size=128)
add("gpt_neox-seq", "gpt_neox", PLAIN, rotary_pct=0.5, use_parallel_residual=False)
add("gpt2", "gpt2", {}, vocab_size=224, n_positions=64, n_embd=64, n_layer=3, n_head=8)
add(
    "gpt2-scale", "gpt2", {}, vocab_size=224, n_positions=64, n_embd=64, n_layer=3, n_head=8,
    scale_attn_by_inverse_layer_idx=True,
)
add(
    "gpt_bigcode", "gpt_bigcode", {}, vocab_size=224, n_positions=64, n_embd=64, n_layer=3,
    n_head=8, multi_query=True,
)
add(
    "gpt_bigcode-mha", "gpt_bigcode", {}, vocab_size=224, n_positions=64, n_embd=64, n_layer=3,
    n_head=8, multi_query=False,
)
add(
    "gptj", "gptj", {}, vocab_size=224, n_positions=64, n_embd=64, n_layer=3, n_head=4,
    rotary_dim=8,
)
add(
    "gpt_neo", "gpt_neo", {}, vocab_size=224, max_position_embeddings=64, hidden_size=64,
    num_layers=4, num_heads=8, attention_types=[[["global", "local"], 2]], window_size=8,
)
add(
    "opt", "opt", {}, vocab_size=224, hidden_size=64, num_hidden_layers=3, num_attention_heads=8,
    ffn_dim=96, max_position_embeddings=64, word_embed_proj_dim=64,
)
add(
    "opt-post", "opt", {}, vocab_size=224, hidden_size=64, num_hidden_layers=3,
    num_attention_heads=8, ffn_dim=96, max_position_embeddings=64, word_embed_proj_dim=32,
    do_layer_norm_before=False,
)
add("bloom", "bloom", {}, vocab_size=224, hidden_size=64, n_layer=3, n_head=8)
add("bloom-6", "bloom", {}, vocab_size=224, hidden_size=48, n_layer=3, n_head=6)
add("mpt", "mpt", {}, vocab_size=224, d_model=64, n_layers=3, n_heads=8, max_seq_len=64)
add(
    "dbrx", "dbrx", {}, vocab_size=224, d_model=64, n_heads=8, n_layers=3, max_seq_len=64,
    attn_config=dict(kv_n_heads=4, clip_qkv=8.0, rope_theta=10000.0),
    ffn_config=dict(
        ffn_hidden_size=32, moe_num_experts=8, moe_top_k=3, moe_normalize_expert_weights=1.0,
        ffn_act_fn={"name": "silu"},
    ),
)
add(
    "llama4", "llama4_text", WIDE, num_hidden_layers=4, intermediate_size=32,
    intermediate_size_mlp=96, num_local_experts=8, num_experts_per_tok=1,
    interleave_moe_layer_step=1, attention_chunk_size=8, use_qk_norm=True, no_rope_layer_interval=4,
    attn_temperature_tuning=True, floor_scale=4, attn_scale=0.1,
)
add(
    "llama4-step2", "llama4_text", WIDE, num_hidden_layers=4, intermediate_size=32,
    intermediate_size_mlp=96, num_local_experts=8, num_experts_per_tok=1,
    interleave_moe_layer_step=2, attention_chunk_size=8, use_qk_norm=False,
    no_rope_layer_interval=4, attn_temperature_tuning=False,
)
add("jais2", "jais2", WIDE)
add(
    "afmoe", "afmoe", WIDE, num_hidden_layers=5, num_experts=8, num_experts_per_tok=2,
    moe_intermediate_size=16, num_dense_layers=1, num_shared_experts=1, sliding_window=8, n_group=1,
    topk_group=1, mup_enabled=True,
)
add(
    "laguna", "laguna", WIDE, num_hidden_layers=4, num_experts=8, num_experts_per_tok=2,
    moe_intermediate_size=16, shared_expert_intermediate_size=16, sliding_window=8,
)
add(
    "mellum", "mellum", WIDE, num_hidden_layers=5, num_experts=8, num_experts_per_tok=2,
    moe_intermediate_size=16, sliding_window=8,
)
add(
    "mimo_v2_flash", "mimo_v2_flash", WIDE, head_dim=24, swa_head_dim=24, num_hidden_layers=4,
    v_head_dim=8, n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=16,
    sliding_window=8,
)
add(
    "bailing_moe_v2", "bailing_moe_v2", WIDE, num_experts=8, num_experts_per_tok=2,
    moe_intermediate_size=16,
)


def fill(model, seed):
    """Random weights that keep activations and logits in range, seeded."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    skipped = ("inv_freq", "rotary", "alibi")
    for name, own in [*model.named_parameters(), *model.named_buffers()]:
        if not own.is_floating_point() or any(s in name for s in skipped):
            continue
        if name.endswith((".beta", ".eps")):
            continue
        noise = torch.randn(own.shape, generator=draw)
        norm = own.dim() == 2 and "norm" in name.lower()
        with torch.no_grad():
            if "correction" in name:
                own.copy_(0.1 * noise)
            elif name.endswith("bias"):
                own.copy_(0.3 * noise)
            elif "sinks" in name:
                own.copy_(noise)
            elif "alpha_" in name:
                # Older classes of Apertus keep these in bfloat16 whatever the model's format.
                own.copy_((own + 0.2 * noise).bfloat16())
            elif own.dim() < 2 or norm:
                own.copy_(own + 0.2 * noise)
            elif "embed" in name or "wte" in name or "wpe" in name:
                own.copy_(noise * (0.5 if "pos" in name or "wpe" in name else 1.0))
            else:
                inputs = own.shape[-1] if own.dim() == 2 else own.shape[-2]
                router = re.search(r"router|mlp\.gate\.weight|moe\.gate", name)
                gain = 3.0 if router or "lm_head" in name else 1.3
                own.copy_(noise * gain * inputs**-0.5)


def configure(model_type, keys):
    """The configuration of a type with those of the keys that it knows."""
    import inspect

    from transformers import AutoConfig

    default = AutoConfig.for_model(model_type)
    kind = type(default)
    known = {*default.to_dict(), *(getattr(kind, "attribute_map", None) or {})}
    known |= {*inspect.signature(kind.__init__).parameters}
    known |= {"rope_scaling", "layer_types", "head_dim", "partial_rotary_factor"}
    return kind(**{key: value for key, value in keys.items() if key in known})


def class_of(config):
    """The class with a head for a configuration, also where only a model with images is known by it."""
    from importlib import import_module

    from transformers import AutoModelForCausalLM

    if type(config) in AutoModelForCausalLM._model_mapping:
        return AutoModelForCausalLM
    module = import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
    return getattr(module, type(config).__name__.replace("Config", "ForCausalLM"))


def make(directory, name):
    """Writes one model with its logits, from the weights as they are stored."""
    import torch

    # Falcon's own ALiBi is added twice by its plain attention.
    attention = "sdpa" if name == "falcon-rw" else "eager"
    config = configure(*MODELS[name])
    kind = class_of(config)
    build = kind.from_config if hasattr(kind, "from_config") else kind._from_config
    model = build(config, attn_implementation=attention)
    model = model.float().eval()
    seed = sum(map(ord, name))
    fill(model, seed)
    folder = os.path.join(directory, name)
    model.save_pretrained(folder, safe_serialization=True)
    model = kind.from_pretrained(folder, attn_implementation=attention, dtype=torch.float32).eval()
    answer(model, folder, seed, cached=not name.startswith("granitemoehybrid"))


def answer(model, folder, seed, cached=True):
    """Writes prompts, decode steps and their logits beside a model."""
    import torch
    from safetensors.torch import save_file

    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, model.config.vocab_size, (REQUESTS, PROMPT), generator=draw)
    with torch.no_grad():
        out = model(input_ids=ids, use_cache=True)
        prefill, past = out.logits.float(), out.past_key_values
        fed, decode = [], []
        token = prefill[:, -1].argmax(-1)
        for _ in range(STEPS):
            fed.append(token)
            out = model(input_ids=token[:, None], past_key_values=past, use_cache=True)
            past = out.past_key_values
            decode.append(out.logits[:, 0].float())
            token = out.logits[:, 0].argmax(-1)
        fed, decode = torch.stack(fed, 1), torch.stack(decode, 1)
        # Granite's hybrid class keeps no cache of its own accord.
        if not cached:
            whole = model(input_ids=torch.cat([ids, fed], 1), use_cache=False).logits.float()
            prefill, decode = whole[:, :PROMPT], whole[:, PROMPT:]
    tensors = {
        "input_ids": ids, "decode_ids": fed, "logits_prefill": prefill, "logits_decode": decode,
    }
    tensors = {key: tensor.contiguous() for key, tensor in tensors.items()}
    save_file(tensors, os.path.join(folder, "golden.safetensors"))


DENSE_LAYOUTS = [
    (1, "tp=1"), (8, "tp=2,cp=2,dp=2"), (6, "tp=2,dp=3"), (4, "tp=4"), (8, "tp=2,pp=2,dp=2"),
]
EXPERT_LAYOUTS = [
    (1, "tp=1"), (8, "tp=2,cp=2,dp=2,ep=4"), (4, "tp=2,dp=2,ep=4"), (3, "dp=3,ep=3"),
    (8, "tp=4,pp=2,ep=2,etp=2"),
]


def is_sparse(config):
    """Whether a configuration has routed experts."""
    keys = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    return any((config.get(key) or 0) > 1 for key in keys) or "ffn_config" in config


def distance(folder, gpus, layout, scratch):
    """The largest difference of prompt and decode logits under a layout, or what was refused."""
    import numpy
    from safetensors.numpy import load_file

    plan, logits = os.path.join(scratch, "plan"), os.path.join(scratch, "logits.safetensors")
    shutil.rmtree(plan, ignore_errors=True)
    golden = os.path.join(folder, "golden.safetensors")
    for command in (
        ["compile", os.path.join(folder, "config.json"), "--cluster", "h100x8", "--gpus", str(gpus),
         "--layout", layout, "--isl", str(PROMPT), "--osl", "8", "-o", plan],
        ["run", plan, "--weights", folder, "--tokens-file", golden, "--logits", logits],
    ):
        done = subprocess.run(["shardc", *command], capture_output=True, text=True)
        if done.returncode != 0:
            found = re.search(r"error\[(.*)", done.stderr)
            return found.group(0) if found else done.stderr[:200]
    wanted, got = load_file(golden), load_file(logits)
    names = ("logits_prefill", "logits_decode")
    return [float(numpy.abs(wanted[name] - got[name]).max()) for name in names]


def check(directory, name):
    """Prints a line of the table for one model; returns whether its logits are within tolerance."""
    folder = os.path.join(directory, name)
    with open(os.path.join(folder, "config.json")) as file:
        sparse = is_sparse(json.load(file))
    good, cells = True, []
    with tempfile.TemporaryDirectory() as scratch:
        for gpus, layout in EXPERT_LAYOUTS if sparse else DENSE_LAYOUTS:
            found = distance(folder, gpus, layout, scratch)
            if isinstance(found, str):
                cells.append(f"{layout}: {found}")
                continue
            far = not max(found) < TOLERANCE
            good &= not far
            cells.append(f"{layout}: {found[0]:.0e} {found[1]:.0e}{' FAR OFF' if far else ''}")
    print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return good


def main():
    what, directory, *names = sys.argv[1:]
    good = True
    for name in names or MODELS:
        if what == "check":
            if os.path.exists(os.path.join(directory, name, "golden.safetensors")):
                good &= check(directory, name)
            continue
        try:
            make(directory, name)
            print(f"{name}: made", flush=True)
        except Exception as problem:  # One that this version lacks does not stop the others.
            print(f"{name}: {type(problem).__name__}: {str(problem)[:100]}", flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
