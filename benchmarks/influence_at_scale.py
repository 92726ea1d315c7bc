"""Influences of all 60,000 rows of MNIST under the exponential kernel, for ten queries: time and peak memory.

Run: python benchmarks/influence_at_scale.py [rows]; MNIST is fetched before by `ridgeformer data fetch mnist`.
"""

from __future__ import annotations

import resource
import sys
import time

from harness import report

from ridgeformer import datasets
from ridgeformer.influence import nystrom_influence
from ridgeformer.kernels import Exponential
from ridgeformer.regime import problem_from

QUERIES, RIDGE, TAU, RANK = 10, 1e-2, 0.25, 500


def main() -> None:
    """Sketch K once, without ever holding it; the data themselves are counted in the memory."""
    dataset = datasets.load("mnist")
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else dataset.n - QUERIES
    p = problem_from(dataset, rows=rows, test_rows=QUERIES, seed=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    found = nystrom_influence(Exponential(TAU), p.X, p.y, p.Xt, RIDGE, rank=RANK)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row = {
        "rows": rows,
        "seconds": round(seconds),
        "data, GiB": round(before / 2**20, 2),
        "peak, GiB": round(peak / 2**20, 2),
        "median error bar": f"{float((found.leave_one_out_error / found.leave_one_out.abs()).median()):.1e}",
    }
    settings = {"queries": QUERIES, "rank": RANK, "kernel": f"exponential, {TAU}", "ridge": RIDGE}
    report("influence_at_scale", settings, [row], "`python benchmarks/influence_at_scale.py`")


if __name__ == "__main__":
    main()
