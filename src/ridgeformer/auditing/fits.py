"""The certified fit, and the baselines it has to beat."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.auditing.settings import Settings
from ridgeformer.core.statistics import Paired, compare_paired, mean_interval, proportion_interval
from ridgeformer.datasets import Split
from ridgeformer.estimators import NadarayaWatsonRegressor
from ridgeformer.kernels import DotProduct, mean_square_length
from ridgeformer.solving import Fit, solve
from ridgeformer.solving.selection import Chosen, GridChoice, choose_exponential, choose_ridge, search_grid

__all__ = ["Certified", "Scored", "certified_fit", "constant", "linear_ridge", "nadaraya_watson"]


@dataclass(frozen=True)
class Scored:
    """One predictor: what it is, what was chosen for it, how well it does.

    Scores are accuracies for classes and R^2 for regression. `temperature` and `ridge` were chosen by
    leave-one-out error on the training rows (the largest ridge within one standard error of the best); the
    test rows had no say. Grids are widened while a choice sits on their edge, for every method alike; `on_edge` says
    that one still does at the limit. The test score is the mean of `row_scores`, one a test row.
    """

    name: str
    what: str
    test_score: float
    train_score: float
    temperature: float | None
    ridge: float | None
    on_edge: bool
    seconds: float
    row_scores: NDArray[np.float64] = field(repr=False)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the test score over draws of as many test rows: exact for classes, else Student's t."""
        if np.isin(self.row_scores, (0, 1)).all():
            return proportion_interval(int(self.row_scores.sum()), len(self.row_scores))
        low, high = mean_interval(self.row_scores)
        return (self.test_score, self.test_score) if low is None or high is None else (low, high)

    def compare(self, other: Scored) -> Paired:
        """Compare the test scores with another's, row by row."""
        return compare_paired(self.row_scores, other.row_scores)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        facts = {key: value for key, value in vars(self).items() if key != "row_scores"}
        return {**facts, "interval": list(self.interval)}


@dataclass(frozen=True, eq=False)
class Certified:
    """Kernel ridge regression with the exponential kernel, and how far it can be from the exact answer.

    Attributes:
        scored: Scores and choices.
        fit: The direct solution.
        outputs: Its predictions at the held-out rows.
        worst_bound: Largest bound on |f - f*| over the test rows and outputs.
        typical_output: Root mean square of the test outputs, to compare it with.
        safe_decisions: Share of test rows whose predicted class provably is the exact solution's, or None.
    """

    scored: Scored
    fit: Fit
    outputs: Tensor
    worst_bound: float
    typical_output: float
    safe_decisions: float | None


def certified_fit(data: Split, settings: Settings) -> Certified:
    """Choose temperature and ridge by leave-one-out, solve directly, bound the error at every held-out row."""
    begin = time.perf_counter()
    kernel, chosen = choose_exponential(data.X, data.y, settings.temperatures, settings.ridges, queries=data.Xt)
    fit = solve(kernel, data.X, data.y, chosen.ridge, algorithm="direct")
    outputs, bound = fit.predict(data.Xt), fit.prediction_bound(data.Xt)
    what = "exponential kernel: the fixed point of a deep softmax transformer"
    return Certified(
        scored=_score(data, "Kernel ridge regression", what, fit.predict, begin, kernel.temperature, chosen),
        fit=fit,
        outputs=outputs,
        worst_bound=float(bound.max()),
        typical_output=float(outputs.square().mean().sqrt()),
        safe_decisions=_safe_decisions(outputs + data.mean, bound) if data.labels is not None else None,
    )


def linear_ridge(data: Split, settings: Settings) -> Scored:
    """Ridge regression on the features themselves: what linear attention solves."""
    begin = time.perf_counter()
    chosen = choose_ridge(DotProduct(), data.X, data.y, settings.ridges)
    fit = solve(DotProduct(), data.X, data.y, chosen.ridge, tol=1e-6)
    what = "dot-product kernel: linear attention"
    return _score(data, "Linear ridge regression", what, fit.predict, begin, None, chosen)


def nadaraya_watson(data: Split, settings: Settings) -> Scored:
    """One softmax head, its temperature chosen by leave-one-out as well."""
    begin = time.perf_counter()
    length = mean_square_length(data.X)

    def error(temperature: float) -> float:
        """Return the mean squared error of each row's target by attention to all other rows."""
        logits = data.X @ data.X.T / temperature
        logits.fill_diagonal_(-torch.inf)
        return float((data.y - logits.softmax(dim=1) @ data.y).square().mean())

    found = search_grid(settings.temperatures, lambda taus: data.X.new_tensor([error(tau * length) for tau in taus]))
    temperature = found.value * length
    model = NadarayaWatsonRegressor(temperature=temperature).fit(data.X.numpy(), data.y.numpy())

    def predict(X: Tensor) -> Tensor:
        return torch.from_numpy(model.predict(X.numpy())).reshape(len(X), -1)

    return _score(data, "Nadaraya-Watson", "one softmax attention head", predict, begin, temperature, found)


def constant(data: Split) -> Scored:
    """The training mean, or the commonest class, whatever the row: what any fit must beat."""

    def predict(X: Tensor) -> Tensor:
        return data.y.new_zeros(len(X), data.y.shape[1])

    what = "the mean of the targets, or the commonest class"
    return _score(data, "Constant", what, predict, time.perf_counter(), None, None)


def _score(
    data: Split,
    name: str,
    what: str,
    predict: Callable[[Tensor], Tensor],
    begin: float,
    temperature: float | None,
    chosen: Chosen | GridChoice | None,
) -> Scored:
    rows = data.row_scores(predict(data.Xt))
    return Scored(
        name=name,
        what=what,
        test_score=float(rows.mean()),
        train_score=data.score(predict(data.X), train=True),
        temperature=temperature,
        ridge=chosen.ridge if isinstance(chosen, Chosen) else None,
        on_edge=chosen is not None and chosen.on_edge,
        seconds=time.perf_counter() - begin,
        row_scores=rows.numpy(),
    )


def _safe_decisions(outputs: Tensor, bound: Tensor) -> float:
    """Return the share of rows whose leading output stays ahead when every output moves by its bound."""
    leader = outputs.argmax(1, keepdim=True)
    low = (outputs - bound).gather(1, leader)
    others = (outputs + bound).scatter(1, leader, -torch.inf)
    return float((low[:, 0] > others.max(1).values).double().mean())
