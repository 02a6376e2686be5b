"""Surfaces of routed experts over (rows, local experts, local width, hidden width), and how uneven load is.

One surface a type, fitted on balanced rows. A skewed distribution is the same surface at other rows: those
of the busiest device where work counts, one for each touched expert where weights do.

Two things are kept out of the surface. Kernels also pass over the tokens of all devices, however many share
the experts (`unsplit`). And about one run in ten, a shape, split and load timed over all numbers of tokens,
ran three to five times slower from the first row to the last: the kernel that an autotuner falls back to.
Such runs are found by their median (`slow_runs`), listed, and follow a formula of their own (`untuned`).
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
# Passes over the tokens of all devices, in bytes of bf16, as a part 1 - 1/ep of the devices does not hold them.
UNSPLIT = {"bfloat16": 1.5, "fp8": 3.0, "fp8_block": 2.5, "w4a16_mxfp4": 40.0}
# The fallback kernel: as PRIORS, with the share of peak FLOP/s behind the floor. `main.py --loads` fits them.
UNTUNED = {"bfloat16": (46800, 0.119, 0.194, 0.278, 48), "fp8": (45300, 0.143, 0.193, 0.211, 80)}
# A run is one call of the benchmark's worker; a slow one has this quantile of measured over expected above this.
RUN = ["hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution", "kernel_source"]
SLOW_QUANTILE, SLOW = 0.35, 1.7
# How each distribution loads experts (see `effective`): few, many, spread, tail, idle. `main.py --loads` fits them.
LOADS = {"power_law_1.01": (0.67, 0.28, 1.37, 1.45, 3.19), "power_law_1.2": (0.68, 0.37, 1.19, 1.56, 3.57)}
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


def unsplit(dtype, frame):
    """ns of passing over tokens that other devices hold."""
    tokens, hidden, ep = columns(frame, "num_tokens", "hidden_size", "moe_ep_size")
    return seconds_ns(UNSPLIT[dtype] * tokens * hidden * 2 * (1 - 1 / ep), BANDWIDTH)


def untuned(dtype, matrices, rows, experts, inner, hidden, constants=None):
    """The fallback kernel: `ExpertFit` of the crate with constants of its own."""
    floor, compute, weights, moved, tile = constants or UNTUNED[dtype]
    size, peak = PRIORS[dtype][-2:]
    touched, matrix = np.minimum(experts, rows), hidden * inner
    c = seconds_ns(2 * matrices * matrix * np.maximum(rows, tile * touched), compute * peak)
    w = seconds_ns(touched * matrices * matrix * size, weights * BANDWIDTH)
    a = seconds_ns(rows * 2 * (2 * hidden + matrices * inner), moved * BANDWIDTH)
    return floor + np.hypot(c, w) + a


def tuned_surface(dtype, frame):
    """The surface of these rows; rows without a gate are lifted to three matrices."""
    frame = frame[frame.distribution == "balanced"]
    where, count = points(frame), matrices(frame)
    lift = prior(dtype, 3, *where) / prior(dtype, count, *where)
    times = frame.latency.to_numpy() * 1e6
    times = np.maximum(times - unsplit(dtype, frame), 0.3 * times) * lift
    values = fit(AXES, interpolation(AXES, where), times, prior(dtype, 3, *knots(AXES)), smooth=0.02)
    return Surface(NAMES[dtype], AXES, values, partial(beyond, dtype))


def slow_runs(dtype, surface, frame):
    """Runs of the fallback kernel, as a set of `RUN`."""
    ratio = (frame.latency * 1e6 / tuned(dtype, surface, frame)).rename("ratio")
    found = frame[RUN].join(ratio).groupby(RUN).ratio.quantile(SLOW_QUANTILE)
    return set(found[found > SLOW].index) if dtype in UNTUNED else set()


def is_slow(frame, runs):
    """Which rows belong to these runs."""
    return np.array([run in runs for run in frame[RUN].itertuples(index=False, name=None)], bool)


def surface(dtype, frame):
    """The surface of the runs of one type that are not slow, with the others as `slow`."""
    found = slow_runs(dtype, tuned_surface(dtype, frame), frame)
    made = tuned_surface(dtype, frame[~is_slow(frame, found)])
    made.slow = found
    return made


def effective(load, ep, experts, rows, local):
    """Rows at which the balanced surface is read: `Load` of the crate."""
    few, many, spread, tail, idle = load
    gamma = np.interp(np.log2(experts), [4, 7], [few, many])
    share = rows / local * spread
    touched = local * (1 - (1 + share / tail) ** -tail)
    return np.maximum(np.minimum(touched, rows), rows * ep**gamma - idle * local)


def loaded(frame, loads):
    """Points of a balanced load that takes as long as that of each row."""
    where = points(frame)
    experts, ep = columns(frame, "num_experts", "moe_ep_size")
    rows = where[0].copy()
    for name, load in loads.items():
        skewed = (frame.distribution == name).to_numpy()
        rows[skewed] = effective(load, ep, experts, where[0], where[1])[skewed]
    return (rows, *where[1:])


def tuned(dtype, surface, frame, loads=LOADS):
    """ns of each row under the kernel that an autotuner picks."""
    where, count = loaded(frame, loads), matrices(frame)
    return surface.at(where) * prior(dtype, count, *where) / prior(dtype, 3, *where) + unsplit(dtype, frame)


def predict(dtype, surface, frame):
    """ns of each row."""
    times, slow = tuned(dtype, surface, frame), is_slow(frame, surface.slow)
    if slow.any():
        rows = frame[slow]
        times[slow] = untuned(dtype, matrices(rows), *loaded(rows, LOADS)) + unsplit(dtype, rows)
    return times


def fit_untuned(dtype, surface, frame):
    """Constants of the fallback kernel that minimise the mean logarithmic error of slow runs."""
    rows = frame[is_slow(frame, surface.slow)]
    where, count = loaded(rows, LOADS), matrices(rows)
    times = np.maximum(rows.latency.to_numpy() * 1e6 - unsplit(dtype, rows), 1e3)
    loss = lambda x: np.abs(np.log(untuned(dtype, count, *where, tuple(np.exp(x))) / times)).mean()
    start = np.log([50000, 0.15, 0.2, 0.2, 64])
    best = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 4000, "maxfev": 4000, "adaptive": True})
    return [float(f"{x:.3g}") for x in np.exp(best.x)]


def fit_loads(surfaces, frames, every=8):
    """The load of each distribution over all types: constants that minimise the mean error."""
    loads = {}
    for name in LOADS:
        parts = {}
        for dtype, surface in surfaces.items():
            rows = frames[dtype][frames[dtype].distribution == name].iloc[::every]
            parts[dtype] = rows[~is_slow(rows, surface.slow)]

        def loss(x):
            if min(x[2:]) < 0.05:
                return 9.0
            errors = [off(tuned(t, surfaces[t], f, {name: x}), f.latency.to_numpy() * 1e6) for t, f in parts.items()]
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
