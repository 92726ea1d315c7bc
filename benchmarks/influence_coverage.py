"""How often the error bars of the estimators of influence hold the truth, on MNIST or another dataset.

Run: python benchmarks/influence_coverage.py [dataset]; MNIST is fetched before by `ridgeformer data fetch mnist`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from harness import report

from ridgeformer import datasets
from ridgeformer.datasets import Split
from ridgeformer.influence import Influence, influence, nystrom_influence, pcg_influence, stochastic_influence
from ridgeformer.kernels import Exponential
from ridgeformer.solving import solve

ROWS, QUERIES, TAU, RANK, SEEDS, ASKED, CONFIDENCE = 1000, 20, 0.25, 300, 3, 50, 0.95
RIDGES = (1e-2, 5.0)
"""About 2e-4 and 0.1 of the diagonal of K, which is e^(1/TAU) on unit rows."""
PROVED = "always"


def coverage(found: Influence, truth: Influence, name: str) -> float:
    """Return the share of entries within their error of the exact ones; a part in 1e9 is left to round-off."""
    exact = getattr(truth, name)
    exact = exact if found.rows is None else exact[found.rows]
    gap = (getattr(found, name) - exact).abs()
    return float((gap <= getattr(found, f"{name}_error") + 1e-9 * exact.abs()).double().mean())


def main() -> None:
    """Count over seeds of the sketch, on one draw of the rows."""
    data = sys.argv[1] if len(sys.argv) > 1 else "mnist"
    p = Split.for_networks(datasets.load(data), rows=ROWS, test_rows=QUERIES, seed=0)
    rows = []
    for ridge in RIDGES:
        given = (Exponential(TAU), p.X, p.y, p.Xt, ridge)
        truth = influence(solve(given[0], p.X, p.y, ridge, algorithm="direct"), p.Xt)
        for name, (asked, estimate) in estimators(given).items():
            drawn = [estimate(seed) for seed in range(SEEDS)]
            rows.append({"ridge": ridge, "estimator": name, "asked": asked} | counted(drawn, truth))
    settings = {"data": data, "rows": ROWS, "queries": QUERIES, "kernel": f"exponential, {TAU}", "rank": RANK}
    report(
        "influence_coverage",
        settings | {"seeds": SEEDS, "shown": "the worst seed"},
        rows,
        "`python benchmarks/influence_coverage.py`",
    )


def estimators(given: tuple[Any, ...]) -> dict[str, tuple[object, Callable[[int], Influence]]]:
    """Return every estimator with what its errors promise: a confidence, or to hold always."""
    likely = {"rank": RANK, "confidence": CONFIDENCE}
    return {
        "nystrom": (CONFIDENCE, lambda s: nystrom_influence(*given, **likely, seed=s)),
        "nystrom, proved": (PROVED, lambda s: nystrom_influence(*given, rank=RANK, confidence=None, seed=s)),
        "stochastic": (CONFIDENCE, lambda s: stochastic_influence(*given, **likely, seed=s)),
        f"pcg, {ASKED} rows": (PROVED, lambda s: pcg_influence(*given, rank=RANK, rows=list(range(ASKED)), seed=s)),
    }


def counted(drawn: list[Influence], truth: Influence) -> dict[str, str]:
    """Return the least coverage over seeds of every part, and how large errors and error bars are."""
    parts = ("diagonal", "alpha", "weights", "leave_one_out")
    held = {part: f"{min(coverage(found, truth, part) for found in drawn):.4f}" for part in parts}
    one = drawn[0]
    exact = truth.leave_one_out if one.rows is None else truth.leave_one_out[one.rows]
    error, bar = (one.leave_one_out - exact).norm(), one.leave_one_out_error.norm()
    return held | {"error": f"{float(error / exact.norm()):.1e}", "error bar": f"{float(bar / exact.norm()):.1e}"}


if __name__ == "__main__":
    main()
