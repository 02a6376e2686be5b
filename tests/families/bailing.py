"""Tiny random models of Ling and Ring (Bailing MoE 1 and 2), whose code is not in `transformers`, with
the logits of a reference in numpy.

    python bailing.py make DIR              needs numpy and safetensors
    python bailing.py ties DIR              needs `shardc` on the PATH too

`make` writes folders that `compare.py check DIR NAME…` reads. `ties` runs each model as bf16 under two
layouts, and prints for the prompts' tokens how far the logits of the two lie apart, beside the margin
by which the reference chooses experts: where a margin is below the rounding of bf16, layouts that
round sums in another order choose other experts.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from compare import PROMPT, REQUESTS, STEPS

BASE = dict(
    vocab_size=224, hidden_size=64, intermediate_size=96, num_hidden_layers=3,
    num_attention_heads=8, num_key_value_heads=4, head_dim=16, max_position_embeddings=256,
    model_type="bailing_moe", hidden_act="silu", rms_norm_eps=1e-6, rope_theta=10000.0,
    num_experts=16, num_experts_per_tok=4, moe_intermediate_size=16, norm_topk_prob=True,
    tie_word_embeddings=False, use_bias=False, use_qkv_bias=False, torch_dtype="float32",
)
MODELS = {
    "bailing-lite": dict(
        BASE, architectures=["BailingMoeForCausalLM"], first_k_dense_replace=0,
        num_shared_experts=2,
    ),
    "bailing-lite-nonorm": dict(
        BASE, architectures=["BailingMoeForCausalLM"], first_k_dense_replace=1,
        num_shared_experts=1, norm_topk_prob=False,
    ),
    "bailing-v2": dict(
        BASE, architectures=["BailingMoeV2ForCausalLM"], first_k_dense_replace=1,
        num_shared_experts=1, partial_rotary_factor=0.5, moe_router_enable_expert_bias=True,
        routed_scaling_factor=2.5, n_group=4, topk_group=2, use_qk_norm=True,
        score_function="sigmoid", moe_shared_expert_intermediate_size=24,
    ),
}


def weights(config, seed):
    """Random tensors by the names of the checkpoint."""
    draw = np.random.default_rng(seed)
    h, d = config["hidden_size"], config["head_dim"]
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    out = {}

    def matrix(name, outputs, inputs, gain=1.3):
        out[name] = draw.standard_normal((outputs, inputs)) * gain * inputs**-0.5

    def norm(name, width):
        out[name] = 1 + 0.2 * draw.standard_normal(width)

    def mlp(name, width):
        matrix(f"{name}.gate_proj.weight", width, h)
        matrix(f"{name}.up_proj.weight", width, h)
        matrix(f"{name}.down_proj.weight", h, width)

    out["model.word_embeddings.weight"] = draw.standard_normal((config["vocab_size"], h))
    for l in range(config["num_hidden_layers"]):
        at = f"model.layers.{l}"
        matrix(f"{at}.attention.query_key_value.weight", (heads + 2 * kv) * d, h)
        matrix(f"{at}.attention.dense.weight", h, heads * d)
        norm(f"{at}.input_layernorm.weight", h)
        norm(f"{at}.post_attention_layernorm.weight", h)
        if config.get("use_qk_norm"):
            norm(f"{at}.attention.query_layernorm.weight", d)
            norm(f"{at}.attention.key_layernorm.weight", d)
        if l < config["first_k_dense_replace"]:
            mlp(f"{at}.mlp", config["intermediate_size"])
            continue
        width = config["moe_intermediate_size"]
        matrix(f"{at}.mlp.gate.weight", config["num_experts"], h, 3.0)
        if config.get("moe_router_enable_expert_bias"):
            out[f"{at}.mlp.gate.expert_bias"] = 0.1 * draw.standard_normal(config["num_experts"])
        for e in range(config["num_experts"]):
            mlp(f"{at}.mlp.experts.{e}", width)
        own = config.get("moe_shared_expert_intermediate_size", width)
        mlp(f"{at}.mlp.shared_experts", own * config["num_shared_experts"])
    norm("model.norm.weight", h)
    matrix("lm_head.weight", config["vocab_size"], h, 3.0)
    return {name: tensor.astype(np.float32) for name, tensor in out.items()}


class Reference:
    """The model in f64, on whole sequences."""

    def __init__(self, config, tensors):
        self.config = config
        self.tensors = {name: t.astype(np.float64) for name, t in tensors.items()}

    def norm(self, x, name):
        scale = np.sqrt((x * x).mean(-1, keepdims=True) + self.config["rms_norm_eps"])
        return x / scale * self.tensors[name]

    def linear(self, x, name):
        return x @ self.tensors[f"{name}.weight"].T

    def rotate(self, x):
        """Halves of the leading part of each head `[S, heads, d]` turn by their position."""
        width = int(x.shape[-1] * self.config.get("partial_rotary_factor", 1.0))
        turned, rest = x[..., :width], x[..., width:]
        speed = self.config["rope_theta"] ** (-np.arange(0, width, 2) / width)
        angle = np.arange(x.shape[0])[:, None] * speed
        angle = np.concatenate([angle, angle], -1)[:, None]
        a, b = np.split(turned, 2, -1)
        turned = turned * np.cos(angle) + np.concatenate([-b, a], -1) * np.sin(angle)
        return np.concatenate([turned, rest], -1)

    def attention(self, x, at):
        c = self.config
        heads, kv, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        qkv = self.linear(x, f"{at}.query_key_value").reshape(len(x), heads + 2 * kv, d)
        q, k, v = qkv[:, :heads], qkv[:, heads:heads + kv], qkv[:, heads + kv:]
        if c.get("use_qk_norm"):
            q = self.norm(q, f"{at}.query_layernorm.weight")
            k = self.norm(k, f"{at}.key_layernorm.weight")
        q, k = self.rotate(q), np.repeat(self.rotate(k), heads // kv, 1)
        scores = np.einsum("qhd,khd->hqk", q, k) * d**-0.5
        scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        out = np.einsum("hqk,khd->qhd", scores, np.repeat(v, heads // kv, 1))
        return self.linear(out.reshape(len(x), -1), f"{at}.dense")

    def mlp(self, x, at):
        gate = self.linear(x, f"{at}.gate_proj")
        return self.linear(gate / (1 + np.exp(-gate)) * self.linear(x, f"{at}.up_proj"),
                           f"{at}.down_proj")

    def route(self, x, at):
        """Experts and weights of each token, and by how much the last chosen is ahead."""
        c = self.config
        k, logits = c["num_experts_per_tok"], self.linear(x, f"{at}.gate")
        margin = np.full(len(x), np.inf)
        if c.get("score_function") == "sigmoid":
            scores = 1 / (1 + np.exp(-logits))
            choice = scores + self.tensors[f"{at}.gate.expert_bias"]
            groups = choice.reshape(len(x), c["n_group"], -1)
            best = np.sort(groups, -1)[..., -2:].sum(-1)
            order = np.sort(best, -1)[:, ::-1]
            margin = order[:, c["topk_group"] - 1] - order[:, c["topk_group"]]
            kept = best >= order[:, c["topk_group"] - 1:c["topk_group"]]
            choice = np.where(kept[..., None], groups, -np.inf).reshape(choice.shape)
        else:
            scores = np.exp(logits - logits.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            choice = scores
        order = np.sort(choice, -1)[:, ::-1]
        margin = np.minimum(margin, order[:, k - 1] - order[:, k])
        ids = np.argsort(-choice, -1)[:, :k]
        own = np.take_along_axis(scores, ids, -1)
        if c["norm_topk_prob"]:
            own = own / own.sum(-1, keepdims=True)
        return ids, own * c.get("routed_scaling_factor", 1.0), margin

    def run(self, ids):
        """Logits `[S, V]` of one request, and the least margin of each token's routers."""
        x = self.tensors["model.word_embeddings.weight"][ids]
        least = np.full(len(ids), np.inf)
        for l in range(self.config["num_hidden_layers"]):
            at = f"model.layers.{l}"
            normed = self.norm(x, f"{at}.input_layernorm.weight")
            x = x + self.attention(normed, f"{at}.attention")
            normed = self.norm(x, f"{at}.post_attention_layernorm.weight")
            if l < self.config["first_k_dense_replace"]:
                x = x + self.mlp(normed, f"{at}.mlp")
                continue
            chosen, own, margin = self.route(normed, f"{at}.mlp")
            least = np.minimum(least, margin)
            routed = np.zeros_like(x)
            for t, experts in enumerate(chosen):
                for e, weight in zip(experts, own[t]):
                    routed[t] += weight * self.mlp(normed[t], f"{at}.mlp.experts.{e}")
            x = x + routed + self.mlp(normed, f"{at}.mlp.shared_experts")
        return self.linear(self.norm(x, "model.norm.weight"), "lm_head"), least


def make(directory, name):
    """Writes one model with its logits."""
    from safetensors.numpy import save_file

    config, seed = MODELS[name], sum(map(ord, name))
    tensors = weights(config, seed)
    reference = Reference(config, tensors)
    draw = np.random.default_rng(seed + 1)
    requests = draw.integers(3, config["vocab_size"], (REQUESTS, PROMPT)).tolist()
    for _ in range(STEPS):
        for ids in requests:
            ids.append(int(reference.run(ids)[0][-1].argmax()))
    logits = np.stack([reference.run(ids)[0] for ids in requests]).astype(np.float32)
    ids = np.array(requests, np.int64)
    folder = os.path.join(directory, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
    save_file(tensors, os.path.join(folder, "model.safetensors"))
    save_file(
        {key: np.ascontiguousarray(value) for key, value in {
            "input_ids": ids[:, :PROMPT], "decode_ids": ids[:, PROMPT:],
            "logits_prefill": logits[:, :PROMPT], "logits_decode": logits[:, PROMPT:],
        }.items()},
        os.path.join(folder, "golden.safetensors"),
    )


def run_as_bf16(folder, layout, gpus, scratch):
    """Logits of the prompts where every value between operators is stored in bf16."""
    from safetensors.numpy import load_file

    plan, logits = os.path.join(scratch, layout), os.path.join(scratch, f"{layout}.safetensors")
    golden = os.path.join(folder, "golden.safetensors")
    config = os.path.join(folder, "config.json")
    for command in (
        ["compile", config, "--cluster", "h100x8", "--gpus", str(gpus), "--layout", layout,
         "--dtype", "bf16", "--isl", str(PROMPT), "--osl", "8", "-o", plan],
        ["run", plan, "--weights", folder, "--tokens-file", golden, "--logits", logits],
    ):
        subprocess.run(["shardc", *command], check=True, capture_output=True)
    return load_file(logits)["logits_prefill"]


def ties(directory, name):
    """Prints tokens of which two layouts choose other experts, and others, with their margins."""
    from safetensors.numpy import load_file

    folder = os.path.join(directory, name)
    ids = load_file(os.path.join(folder, "golden.safetensors"))["input_ids"]
    reference = Reference(MODELS[name], load_file(os.path.join(folder, "model.safetensors")))
    with tempfile.TemporaryDirectory() as scratch:
        one, other = (
            run_as_bf16(folder, layout, gpus, scratch)
            for layout, gpus in (("tp=1", 1), ("tp=2,dp=2,ep=4", 4))
        )
    apart = np.abs(one - other).max(-1)
    margins = np.stack([reference.run(row)[1] for row in ids])
    order = np.argsort(-apart.ravel())
    print(f"{name}: logits of deviation {one.std():.1f}; tokens by how far two layouts lie apart")
    for at in [*order[:4], *order[-2:]]:
        print(f"  {apart.flat[at]:.3f} apart, least margin {margins.flat[at]:.5f}")
    near = margins < 0.01
    if near.any() and (~near).any():
        print(f"  at most {apart[near].max():.3f} where a margin is below 0.01, "
              f"else {apart[~near].max():.3f}")


def main():
    what, directory, *names = sys.argv[1:]
    for name in names or MODELS:
        {"make": make, "ties": ties}[what](directory, name)


if __name__ == "__main__":
    main()
