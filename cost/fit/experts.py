"""Surfaces of routed experts over (rows, local experts, local width, hidden width), and how uneven load is.

One surface a type, fitted on balanced rows. A skewed distribution is the same surface at other rows: those
of the busiest device where work counts, one for each touched expert where weights do.
"""

from functools import partial

import numpy as np
from scipy.optimize import minimize

from machine import BANDWIDTH, FLOPS, columns, off, seconds_ns, table
from surface import Surface, fit, interpolation, knots, powers

AXES = (powers(-6, 18), powers(0, 9), powers(4, 14), np.array([2048, 4096, 8192], float))

# (floor ns, memory share of weights, of rows, rows an expert pays for, bytes of a weight, peak)
PRIORS = {
    "bfloat16": (31800, 0.873, 0.266, 74, 2, FLOPS["bf16"]),
    "fp8": (32300, 0.882, 0.266, 152, 1, FLOPS["fp8"]),
    "fp8_block": (27400, 0.945, 0.118, 170, 1, FLOPS["fp8"]),
    "w4a16_mxfp4": (76000, 0.613, 0.173, 1, 0.53125, FLOPS["bf16"]),
}
NAMES = {"bfloat16": "experts_16", "fp8": "experts_8", "fp8_block": "experts_8_block", "w4a16_mxfp4": "experts_weight_only"}
# How each distribution loads experts (see `effective`): few, many, spread, tail, idle. `main.py --loads` fits them.
LOADS = {"power_law_1.01": (0.59, 0.27, 1.53, 1.2, 3.23), "power_law_1.2": (0.62, 0.33, 1.18, 1.41, 3.22)}
# Share of peak FLOP/s of what lies outside the grid.
BEYOND = {"bfloat16": 0.7, "fp8": 0.5, "fp8_block": 0.55, "w4a16_mxfp4": 0.5}


def prior(dtype, matrices, rows, experts, inner, hidden):
    """`ExpertFit` of the crate, balanced: as many experts are touched as there are rows."""
    floor, weights, moved, tile, size, peak = PRIORS[dtype]
    touched, matrix = np.minimum(experts, rows), hidden * inner
    c = seconds_ns(2 * matrices * matrix * np.maximum(rows, tile * touched), peak)
    w = seconds_ns(touched * matrices * matrix * size, weights * BANDWIDTH)
    a = seconds_ns(rows * 2 * (2 * hidden + matrices * inner), moved * BANDWIDTH)
    return floor + np.hypot(c, w) + a


def beyond(dtype, rows, experts, inner, hidden):
    """What sizes outside the grid add, for three matrices."""
    size, peak = PRIORS[dtype][-2:]
    matrix = hidden * inner
    compute = seconds_ns(6 * matrix * rows, BEYOND[dtype] * peak)
    moved = experts * 3 * matrix * size + rows * 2 * (2 * hidden + 3 * inner)
    return compute + seconds_ns(moved, 0.8 * BANDWIDTH)


def points(frame):
    """Rows a device, local experts, local width, hidden width: TensorRT-LLM splits rows over devices."""
    names = ("num_tokens", "topk", "num_experts", "moe_ep_size", "moe_tp_size", "inter_size", "hidden_size")
    tokens, chosen, experts, ep, tp, inter, hidden = columns(frame, *names)
    return tokens * chosen / ep, np.ceil(experts / ep), inter / tp, hidden


def matrices(frame):
    """Three with a gate, two without."""
    return np.where(frame.kernel_source.str.contains("nongated"), 2.0, 3.0)


def surface(dtype, frame):
    """The surface of balanced rows of one type; rows without a gate are lifted to three matrices."""
    frame = frame[frame.distribution == "balanced"]
    where, count = points(frame), matrices(frame)
    lift = prior(dtype, 3, *where) / prior(dtype, count, *where)
    times = frame.latency.to_numpy() * 1e6 * lift
    values = fit(AXES, interpolation(AXES, where), times, prior(dtype, 3, *knots(AXES)), smooth=0.02)
    return Surface(NAMES[dtype], AXES, values, partial(beyond, dtype))


def effective(load, ep, experts, rows, local):
    """Rows at which the balanced surface is read: `Load` of the crate."""
    few, many, spread, tail, idle = load
    gamma = np.interp(np.log2(experts), [4, 7], [few, many])
    share = rows / local * spread
    touched = local * (1 - (1 + share / tail) ** -tail)
    return np.maximum(np.minimum(touched, rows), rows * ep**gamma - idle * local)


def predict(dtype, surface, frame, loads=LOADS):
    """ns of each row."""
    where, count = points(frame), matrices(frame)
    experts, ep = columns(frame, "num_experts", "moe_ep_size")
    rows = where[0].copy()
    for name, load in loads.items():
        skewed = (frame.distribution == name).to_numpy()
        rows[skewed] = effective(load, ep, experts, where[0], where[1])[skewed]
    where = (rows, *where[1:])
    return surface.at(where) * prior(dtype, count, *where) / prior(dtype, 3, *where)


def fit_loads(surfaces, frames, every=8):
    """The load of each distribution over all types: constants that minimise the mean error."""
    loads = {}
    for name in LOADS:
        parts = {t: f[f.distribution == name].iloc[::every] for t, f in frames.items() if t in surfaces}

        def loss(x):
            if min(x[2:]) < 0.05:
                return 9.0
            errors = [off(predict(t, surfaces[t], f, {name: x}), f.latency.to_numpy() * 1e6) for t, f in parts.items()]
            return np.minimum(np.concatenate(errors), 1).mean()

        start = np.array([0.63, 0.3, 1.4, 1.1, 3.0])
        best = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 120, "xatol": 0.01, "fatol": 1e-4})
        loads[name] = np.round(best.x, 2)
    return loads


def load(folder):
    """Rows by type."""
    rows = table(folder, "moe_perf")
    return {dtype: rows[rows.moe_dtype == dtype] for dtype in PRIORS}


def holdouts(frame, rng):
    """What is held back to measure errors: name, and which rows."""
    shape = frame.groupby(["hidden_size", "inter_size", "topk", "num_experts"]).ngroup().to_numpy()
    return {
        "random 30 %": rng.random(len(frame)) < 0.3,
        "whole models": shape % 4 == 1,
        "above 4096 tokens": (frame.num_tokens > 4096).to_numpy(),
    }
