"""Collective latencies of one node and between two, as the table that the crate interpolates.

    python cost/fit/collectives.py MEASURED > cost/data/h100_collectives.csv
"""

import sys

import numpy as np
import pandas as pd

from machine import table

# `message_size` counts elements.
BYTES = {"half": 2, "int8": 1}
OPERATIONS = {"all_gather": "all_gather", "all_reduce": "all_reduce", "alltoall": "all_to_all", "reduce_scatter": "reduce_scatter"}
# Sizes kept of the send/recv rows, which step by 8 KiB; each is the median of the rows within 2 %, or the
# nearest row.
SENT = [2**11, 2**14, 2**16, 2**18, 2**20, 2**22, 2**24, 2**25, 2**26]

HEADER = """\
# Collective latencies on one 8 x H100 SXM node (send_recv_network: between two nodes).
# NCCL 2.29.2 and the custom all-reduce of vLLM 0.24.0 in a CUDA graph: aiconfigurator-core 0.12.0, Apache-2.0.
# send_recv: microsoft/vidur, MIT. Half-precision and int8 rows are merged by bytes, and a point slower
# than a larger message is lowered to it. Bytes are the full buffer: output of all_gather, input of reduce_scatter.
# Columns: operation, devices, bytes, nanoseconds.
"""


def nccl(folder):
    rows = table(folder, "nccl_perf")
    size = rows.message_size * rows.nccl_dtype.map(BYTES)
    return pd.DataFrame({"op": rows.op_name.map(OPERATIONS), "devices": rows.num_gpus, "bytes": size, "ns": rows.latency * 1e6})


def custom(folder):
    rows = table(folder, "custom_allreduce_perf")
    rows = rows[rows.kernel_source.str.endswith("graph")]
    size = rows.message_size * BYTES["half"]
    return pd.DataFrame({"op": "all_reduce_custom", "devices": rows.num_gpus, "bytes": size, "ns": rows.latency * 1e6})


def sent(folder):
    rows = table(folder, "send_recv")
    time = rows["time_stats.send_recv.median"] * 1e6
    for per_node, op in ((2, "send_recv"), (1, "send_recv_network")):
        here = rows.devices_per_node == per_node
        for size in SENT:
            distance = (rows["size"][here] - size).abs()
            near = distance[distance <= max(0.02 * size, distance.min())].index
            yield {"op": op, "devices": 2, "bytes": size, "ns": time[near].median()}


def main():
    folder = sys.argv[1]
    rows = pd.concat([nccl(folder), custom(folder), pd.DataFrame(sent(folder))])
    rows = rows.groupby(["op", "devices", "bytes"], as_index=False).ns.mean()
    print(HEADER, end="")
    for (op, devices), curve in rows.groupby(["op", "devices"]):
        times = np.minimum.accumulate(curve.ns.to_numpy()[::-1])[::-1]
        for size, ns in zip(curve["bytes"], times):
            print(f"{op},{devices},{size},{ns:.0f}")


if __name__ == "__main__":
    main()
