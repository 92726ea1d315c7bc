"""The certified fit, and the baselines it has to beat."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.auditing.settings import Settings
from ridgeformer.core.statistics import Paired, compare_paired, mean_interval, proportion_interval
from ridgeformer.datasets import Split
from ridgeformer.estimators import NadarayaWatsonRegressor
from ridgeformer.kernels import DotProduct, Exponential, mean_square_length
from ridgeformer.solving import fit as solved
from ridgeformer.solving import solve
from ridgeformer.solving.selection import choose_kernel, choose_ridge, search_grid

__all__ = ["Certified", "Fit", "certified_fit", "constant", "linear_ridge", "nadaraya_watson"]


@dataclass(frozen=True)
class Fit:
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

    def compare(self, other: Fit) -> Paired:
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
        fit: Scores and choices.
        solution: The direct solution.
        K: The kernel matrix of the training rows.
        worst_bound: Largest bound on |f - f*| over the test rows and outputs.
        typical_output: Root mean square of the test outputs, to compare it with.
        safe_decisions: Share of test rows whose predicted class provably is the exact solution's, or None.
    """

    fit: Fit
    solution: solved.Fit
    K: Tensor
    worst_bound: float
    typical_output: float
    safe_decisions: float | None


def certified_fit(data: Split, settings: Settings) -> Certified:
    """Choose temperature and ridge by leave-one-out, solve directly, bound the error at every test row."""
    begin = time.perf_counter()
    length, everything = mean_square_length(data.X), torch.cat([data.X, data.Xt])
    chosen = choose_kernel(
        lambda tau: _scaled(Exponential(tau * length), everything),
        data.X,
        data.y,
        settings.temperatures,
        settings.ridges,
    )
    kernel, ridge, on_edge = cast(Exponential, chosen.kernel), chosen.ridge, chosen.on_edge
    solution = solve(kernel, data.X, data.y, ridge)
    outputs, bound = solution.predict(data.Xt), solution.prediction_bound(data.Xt)
    fit = Fit(
        name="Kernel ridge regression",
        what="exponential kernel: the fixed point of a deep softmax transformer",
        test_score=data.score(outputs),
        train_score=data.score(solution.predict(data.X), train=True),
        temperature=kernel.temperature,
        ridge=ridge,
        on_edge=on_edge,
        seconds=time.perf_counter() - begin,
        row_scores=data.row_scores(outputs).numpy(),
    )
    return Certified(
        fit=fit,
        solution=solution,
        K=kernel(data.X),
        worst_bound=float(bound.max()),
        typical_output=float(outputs.square().mean().sqrt()),
        safe_decisions=_safe_decisions(outputs + data.mean, bound) if data.labels is not None else None,
    )


def linear_ridge(data: Split, settings: Settings) -> Fit:
    """Ridge regression on the features themselves: what linear attention solves."""
    begin = time.perf_counter()
    chosen = choose_ridge(DotProduct(), data.X, data.y, settings.ridges)
    ridge, on_edge = chosen.ridge, chosen.on_edge
    solution = solve(DotProduct(), data.X, data.y, ridge, tol=1e-6)
    what = "dot-product kernel: linear attention"
    return _fit(data, "Linear ridge regression", what, solution.predict, begin, ridge=ridge, on_edge=on_edge)


def nadaraya_watson(data: Split, settings: Settings) -> Fit:
    """One softmax head, its temperature chosen by leave-one-out as well."""
    begin = time.perf_counter()
    length = mean_square_length(data.X)
    found = search_grid(
        settings.temperatures, lambda taus: data.X.new_tensor([_smoother_error(tau * length, data) for tau in taus])
    )
    best = found.value * length
    model = NadarayaWatsonRegressor(temperature=best).fit(data.X.numpy(), data.y.numpy())

    def predict(X: Tensor) -> Tensor:
        return torch.from_numpy(model.predict(X.numpy())).reshape(len(X), -1)

    what = "one softmax attention head"
    return _fit(data, "Nadaraya-Watson", what, predict, begin, temperature=best, on_edge=found.on_edge)


def constant(data: Split) -> Fit:
    """The training mean, or the commonest class, whatever the row: what any fit must beat."""
    begin = time.perf_counter()

    def predict(X: Tensor) -> Tensor:
        return data.y.new_zeros(len(X), data.y.shape[1])

    return _fit(data, "Constant", "the mean of the targets, or the commonest class", predict, begin)


def _fit(
    data: Split,
    name: str,
    what: str,
    predict: Callable[[Tensor], Tensor],
    begin: float,
    temperature: float | None = None,
    ridge: float | None = None,
    on_edge: bool = False,
) -> Fit:
    rows = data.row_scores(predict(data.Xt))
    train = data.score(predict(data.X), train=True)
    seconds = time.perf_counter() - begin
    return Fit(name, what, float(rows.mean()), train, temperature, ridge, on_edge, seconds, rows.numpy())


def _scaled(kernel: Exponential, X: Tensor) -> Exponential:
    """Return the kernel with its largest diagonal entry on X scaled to one, so that ridges compare.

    Raises:
        LogitRangeError: rows so different in length that some would vanish beside others.
    """
    kernel.within_range(X)
    return replace(kernel, log_scale=kernel.largest_logit(X))


def _smoother_error(temperature: float, data: Split) -> float:
    """Return the mean squared error of each row's target by attention to all other rows."""
    logits = data.X @ data.X.T / temperature
    logits.fill_diagonal_(-torch.inf)
    return float((data.y - logits.softmax(dim=1) @ data.y).square().mean())


def _safe_decisions(outputs: Tensor, bound: Tensor) -> float:
    """Return the share of rows whose leading output stays ahead when every output moves by its bound."""
    leader = outputs.argmax(1, keepdim=True)
    low = (outputs - bound).gather(1, leader)
    others = (outputs + bound).scatter(1, leader, -torch.inf)
    return float((low[:, 0] > others.max(1).values).double().mean())
