"""Surfaces of whole attention blocks with multi-head latent attention, and of their decode kernel alone.

The rows time DeepSeek-V3's block for some local heads: projections, norms, attention. The kernel alone is
what a row adds over the row of the same batch at two cached tokens, plus the floor of a decode kernel.
"""

from functools import partial

import numpy as np

from attention import BITS
from machine import BANDWIDTH, FLOPS, columns, seconds_ns, table
from surface import Surface, fit, interpolation, knots, powers

HIDDEN, Q_RANK, KV_RANK, ROPE, NOPE, VALUE = 7168, 1536, 512, 64, 128, 128
LATENT = KV_RANK + ROPE
# Query heads that share the latent are computed in tiles of this many rows.
TILE = 64

HEADS = powers(0, 7)
KEYS = [1, 8.5, *(2.0**i + 0.5 for i in range(5, 15))]
PREFILL_AXES = (HEADS, powers(0, 17), np.array(KEYS))
DECODE_AXES = (HEADS, powers(0, 10), powers(0, 17))
# Requests, query rows, cached tokens.
LATENT_AXES = (powers(0, 10), powers(0, 17), np.array([1, 64, *powers(8, 17)], float))

# Launches, norms and copies of a block, ns.
BLOCK_FLOOR = 65000
FLOORS = {16: 11890, 8: 13790}
# Share of peak FLOP/s and bandwidth of projections; FLOP/s of attention; bandwidth and FLOP/s over latents.
PROJECTION, STREAM, PREFILL, LATENT_STREAM, LATENT_COMPUTE = 0.65, 0.85, 0.55, 0.9, 0.7
VARIANTS = [(kv, products) for kv in ("bfloat16", "fp8") for products in ("bfloat16", "fp8_block")]


def projections(products, heads, tokens):
    """Times of the FLOPs and of the weights of the dense products of a block."""
    local = heads * (Q_RANK * (NOPE + ROPE) + KV_RANK * (NOPE + VALUE) + VALUE * HIDDEN)
    weights = HIDDEN * (Q_RANK + LATENT) + local
    size, peak = (2, FLOPS["bf16"]) if products == "bfloat16" else (1, FLOPS["fp8"])
    return seconds_ns(2 * tokens * weights, PROJECTION * peak), seconds_ns(weights * size, STREAM * BANDWIDTH)


def latent(bits, requests, rows, context):
    """Times of the bytes of the latents, and of the FLOPs of tiles of heads."""
    tiles = np.ceil(np.maximum(rows / requests, 1) / TILE) * TILE
    moved = seconds_ns(requests * context * LATENT * bits / 8, LATENT_STREAM * BANDWIDTH)
    work = 2 * requests * tiles * context * (LATENT + KV_RANK)
    return moved, seconds_ns(work, LATENT_COMPUTE * FLOPS["bf16"])


def attention(kind, kv, heads, tokens, keys):
    """Times of the bytes and FLOPs of attention."""
    if kind == "decode":
        return latent(BITS[kv], tokens, tokens * heads, keys)
    return 0, seconds_ns(2 * tokens * keys * heads * (NOPE + ROPE + VALUE), PREFILL * FLOPS["bf16"])


def prior(kind, kv, products, heads, tokens, keys):
    """A block over new tokens that see `keys` keys in the mean, or over one new token a request."""
    return BLOCK_FLOOR + np.hypot(*projections(products, heads, tokens)) + np.maximum(*attention(kind, kv, heads, tokens, keys))


def beyond(kind, kv, products, heads, tokens, keys):
    """What sizes outside the grid add."""
    return sum(projections(products, heads, tokens)) + sum(attention(kind, kv, heads, tokens, keys))


def latent_prior(bits, requests, rows, context):
    return FLOORS[bits] + np.maximum(*latent(bits, requests, rows, context))


def latent_beyond(bits, requests, rows, context):
    return sum(latent(bits, requests, rows, context))


def prefill_points(frame):
    """Coordinates of rows of the context table."""
    heads, requests, new = columns(frame, "num_heads", "batch_size", "isl")
    return heads, requests * new, (new + 1) / 2


def decode_points(frame):
    """Coordinates of rows of the generation table."""
    return tuple(columns(frame, "num_heads", "batch_size", "step"))


KINDS = {
    "prefill": ("mla_context_module", PREFILL_AXES, prefill_points),
    "decode": ("mla_generation_module", DECODE_AXES, decode_points),
}


def surface(kind, variant, frame):
    """The surface of the rows of one phase, KV type and type of products."""
    _, axes, points = KINDS[kind]
    formula = prior(kind, *variant, *knots(axes))
    values = fit(axes, interpolation(axes, points(frame)), frame.latency.to_numpy() * 1e6, formula, smooth=0.01)
    return Surface(f"mla_{kind}_{BITS[variant[0]]}_{variant[1]}", axes, values, partial(beyond, kind, *variant))


def predict(kind, surface, frame):
    """ns of each row."""
    return surface.at(KINDS[kind][2](frame))


def latent_rows(kv, frame):
    """Coordinates and times of the decode kernel alone."""
    frame = frame[frame.kv_cache_dtype == kv].copy()
    keys = ["gemm_type", "num_heads", "batch_size"]
    short = frame[frame.step <= 64].groupby(keys).latency.min().rename("short")
    frame = frame.join(short, on=keys, how="inner")
    heads, requests, context = decode_points(frame)
    added = np.maximum(frame.latency - frame.short, 0).to_numpy() * 1e6
    return (requests, requests * heads, context), FLOORS[BITS[kv]] + added


def latent_surface(kv, frame):
    """The surface of the decode kernel alone."""
    bits, axes = BITS[kv], LATENT_AXES
    points, times = latent_rows(kv, frame)
    formula = latent_prior(bits, *knots(axes))
    values = fit(axes, interpolation(axes, points), times, formula, smooth=0.01)
    return Surface(f"latent_{bits}", axes, values, partial(latent_beyond, bits))


def load(folder, kind):
    """Rows by variant."""
    rows = table(folder, f"{KINDS[kind][0]}_perf")
    of = lambda kv, products: rows[(rows.kv_cache_dtype == kv) & (rows.gemm_type == products)]
    return {variant: of(*variant) for variant in VARIANTS}


def holdouts(frame, rng):
    """What is held back to measure errors: name, and which rows."""
    tokens = "isl" if "isl" in frame else "step"
    return {
        "random 30 %": rng.random(len(frame)) < 0.3,
        "whole head counts": frame.num_heads.isin([4, 32]).to_numpy(),
        "whole lengths": frame[tokens].isin([64, 512, 4096]).to_numpy(),
        "above 8192 tokens": (frame[tokens] > 8192).to_numpy(),
        "batch above 64": (frame.batch_size > 64).to_numpy(),
    }
