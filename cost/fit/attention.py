"""Surfaces of attention: many new tokens a request, and one new token over a cache.

Both are functions of blocks (requests x KV heads), query rows (requests x heads x new tokens), keys that a
query sees in the mean, new or cached tokens of a request, and head width. Windows, chunks and cached
prefixes change only the keys, so that one surface prices them all.
"""

from functools import partial

import numpy as np

from machine import BANDWIDTH, FLOPS, SMS, columns, seconds_ns, table
from surface import Surface, fit, interpolation, knots, powers

WIDTHS = np.array([64, 128, 192, 256, 512], float)

# Keys of a causal request of 2^i tokens are (2^i + 1) / 2: both axes have knots there.
PREFILL_AXES = (
    powers(0, 15, 3),
    np.round(powers(0, 24, 1.5)),
    np.array([1, 8.5, 32.5, 128.5, 512.5, 2048.5, 8192.5]),
    powers(0, 14, 2)[[0, 2, 3, 4, 5, 6, 7]],
    WIDTHS,
)
DECODE_AXES = (
    powers(0, 14),
    np.array([1, 8, 64, 512, 4096, 32768, 131072], float),
    np.array([1, 16, *powers(6, 17)], float),
    np.array([1, 128, 512, 131072], float),
    WIDTHS,
)

# floor ns; share of peak FLOP/s; shares of bandwidth of queries and results, and of keys and values; head dimensions
# that the exponentials are worth; keys that a tile computes in vain; ns of a tile beside its products; share of a
# wave of tiles that is paid when it is not full; and by how much products of wide heads are slower.
PREFILL_PRIORS = {
    16: (10500, 0.982, 0.941, 0.184, 48.5, 39.7, 2230, 0.95, 2.24),
    8: (11600, 0.754, 0.638, 0.0637, 16.3, 75.7, 1790, 1.0, 1.47),
}
# floor ns; shares of bandwidth of the cache and of queries; ns of a wave of blocks; keys that a block reads beside its
# own; ns of the fourth root of the keys, for the serial part of a block; share of peak FLOP/s; slowness of wide heads.
DECODE_PRIORS = {
    16: (8500, 0.94, 0.468, 2590, 95.9, 507, 0.77, 2.5),
    8: (10200, 0.762, 0.531, 2210, 205, 630, 0.33, 1.45),
}
# Heads wider than this are slower, by bits of the cache.
WIDE = {16: 256, 8: 192}
# Query rows of a tile over new tokens, where heads of one KV head share tiles; query heads of a tile over a cache.
PREFILL_TILE, DECODE_TILE = 128, 64
BITS = {"bfloat16": 16, "fp8": 8}


def prefill_prior(bits, blocks, rows, keys, new, width):
    """`PrefillFit` of the crate."""
    floor, compute, queries, cache, softmax, vain, tile, wave, wide = PREFILL_PRIORS[bits]
    waves = blocks * np.ceil(np.maximum(rows / blocks, 1) / PREFILL_TILE) / SMS
    paid = waves + wave * (np.ceil(waves) - waves)
    work = PREFILL_TILE * 4 * (keys + vain) * (width + softmax) * np.where(width > WIDE[bits], wide, 1)
    each = seconds_ns(work * SMS, compute * FLOPS["bf16"]) + tile
    read = seconds_ns(blocks * np.maximum(new, keys) * width * bits / 4, cache * BANDWIDTH)
    return floor + paid * each + read + seconds_ns(rows * width * 4, queries * BANDWIDTH)


def decode_prior(bits, blocks, rows, keys, context, width):
    """`DecodeFit` of the crate."""
    floor, cache, queries, block, more, serial, compute, wide = DECODE_PRIORS[bits]
    tiles = np.ceil(np.maximum(rows / blocks, 1) / DECODE_TILE)
    moved = blocks * (keys + more) * width * bits / 4 * np.where(width > WIDE[bits], wide, 1)
    b, u = seconds_ns(moved, cache * BANDWIDTH), np.ceil(blocks * tiles / SMS) * block
    c = seconds_ns(4 * DECODE_TILE * blocks * tiles * keys * width, compute * FLOPS["bf16"])
    asked = seconds_ns(rows * width * 4, queries * BANDWIDTH)
    return floor + np.maximum(np.hypot(b, u), c) + asked + serial * np.sqrt(np.sqrt(keys))


def beyond(bits, blocks, rows, keys, tokens, width):
    """What sizes outside the grid add; `tokens` only moves bytes that keys count already."""
    compute = seconds_ns(4 * rows * keys * width, 0.62 * FLOPS["bf16"])
    moved = blocks * keys * width * bits / 4 + rows * width * 4
    return compute + seconds_ns(moved, 0.85 * BANDWIDTH)


def prefill_points(frame):
    """Coordinates of rows of the context table."""
    names = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size")
    requests, new, heads, kv, width, window = columns(frame, *names)
    window = np.where(window == 0, np.inf, window)
    short = np.minimum(new, window)
    pairs = short * (short + 1) / 2 + np.where(new > window, (new - short) * np.minimum(window, new), 0)
    return requests * kv, requests * heads * new, pairs / new, new, width


def decode_points(frame):
    """Coordinates of rows of the generation table."""
    names = ("batch_size", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size")
    requests, step, heads, kv, width, window = columns(frame, *names)
    context = step + 1
    keys = np.minimum(context, np.where(window == 0, np.inf, window))
    return requests * kv, requests * heads, keys, context, width


KINDS = {
    "prefill": ("context_attention", PREFILL_AXES, prefill_points, prefill_prior),
    "decode": ("generation_attention", DECODE_AXES, decode_points, decode_prior),
}


def surface(kind, dtype, frame):
    """The surface of the rows of one phase and KV type."""
    _, axes, points, prior = KINDS[kind]
    bits = BITS[dtype]
    rows = interpolation(axes, points(frame))
    values = fit(axes, rows, frame.latency.to_numpy() * 1e6, prior(bits, *knots(axes)), smooth=0.01)
    return Surface(f"{kind}_{bits}", axes, values, partial(beyond, bits))


def predict(kind, surface, frame):
    """ns of each row."""
    return surface.at(KINDS[kind][2](frame))


def load(folder, kind):
    """Rows by KV type."""
    rows = table(folder, f"{KINDS[kind][0]}_perf")
    return {dtype: rows[rows.kv_cache_dtype == dtype] for dtype in BITS}


def holdouts(frame, rng):
    """What is held back to measure errors: name, and which rows."""
    tokens = "isl" if "isl" in frame else "step"
    lengths = [512, 3072, 511, 4095]
    return {
        "random 30 %": rng.random(len(frame)) < 0.3,
        "whole head counts": frame.num_heads.isin([4, 12, 40]).to_numpy(),
        "whole lengths": frame[tokens].isin(lengths).to_numpy(),
        "head width 192": (frame.head_dim == 192).to_numpy(),
        "above 8192 tokens": (frame[tokens] > 8192).to_numpy(),
        "batch above 64": (frame.batch_size > 64).to_numpy(),
    }
