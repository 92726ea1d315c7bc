"""Influences on all 60,000 rows of MNIST under the exponential kernel, for ten queries: time, memory and error bars.

Run: python benchmarks/influence_at_scale.py [rows]; MNIST is fetched before by `ridgeformer data fetch mnist`.
"""

from __future__ import annotations

import resource
import sys
import time

import torch
from harness import report

from ridgeformer import datasets
from ridgeformer.core.seeds import torch_generator
from ridgeformer.datasets import Split
from ridgeformer.influence import pcg_influence
from ridgeformer.kernels import Exponential

QUERIES, CHOSEN, RIDGE, TAU, TOL = 10, 20, 1e-2, 0.25, 1e-6


def main() -> None:
    """Solve once for the targets, the queries and some training points; the data are counted in the memory."""
    dataset = datasets.load("mnist")
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else dataset.n - QUERIES
    p = Split.for_networks(dataset, rows=rows, test_rows=QUERIES, seed=0)
    chosen = torch.randperm(rows, generator=torch_generator(0, "chosen"))[:CHOSEN]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    kernel = Exponential(TAU, log_scale=1 / TAU)
    found = pcg_influence(kernel, p.X, p.y, p.Xt, RIDGE, rows=chosen, rank=100, tol=TOL)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    largest = found.leave_one_out.abs().amax()
    row = {
        "rows": rows,
        "training points asked about": CHOSEN,
        "seconds": round(seconds),
        "data, GiB": round(before / 2**20, 2),
        "peak, GiB": round(peak / 2**20, 2),
        "largest influence": f"{float(largest):.1e}",
        "median error bar": f"{float(found.leave_one_out_error.median()):.1e}",
    }
    settings = {"queries": QUERIES, "tolerance": TOL, "kernel": f"exponential, {TAU}, unit diagonal", "ridge": RIDGE}
    report("influence_at_scale", settings, [row], "`python benchmarks/influence_at_scale.py`")


if __name__ == "__main__":
    main()
