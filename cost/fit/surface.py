"""A latency surface: times at the knots of a grid, straight lines between them.

A kernel's time is close to a constant plus FLOPs over a rate plus bytes over a bandwidth, and each of
those is linear in every single size. So a surface is interpolated linearly in the sizes themselves, not
in their logarithms, and is exact wherever the kernel does not change its way of working.

Fitting: the times at the knots minimise the squared relative error of the rows, plus a penalty on how
fast the ratio to a physical formula (the prior) changes from knot to knot, under the condition that no
time falls along any axis. Rows with large errors are weighted down, so that a row that a benchmark got
wrong does not bend its neighbours.
"""

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as solvers

# Above this many knots a factorisation fills too much memory, and conjugate gradients take over.
DIRECT = 6000


def powers(low, high, step=1.0):
    """2^low, …, 2^high."""
    return 2.0 ** np.arange(low, high + 1e-9, step)


def interpolation(axes, points):
    """Sparse rows that interpolate at `points` (one array an axis), clamped to the grid."""
    shape = tuple(len(a) for a in axes)
    cells = []
    for axis, x in zip(axes, points):
        i = np.clip(np.searchsorted(axis, x, side="right") - 1, 0, len(axis) - 2)
        cells.append((i, np.clip((x - axis[i]) / (axis[i + 1] - axis[i]), 0, 1)))
    rows, columns, values = [], [], []
    count = len(points[0])
    for corner in range(2 ** len(axes)):
        index, weight = [], np.ones(count)
        for a, (i, share) in enumerate(cells):
            upper = corner >> a & 1
            index.append(i + upper)
            weight = weight * (share if upper else 1 - share)
        used = weight > 0
        rows.append(np.flatnonzero(used))
        columns.append(np.ravel_multi_index(index, shape)[used])
        values.append(weight[used])
    triple = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sp.csr_matrix(triple, shape=(count, int(np.prod(shape))))


def steps(axes, axis):
    """Differences between neighbouring knots along one axis, and their distance in octaves."""
    shape = tuple(len(a) for a in axes)
    index = np.moveaxis(np.arange(np.prod(shape)).reshape(shape), axis, -1)
    low, high = index[..., :-1].ravel(), index[..., 1:].ravel()
    row, one = np.arange(len(low)), np.ones(len(low))
    ends = (np.r_[-one, one], (np.r_[row, row], np.r_[low, high]))
    octaves = np.diff(np.log2(np.maximum(axes[axis], 0.5)))
    return sp.csr_matrix(ends, shape=(len(low), index.size)), np.tile(octaves, index.size // shape[axis])


def knots(axes):
    """Coordinates of every knot, one flat array an axis."""
    return [g.ravel() for g in np.meshgrid(*axes, indexing="ij")]


def growing(values, axes):
    """The least surface above `values` that never falls along an axis."""
    grid = values.reshape([len(a) for a in axes])
    for axis in range(grid.ndim):
        grid = np.maximum.accumulate(grid, axis=axis)
    return grid.ravel()


def fit(axes, rows, times, prior, smooth, anchor=1e-4, rounds=60, reweigh=12):
    """Times at the knots. `rows` interpolates (see `interpolation`), `prior` is the formula at the knots.

    The unknowns are ratios to the prior. Alternating directions (`slack` is the allowed part of the climbs,
    `dual` its multiplier) keep every climb from knot to knot at or above zero.
    """
    relative = (sp.diags(1 / times) @ rows @ sp.diags(prior)).tocsr()
    penalty, climbs = anchor * sp.eye(len(prior), format="csr"), []
    for axis in range(len(axes)):
        step, octaves = steps(axes, axis)
        scaled = sp.diags(1 / np.sqrt(np.maximum(octaves, 0.05))) @ step
        penalty = penalty + smooth * (scaled.T @ scaled)
        climbs.append(sp.diags(2 / (abs(step) @ prior)) @ step @ sp.diags(prior))
    climb = sp.vstack(climbs).tocsr()
    penalty = (penalty + climb.T @ climb).tocsr()
    ratio, weight = np.ones(len(prior)), np.ones(len(times))
    slack, dual = np.maximum(climb @ ratio, 0), np.zeros(climb.shape[0])
    for turn in range(rounds):
        if turn % reweigh == 0:
            error = np.abs(relative @ ratio - 1) if turn else np.zeros(len(times))
            weight = 1 / np.sqrt(np.maximum(error, 0.03) / 0.03)
            system = System(sp.diags(weight) @ relative, penalty)
        target = system.rows.T @ weight + anchor + climb.T @ (slack - dual)
        ratio = system.solve(target, ratio)
        climbed = climb @ ratio
        slack = np.maximum(climbed + dual, 0)
        dual = dual + climbed - slack
    return growing(np.maximum(ratio, 0.02) * prior, axes)


class System:
    """`(rows' rows + penalty) x = b`, factored where small and solved by conjugate gradients where not."""

    def __init__(self, rows, penalty):
        self.rows, size = rows.tocsr(), penalty.shape[0]
        self.factor = solvers.splu((rows.T @ rows + penalty).tocsc()) if size <= DIRECT else None
        turned = self.rows.T.tocsr()
        self.matrix = solvers.LinearOperator((size, size), lambda x: turned @ (self.rows @ x) + penalty @ x)
        self.scale = sp.diags(1 / (np.asarray(self.rows.power(2).sum(axis=0)).ravel() + penalty.diagonal()))

    def solve(self, target, start):
        if self.factor:
            return self.factor.solve(target)
        return solvers.cg(self.matrix, target, x0=start, rtol=1e-5, maxiter=40, M=self.scale)[0]


def clamp(axes, points):
    """Points moved to the nearest one of the grid."""
    return [np.clip(x, a[0], a[-1]) for a, x in zip(axes, points)]


class Surface:
    """Times in ns at the knots of `axes`; `beyond` adds what lies outside the grid."""

    def __init__(self, name, axes, times, beyond):
        self.name, self.axes, self.times, self.beyond = name, [np.asarray(a, float) for a in axes], times, beyond
        # Mean relative error of held-back rows: under twice the least time, and above.
        self.errors = (0.0, 0.0)

    def at(self, points):
        """Interpolated inside the grid; outside, the nearest time plus what the formula adds."""
        inner = clamp(self.axes, points)
        above = [np.maximum(x, i) for x, i in zip(points, inner)]
        extra = np.maximum(self.beyond(*above) - self.beyond(*inner), 0)
        return interpolation(self.axes, inner) @ self.times + extra


def encode(surfaces):
    """The file that the crate reads: a line a surface, an empty line, then 16-bit numbers.

    A line holds `name;error near the floor,error above;axis;axis;…`. The numbers are log2 of ns in steps of 1/1024 octave, in the
    order of the lines, the last axis fastest.
    """
    number = lambda x: repr(round(float(x), 4)).removesuffix(".0")
    lines, body = [], b""
    for s in surfaces:
        cells = [s.name, ",".join(number(e) for e in s.errors)]
        cells += [",".join(number(x) for x in axis) for axis in s.axes]
        lines.append(";".join(cells))
        body += np.round(np.log2(s.times) * 1024).astype("<i2").tobytes()
    return "\n".join(lines).encode() + b"\n\n" + body
