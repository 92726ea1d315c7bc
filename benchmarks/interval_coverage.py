"""How often 95 % intervals of a mean over a few seeds hold it: Student's t, percentile bootstrap, bootstrap-t.

Usage: python benchmarks/interval_coverage.py
"""

from __future__ import annotations

import numpy as np
from harness import report
from numpy.typing import NDArray

from ridgeformer.core.seeds import numpy_generator
from ridgeformer.core.statistics import LEVEL, mean_interval

SAMPLES, RESAMPLES, SEEDS = 4000, 1000, (3, 5, 8, 10, 20)
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
MEANS = {"normal": 0.0, "uniform": 0.5, "exponential": 1.0, "lognormal": float(np.exp(0.5)), "counts": 0.1}
"""Distributions and their means; counts are fractions of ten cases."""


def draw(name: str, n: int) -> NDArray[np.float64]:
    """Return samples of n values, one a row."""
    generator = numpy_generator(0, "coverage", name, n)
    if name == "counts":
        return generator.binomial(10, MEANS[name], size=(SAMPLES, n)) / 10
    return np.asarray(getattr(generator, name)(size=(SAMPLES, n)))


def bootstraps(values: NDArray[np.float64], generator: np.random.Generator) -> tuple[tuple[float, float], ...]:
    """Return the percentile and the bootstrap-t interval; resamples without spread are left out of the latter."""
    drawn = values[generator.integers(values.size, size=(RESAMPLES, values.size))]
    means, errors = drawn.mean(1), drawn.std(1, ddof=1)
    low, high = np.quantile(means, TAILS)
    spread = errors > 1e-12
    if not spread.any():
        return (low, high), (low, high)
    ends = np.quantile((means - values.mean())[spread] / errors[spread], TAILS) * values.std(ddof=1)
    return (low, high), (values.mean() - ends[1], values.mean() - ends[0])


def main() -> None:
    """Count, for every distribution and number of seeds."""
    rows = []
    for name, truth in MEANS.items():
        for n in SEEDS:
            generator = numpy_generator(0, "resampling", name, n)
            held = np.zeros(3)
            for values in draw(name, n):
                low, high = mean_interval(values)
                assert low is not None
                assert high is not None
                intervals = ((low, high), *bootstraps(values, generator))
                held += [low <= truth <= high for low, high in intervals]
            shares = [f"{100 * share:.1f}" for share in held / SAMPLES]
            heads = ("Student's t %", "percentile bootstrap %", "bootstrap-t %")
            rows.append({"values": name, "seeds": n} | dict(zip(heads, shares, strict=True)))
    settings = {
        "samples": SAMPLES,
        "resamples": RESAMPLES,
        "stated coverage": LEVEL,
        "counts": "of 10 at a rate of 0.1",
    }
    report("interval_coverage", settings, rows, "`python benchmarks/interval_coverage.py`")


if __name__ == "__main__":
    main()
