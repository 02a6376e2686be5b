"""The measured machine, an H100 SXM, and where its tables lie."""

import pathlib

import numpy as np
import pandas as pd

SMS = 132
BANDWIDTH = 3.35e12
FLOPS = {"bf16": 989e12, "fp8": 1978e12}


def table(folder, name):
    """A measured table by a part of its file name."""
    found = sorted(pathlib.Path(folder).glob(f"*{name}*.csv.gz"))
    if len(found) != 1:
        raise SystemExit(f"{folder} holds {len(found)} tables named *{name}*.csv.gz, not 1")
    return pd.read_csv(found[0])


def columns(frame, *names):
    """Columns as floats."""
    return [frame[name].to_numpy(float) for name in names]


def seconds_ns(amount, rate):
    """Time of an amount at a rate, ns."""
    return amount / rate * 1e9


def off(predicted, measured):
    """Relative errors."""
    return np.abs(predicted / measured - 1)
