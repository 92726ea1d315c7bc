"""How often the error bars of the estimators of influence hold the truth, on MNIST or another dataset.

Run: python benchmarks/influence_coverage.py [dataset]; MNIST is fetched before by `ridgeformer data fetch mnist`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from harness import report

from ridgeformer import datasets
from ridgeformer.influence import Influence, influence, nystrom_influence, pcg_influence, stochastic_influence
from ridgeformer.kernels import Exponential
from ridgeformer.regime import problem_from

ROWS, QUERIES, RIDGE, TAU, RANK, SEEDS, ASKED, CONFIDENCE = 1000, 20, 1e-2, 0.25, 150, 3, 50, 0.95
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
    p, kernel = problem_from(datasets.load(data), rows=ROWS, test_rows=QUERIES, seed=0), Exponential(TAU)
    given = (kernel, p.X, p.y, p.Xt, RIDGE)
    truth = influence(*given)
    estimators: dict[str, tuple[object, Callable[[int], Influence]]] = {
        "nystrom": (CONFIDENCE, lambda s: nystrom_influence(*given, rank=RANK, confidence=CONFIDENCE, seed=s)),
        "nystrom, proved": (PROVED, lambda s: nystrom_influence(*given, rank=RANK, confidence=None, seed=s)),
        "stochastic": (CONFIDENCE, lambda s: stochastic_influence(*given, rank=RANK, confidence=CONFIDENCE, seed=s)),
        f"pcg, {ASKED} rows": (PROVED, lambda s: pcg_influence(*given, rank=RANK, rows=list(range(ASKED)), seed=s)),
    }
    rows = []
    for name, (asked, estimate) in estimators.items():
        drawn = [estimate(seed) for seed in range(SEEDS)]
        held = {part: [coverage(found, truth, part) for found in drawn] for part in ("diagonal", "alpha", "weights")}
        held["leave_one_out"] = [coverage(found, truth, "leave_one_out") for found in drawn]
        one = drawn[0]
        exact = truth.leave_one_out if one.rows is None else truth.leave_one_out[one.rows]
        sizes = {
            "error": float((one.leave_one_out - exact).norm() / exact.norm()),
            "error bar": float(one.leave_one_out_error.norm() / exact.norm()),
        }
        counts = {part: f"{min(shares):.4f}" for part, shares in held.items()}
        rows.append({"estimator": name, "asked": asked} | counts | {k: f"{v:.1e}" for k, v in sizes.items()})
    settings = {"data": data, "rows": ROWS, "queries": QUERIES, "kernel": f"exponential, {TAU}", "ridge": RIDGE}
    report("influence_coverage", settings | {"rank": RANK, "seeds": SEEDS, "shown": "the worst seed"}, rows)


if __name__ == "__main__":
    main()
