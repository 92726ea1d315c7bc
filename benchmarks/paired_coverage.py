"""How often intervals for a difference of two accuracies hold it, where classes are rare and count alike.

Two methods are compared on the same cases. In each class a case is a win, a loss or neither, with the probabilities
given; the difference of balanced accuracies is the mean over classes of wins minus losses. Also counted: how often a
true difference of 0 is called significant, and the interval of `compare_paired`, where every case counts alike.

Usage: python benchmarks/paired_coverage.py
"""

from __future__ import annotations

import numpy as np
from harness import report
from numpy.typing import NDArray
from scipy.stats import norm

from ridgeformer.core.seeds import numpy_generator
from ridgeformer.core.statistics import by_class_interval, compare_paired

SAMPLES = 1000
LEVELS = (0.95, 1 - 0.05 / 7)
"""One comparison, and one of the seven that the first sentence of an audit stands on."""

RARE, FREQUENT = (3, 10, 30, 100), 300
RATES = ((0.0, 0.0), (0.02, 0.02), (0.1, 0.1), (0.3, 0.3), (0.05, 0.0), (0.3, 0.05), (0.6, 0.1))
"""Probabilities of a win and of a loss in the rare class; in the frequent one both are a tenth of these."""


def agresti_min(
    wins: NDArray[np.float64], losses: NDArray[np.float64], n: NDArray[np.int64], level: float
) -> tuple[float, float]:
    """Return the normal interval with half a win and half a loss added in each class, around the raw difference."""
    m, w, b = n + 2, wins + 0.5, losses + 0.5
    variance = float((((w + b) / m - ((w - b) / m) ** 2) / m).sum()) / len(n) ** 2
    lead, half = float(((wins - losses) / n).mean()), float(norm.ppf((1 + level) / 2)) * variance**0.5
    return lead - half, lead + half


def newcombe(
    wins: NDArray[np.float64], losses: NDArray[np.float64], n: NDArray[np.int64], level: float
) -> tuple[float, float]:
    """Return the interval that adds up Wilson's intervals of wins and losses in the same way."""
    z, counts = float(norm.ppf((1 + level) / 2)), np.stack([wins, losses])
    rates = counts / n
    centre, half = rates + z * z / (2 * n), z * np.sqrt(rates * (1 - rates) / n + z * z / (4 * n * n))
    down, up = (rates - (centre - half) / (1 + z * z / n)), ((centre + half) / (1 + z * z / n) - rates)
    lead = float((rates[0] - rates[1]).mean())
    return (
        lead - float((down[0] ** 2 + up[1] ** 2).sum()) ** 0.5 / len(n),
        lead + float((up[0] ** 2 + down[1] ** 2).sum()) ** 0.5 / len(n),
    )


def main() -> None:
    """Simulate every size of the rare class and every pair of rates."""
    rows = []
    for level in LEVELS:
        for rare in RARE:
            n = np.array([rare, FREQUENT])
            held, called = {"by class": [], "Newcombe": [], "Agresti-Min": [], "alike": []}, []
            for win, loss in RATES:
                generator = numpy_generator(0, "paired coverage", rare, f"{win} {loss}")
                chances = [(win, loss, 1 - win - loss), (win / 10, loss / 10, 1 - (win + loss) / 10)]
                truth = np.mean([one[0] - one[1] for one in chances])
                whole = sum(size * (one[0] - one[1]) for size, one in zip(n, chances, strict=True)) / n.sum()
                counts = [generator.multinomial(size, one, SAMPLES) for size, one in zip(n, chances, strict=True)]
                inside = np.zeros((4, SAMPLES))
                for k, (first, second) in enumerate(zip(*counts, strict=True)):
                    wins, losses = (np.array([first[j], second[j]], dtype=float) for j in (0, 1))
                    for row, (low, high) in enumerate(
                        (
                            by_class_interval(wins, losses, n, level),
                            newcombe(wins, losses, n, level),
                            agresti_min(wins, losses, n, level),
                            _all_alike(wins, losses, n, level),
                        )
                    ):
                        inside[row, k] = low <= (whole if row == 3 else truth) <= high
                for row, name in enumerate(held):
                    held[name].append(inside[row].mean())
                if win == loss:
                    called.append(1 - inside[0].mean())
            rows.append(
                {"stated %": f"{100 * level:.2f}", "rare rows": rare, "frequent rows": FREQUENT}
                | {f"{name}: least %": f"{100 * min(found):.1f}" for name, found in held.items()}
                | {f"{name}: mean %": f"{100 * float(np.mean(found)):.1f}" for name, found in held.items()}
                | {"by class: called different though equal, most %": f"{100 * max(called):.2f}"}
            )
    settings = {"samples": SAMPLES, "rates of win and loss in the rare class": "; ".join(map(str, RATES))}
    settings["in the frequent class"] = "a tenth of these"
    report("paired_coverage", settings, rows, "`python benchmarks/paired_coverage.py`")


def _all_alike(
    wins: NDArray[np.float64], losses: NDArray[np.float64], n: NDArray[np.int64], level: float
) -> tuple[float, float]:
    won, lost = int(wins.sum()), int(losses.sum())
    scores = np.zeros((2, int(n.sum())))
    scores[0, :won] = 1
    scores[1, won : won + lost] = 1
    found = compare_paired(scores[0], scores[1], level=level)
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


if __name__ == "__main__":
    main()
