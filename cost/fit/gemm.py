"""Surfaces of dense matrix products over (m, n, k)."""

from functools import partial

import numpy as np

from machine import BANDWIDTH, FLOPS, SMS, columns, seconds_ns, table
from surface import Surface, fit, interpolation, knots, powers

# Tile steps of m stand as pairs: 64 and 65 rows differ by a tile.
M = np.array([1, 4, 8, 16, 17, 32, 64, 65, 128, 129, 256, 257, 512, 513, *powers(10, 15)], float)
NK = powers(5, 16)

# Host time of a call of the fp8 block kernels, which quantise their operand eagerly: us by the kernel
# that vLLM chooses. Rows not clearly above it say nothing about the device.
FLASHINFER, DEEPGEMM, DEEPGEMM_ODD, CUTLASS = 60.0, 86.0, 95.0, 180.0
ABOVE_HOST = 1.25

# floor ns; shares of peak FLOP/s and of bandwidth; share of a wave of tiles that is paid even when it is not full;
# contraction that a tile's start and end are worth, and the one beyond which a wave that is not full is split;
# sharpness of the maximum; bytes of an element; peak; and quantisation of the left operand: bytes an element, and
# elements that a row is worth.
PRIORS = {
    "bfloat16": (2580, 0.758, 0.85, 0.189, 71, 3170, 4, 2, FLOPS["bf16"], 0, 0),
    "fp8": (5040, 0.674, 0.86, 0.208, 0, np.inf, 2, 1, FLOPS["fp8"], 6.57, 3240),
    "fp8_block": (8000, 0.751, 0.95, 0.212, 0, np.inf, 2, 1, FLOPS["fp8"], 6.47, 0),
}
# Share of peak FLOP/s of what lies outside the grid.
BEYOND = {"bfloat16": 0.75, "fp8": 0.65, "fp8_block": 0.7}
NAMES = {"bfloat16": "gemm_16", "fp8": "gemm_8", "fp8_block": "gemm_8_block"}


def traffic(size, m, n, k):
    """Bytes of operands and result."""
    return (m * k + n * k) * size + m * n * 2


def quantisation(dtype, m, k):
    """ns of rounding the left operand to the type of the product."""
    bytes_, row = PRIORS[dtype][-2:]
    return seconds_ns(m * (k + row) * bytes_, BANDWIDTH)


def prior(dtype, m, n, k):
    """Floor, tile waves, bytes, quantisation: `GemmFit` of the crate."""
    floor, compute, memory, wave, extra, split, sharp, size, peak, *_ = PRIORS[dtype]
    waves = np.ceil(m / 64) * 64 * np.ceil(n / 128) / (128 * SMS)
    paid = wave * np.ceil(waves) * (np.minimum(k, split) + extra) + (1 - wave) * waves * (k + extra)
    c = seconds_ns(paid * SMS * 2 * 128 * 128, compute * peak)
    b = seconds_ns(traffic(size, m, n, k), memory * BANDWIDTH)
    return floor + (c**sharp + b**sharp) ** (1 / sharp) + quantisation(dtype, m, k)


def beyond(dtype, m, n, k):
    """What sizes outside the grid add."""
    size, peak = PRIORS[dtype][7:9]
    compute = seconds_ns(2 * m * n * k, BEYOND[dtype] * peak)
    return compute + seconds_ns(traffic(size, m, n, k), 0.85 * BANDWIDTH) + quantisation(dtype, m, k)


def host(m, n, k):
    """Host time of an eager fp8 block call, ns."""
    deep = np.where(m % 2 == 0, DEEPGEMM, DEEPGEMM_ODD)
    return 1e3 * np.where((n < 64) | (k < 128), CUTLASS, np.where(m < 32, FLASHINFER, deep))


def surface(dtype, frame):
    """The surface of the rows of one type."""
    m, n, k = columns(frame, "m", "n", "k")
    times = frame.latency.to_numpy() * 1e6
    axes = (M, NK, NK)
    if dtype == "fp8_block":
        device = times > ABOVE_HOST * host(m, n, k)
        m, n, k, times = m[device], n[device], k[device], times[device]
    formula = prior(dtype, *knots(axes))
    values = fit(axes, interpolation(axes, (m, n, k)), times, formula, smooth=0.03)
    return Surface(NAMES[dtype], axes, values, partial(beyond, dtype))


def predict(dtype, surface, frame):
    """ns of each row as the benchmark ran it."""
    points = columns(frame, "m", "n", "k")
    times = surface.at(points)
    return np.maximum(times, host(*points)) if dtype == "fp8_block" else times


def load(folder):
    """Rows by type."""
    rows = table(folder, "__gemm_perf")
    return {dtype: rows[rows.gemm_dtype == dtype] for dtype in PRIORS}


def holdouts(frame, rng):
    """What is held back to measure errors: name, and which rows."""
    held = [3584, 768, 10240, 7168]
    large = lambda c, top: frame[c] > top
    return {
        "random 30 %": rng.random(len(frame)) < 0.3,
        "whole n": frame.n.isin(held).to_numpy(),
        "whole k": frame.k.isin(held).to_numpy(),
        "m above 8192": large("m", 8192).to_numpy(),
        "n above 16384": large("n", 16384).to_numpy(),
        "k above 16384": large("k", 16384).to_numpy(),
    }
