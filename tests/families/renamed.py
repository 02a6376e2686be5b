"""Tiny random models of families whose code is not in `transformers`, from models that are: the same
tensors under other names, fused as their checkpoints have them.

    python renamed.py DIR [NAME…]     needs torch and transformers

writes folders that `compare.py check DIR NAME…` reads. A Llama Nemotron is a Llama in which the branches
that pruning leaves out give zero; MiniCPM is a Granite with its factors.
"""

import json
import os
import sys

import torch
from compare import PLAIN, WIDE, answer, configure, fill
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM


def renamed(tensors, table):
    """Tensors by other names; `table` has pairs of parts of names."""
    out = {}
    for name, tensor in tensors.items():
        for old, new in table:
            name = name.replace(old, new)
        out[name] = tensor
    return out


def fused(tensors, parts, whole, join=torch.cat):
    """The tensors whose names hold `parts`, in that order joined under the name with `whole`."""
    out = {name: t for name, t in tensors.items() if not any(part in name for part in parts)}
    for name in tensors:
        if parts[0] in name:
            own = [tensors[name.replace(parts[0], part)] for part in parts]
            out[name.replace(parts[0], whole)] = join(own)
    return out


QKV = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"]
GPT = [("model.embed_tokens", "transformer.wte"), ("model.layers", "transformer.h"),
       ("model.norm", "transformer.ln_f"), ("input_layernorm", "ln_1"),
       ("post_attention_layernorm", "ln_2")]


def internlm2(config, tensors):
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    groups = heads // kv

    def by_kv_head(parts):
        q, k, v = (part.reshape(kv, -1, part.shape[-1]) for part in parts)
        assert q.shape[1] == groups * k.shape[1]
        return torch.cat([q, k, v], 1).reshape(-1, q.shape[-1])

    tensors = fused(tensors, QKV, "attention.wqkv", by_kv_head)
    return dict(config, bias=False), renamed(tensors, [
        ("embed_tokens", "tok_embeddings"), ("self_attn.o_proj", "attention.wo"),
        ("input_layernorm", "attention_norm"), ("post_attention_layernorm", "ffn_norm"),
        ("mlp.gate_proj", "feed_forward.w1"), ("mlp.up_proj", "feed_forward.w3"),
        ("mlp.down_proj", "feed_forward.w2"), ("lm_head", "output"),
    ])


def baichuan(config, tensors):
    return config, fused(tensors, QKV, "self_attn.W_pack")


def qwen(config, tensors):
    config = dict(config, intermediate_size=2 * config["intermediate_size"], no_bias=True,
                  kv_channels=8, layer_norm_epsilon=config["rms_norm_eps"], rotary_pct=1.0,
                  rotary_emb_base=10000, seq_length=256)
    tensors = fused(tensors, QKV, "attn.c_attn")
    return config, renamed(tensors, [
        *GPT, ("self_attn.o_proj", "attn.c_proj"), ("mlp.up_proj", "mlp.w1"),
        ("mlp.gate_proj", "mlp.w2"), ("mlp.down_proj", "mlp.c_proj"),
    ])


def minicpm(config, tensors):
    config = dict(config, scale_emb=12, scale_depth=1.4, dim_model_base=32)
    return config, tensors


def chatglm(config, tensors):
    config = dict(
        hidden_size=config["hidden_size"], num_attention_heads=config["num_attention_heads"],
        num_layers=config["num_hidden_layers"], ffn_hidden_size=config["intermediate_size"],
        padded_vocab_size=config["vocab_size"], kv_channels=config["head_dim"],
        multi_query_attention=True, multi_query_group_num=config["num_key_value_heads"],
        add_qkv_bias=True, add_bias_linear=False, rmsnorm=True, post_layer_norm=True,
        layernorm_epsilon=config["rms_norm_eps"], original_rope=True, seq_length=256,
        apply_residual_connection_post_layernorm=False, tie_word_embeddings=False,
        torch_dtype="float32",
    )
    tensors = fused(tensors, QKV, "self_attention.query_key_value")
    return config, renamed(tensors, [
        ("model.embed_tokens", "transformer.embedding.word_embeddings"),
        ("model.layers", "transformer.encoder.layers"),
        ("model.norm", "transformer.encoder.final_layernorm"),
        ("lm_head", "transformer.output_layer"), ("self_attn.o_proj", "self_attention.dense"),
        ("mlp.gate_up_proj", "mlp.dense_h_to_4h"), ("mlp.down_proj", "mlp.dense_4h_to_h"),
    ])


# Layers of a Llama Nemotron without attention, and without a feed-forward block; queries of a group.
NO_ATTENTION, NO_FFN, GROUP = {1, 3}, {2, 3}, 2


def prune(model):
    """Lets the branches that are left out give zero."""
    for l, layer in enumerate(model.model.layers):
        if l in NO_ATTENTION:
            layer.self_attn.o_proj.weight.zero_()
        if l in NO_FFN:
            layer.mlp.down_proj.weight.zero_()


def nemotron(config, tensors):
    def block(layer):
        """One layer; a width is `2 / 3 * ffn_mult * hidden`, up to the next multiple of 256."""
        attention, ffn = layer not in NO_ATTENTION, layer not in NO_FFN
        multiplier = 1.5 * config["intermediate_size"] / config["hidden_size"]
        return dict(
            attention=dict(n_heads_in_group=GROUP if attention else None, no_op=not attention,
                           replace_with_linear=False),
            ffn=dict(ffn_mult=multiplier if ffn else None, no_op=not ffn,
                     replace_with_linear=False),
        )

    def stays(name):
        parts = name.split(".")
        if parts[1] != "layers":
            return True
        without = NO_ATTENTION if parts[3] in ("self_attn", "input_layernorm") else NO_FFN
        return int(parts[2]) not in without

    blocks = [block(l) for l in range(config["num_hidden_layers"])]
    own = ("intermediate_size", "num_key_value_heads", "head_dim")
    config = {key: value for key, value in config.items() if key not in own}
    return dict(config, block_configs=blocks), {n: t for n, t in tensors.items() if stays(n)}


def unchanged(model):
    """Nothing to prepare."""


# By name: the model of `transformers` with its keys, what is done to it, the type and architecture of
# the new model, and how it is made of the old one.
MHA = dict(PLAIN, num_key_value_heads=8)
FACTORS = dict(embedding_multiplier=12.0, attention_multiplier=8**-0.5,
               residual_multiplier=1.4 * 3**-0.5, logits_scaling=2.0)
MODELS = {
    "internlm2": ("llama", WIDE | {"head_dim": 8}, unchanged, "internlm2", "InternLM2ForCausalLM",
                  internlm2),
    "baichuan": ("llama", MHA, unchanged, "baichuan", "BaichuanForCausalLM", baichuan),
    "qwen1": ("qwen2", MHA, unchanged, "qwen", "QWenLMHeadModel", qwen),
    "minicpm": ("granite", PLAIN | FACTORS, unchanged, "minicpm", "MiniCPMForCausalLM", minicpm),
    "chatglm": ("glm", WIDE | {"attention_bias": True}, unchanged, "chatglm", "ChatGLMModel",
                chatglm),
    "nemotron_nas": ("llama", MHA | {"num_hidden_layers": 5, "intermediate_size": 256,
                                     "num_key_value_heads": 4}, prune, "nemotron-nas",
                     "DeciLMForCausalLM", nemotron),
}


def make(directory, name):
    """Writes one model with its logits."""
    base, keys, prepare, model_type, architecture, convert = MODELS[name]
    folder, seed = os.path.join(directory, name), sum(map(ord, name))
    model = AutoModelForCausalLM.from_config(configure(base, keys), attn_implementation="eager")
    model = model.float().eval()
    fill(model, seed)
    with torch.no_grad():
        prepare(model)
    model.save_pretrained(folder, safe_serialization=True)
    answer(model, folder, seed)
    weights, path = (os.path.join(folder, file) for file in ("model.safetensors", "config.json"))
    with open(path) as file:
        config = json.load(file)
    config, tensors = convert(config, load_file(weights))
    tensors = {key: tensor.contiguous() for key, tensor in tensors.items()}
    save_file(tensors, weights, metadata={"format": "pt"})
    with open(path, "w") as file:
        json.dump(config | dict(model_type=model_type, architectures=[architecture]), file, indent=1)
    print(f"{name}: made")


if __name__ == "__main__":
    for model in sys.argv[2:] or MODELS:
        make(sys.argv[1], model)
