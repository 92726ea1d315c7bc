"""Networks trained on a few digits, which two of these claims measure."""

from __future__ import annotations

import torch

from ridgeformer import datasets
from ridgeformer.kernels import ReluNTK
from ridgeformer.regime import Architecture, Measurement, Problem, Training, measure, problem_from
from ridgeformer.regime.curvature import stable_rate
from ridgeformer.seeds import torch_generator

__all__ = ["EPOCHS", "ROWS", "SEEDS", "means", "three_or_eight", "train_at"]

ROWS, EPOCHS, SEEDS = 60, 40, 3


def three_or_eight() -> Problem:
    """Return digits 3 and 8: 60 rows to train on, 60 to test on, of unit length, targets +-1."""
    return problem_from(datasets.load("digits"), rows=ROWS, test_rows=ROWS, seed=0, classes=("3", "8"))


def train_at(problem: Problem, architecture: Architecture, widths: tuple[int, ...]) -> list[list[Measurement]]:
    """Return what is measured at each width for each seed, after full-batch gradient descent without penalty.

    The rate is half of what is stable for the limit kernel, the same at every width.
    """
    shape = architecture.build(problem.X, 1, 1, torch_generator(0, "shape"))
    largest = float(torch.linalg.eigvalsh(ReluNTK()(shape.features(problem.X)))[-1])
    how = Training("descent", rate=stable_rate(largest, problem.y, "mse"), epochs=EPOCHS, l2=0.0)
    return [
        [
            measure(problem, architecture, how, width=m, seed=s, ridge=1.0, linearise=False, dtype=torch.float32)
            for s in range(SEEDS)
        ]
        for m in widths
    ]


def means(measured: list[list[Measurement]]) -> tuple[float, ...]:
    """Return, for each width, the mean relative distance to the limit kernel's predictor at the same training time."""
    return tuple(sum(_away(one) for one in seeds) / len(seeds) for seeds in measured)


def _away(one: Measurement) -> float:
    return float("nan") if one.to_ntk is None else one.to_ntk.relative
