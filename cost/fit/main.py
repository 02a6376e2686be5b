"""Fits every surface, measures its errors on rows held back, and writes what the crate ships.

    python cost/fit/main.py MEASURED [--data cost/data/h100.surfaces] [--report holdouts.md]

MEASURED is a folder with the tables of aiconfigurator-core 0.12.0 named in README.md.
"""

import argparse
import pathlib
import sys

import numpy as np
import pandas as pd

import attention
import experts
import gemm
import mla
from machine import off
from surface import encode

SEED = 1


class Family:
    """Rows of one surface, how to fit and price them, and what to hold back."""

    def __init__(self, label, rows, fit, predict, holdouts):
        self.label, self.rows, self.fit, self.predict, self.holdouts = label, rows, fit, predict, holdouts

    def errors(self, held):
        """Relative errors, and times, of held rows under a surface of the others."""
        surface = self.fit(self.rows[~held])
        measured = self.rows[held].latency.to_numpy() * 1e6
        return off(self.predict(surface, self.rows[held]), measured), measured


def families(folder):
    """Every surface but that of the latent kernel."""
    for dtype, rows in gemm.load(folder).items():
        fit = lambda f, t=dtype: gemm.surface(t, f)
        yield Family(f"gemm {dtype}", rows, fit, lambda s, f, t=dtype: gemm.predict(t, s, f), gemm.holdouts)
    for kind in attention.KINDS:
        for dtype, rows in attention.load(folder, kind).items():
            fit = lambda f, k=kind, t=dtype: attention.surface(k, t, f)
            predict = lambda s, f, k=kind: attention.predict(k, s, f)
            yield Family(f"{kind} attention, {dtype} KV", rows, fit, predict, attention.holdouts)
    for kind in mla.KINDS:
        for variant, rows in mla.load(folder, kind).items():
            fit = lambda f, k=kind, v=variant: mla.surface(k, v, f)
            predict = lambda s, f, k=kind: mla.predict(k, s, f)
            label = f"MLA {kind}, {variant[0]} KV, {variant[1]} products"
            yield Family(label, rows, fit, predict, mla.holdouts)
    for dtype, rows in experts.load(folder).items():
        fit = lambda f, t=dtype: experts.surface(t, f)
        predict = lambda s, f, t=dtype: experts.predict(t, s, f)
        yield Family(f"experts {dtype}", rows, fit, predict, experts.holdouts)


def report_row(label, name, errors):
    mean, median, tail = errors.mean(), np.median(errors), np.quantile(errors, 0.9)
    return f"| {label} | {name} | {len(errors)} | {mean:.1%} | {median:.1%} | {tail:.0%} |"


def study(family, lines, only_random):
    """Errors of every hold-out; those of random rows become the surface's error bars."""
    bars = (0.0, 0.0)
    for name, held in family.holdouts(family.rows, np.random.default_rng(SEED)).items():
        if not 0 < held.sum() < len(held) or (only_random and not name.startswith("random")):
            continue
        errors, measured = family.errors(held)
        lines.append(report_row(family.label, name, errors))
        print(lines[-1], file=sys.stderr, flush=True)
        if name.startswith("random"):
            low = measured < 2 * measured.min()
            mean = lambda e: round(float(e.mean()), 3) if len(e) else 0.0
            bars = (mean(errors[low]), mean(errors[~low]))
    return bars


def print_loads(folder):
    """Constants of uneven load and of the fallback kernel, on the 70 % of the rows that random hold-outs keep."""
    tables = experts.load(folder)
    kept = {t: f[np.random.default_rng(SEED).random(len(f)) >= 0.3] for t, f in tables.items()}
    common = {t: experts.surface(t, kept[t]) for t in tables if t != "w4a16_mxfp4"}
    for name, load in experts.fit_loads(common, kept).items():
        print(f"{name}: {load.tolist()}")
    for dtype in experts.UNTUNED:
        print(f"untuned {dtype}: {experts.fit_untuned(dtype, common[dtype], kept[dtype])}")


SLOW_HEADER = """\
# Runs of the expert rows of TensorRT-LLM 1.3.0rc20 on an H100 whose kernels were not tuned, as cost/fit/experts.py finds them.
# Columns: moe_dtype, hidden_size, inter_size, topk, num_experts, moe_tp_size, moe_ep_size, distribution, kernel_source.
"""


def slow_list(folder):
    """The list of slow runs, as the crate reads it."""
    lines = []
    for dtype, rows in experts.load(folder).items():
        lines += [",".join(map(str, [dtype, *run])) for run in sorted(experts.surface(dtype, rows).slow)]
    return SLOW_HEADER + "\n".join(lines) + "\n"


def surfaces(arguments, lines):
    """All surfaces, with error bars."""
    made = []
    for family in families(arguments.measured):
        surface = family.fit(family.rows)
        surface.errors = study(family, lines, arguments.quick)
        made.append(surface)
    rows = mla.load(arguments.measured, "decode")
    for kv in attention.BITS:
        parts = pd.concat([f for (k, _), f in rows.items() if k == kv])
        surface = mla.latent_surface(kv, parts)
        surface.errors = (0.06, 0.06)
        made.append(surface)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measured", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("cost/data/h100.surfaces"))
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="hold back random rows only")
    parser.add_argument("--loads", action="store_true", help="only fit loads of experts and the fallback kernel")
    arguments = parser.parse_args()
    if arguments.loads:
        return print_loads(arguments.measured)
    lines = ["| rows | held back | number | mean | median | 90 % under |", "|---|---|---|---|---|---|"]
    arguments.data.with_name("h100_untuned_experts.csv").write_text(slow_list(arguments.measured))
    arguments.data.write_bytes(encode(surfaces(arguments, lines)))
    if arguments.report:
        arguments.report.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
