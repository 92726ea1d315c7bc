"""The certified fit, and the baselines it has to beat."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ridgeformer.auditing.prepare import Prepared
from ridgeformer.auditing.settings import Settings
from ridgeformer.estimators import NadarayaWatson
from ridgeformer.kernels import DotProduct, Exponential, Kernel, mean_square_length
from ridgeformer.solvers import Solution, solve
from ridgeformer.solvers.ridge_path import leave_one_out_path

__all__ = ["Certified", "Fit", "certified_fit", "constant", "linear_ridge", "nadaraya_watson"]

AnyKernel = TypeVar("AnyKernel", bound=Kernel)


@dataclass(frozen=True)
class Fit:
    """One predictor: what it is, what was chosen for it, how well it does.

    Scores are accuracies for classes and R^2 for regression. `temperature` and `ridge` were chosen by
    leave-one-out error on the training rows (the largest ridge within one standard error of the best); the
    test rows had no say. The test score is the mean of `row_scores`, one a test row.
    """

    name: str
    what: str
    test_score: float
    train_score: float
    temperature: float | None
    ridge: float | None
    seconds: float
    row_scores: NDArray[np.float64] = field(repr=False)

    @property
    def margin(self) -> float:
        """Half of the 95 % interval of the test score, over draws of as many test rows."""
        return _half_interval(self.row_scores)

    def lead(self, other: Fit) -> tuple[float, float]:
        """Return by how much the test score is above another's, and half of the 95 % interval of that."""
        difference = self.row_scores - other.row_scores
        return float(difference.mean()), _half_interval(difference)

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        facts = {key: value for key, value in vars(self).items() if key != "row_scores"}
        return {**facts, "margin": self.margin}


def _half_interval(values: NDArray[np.float64]) -> float:
    return 1.96 * float(values.std()) / len(values) ** 0.5


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
    solution: Solution
    K: Tensor
    worst_bound: float
    typical_output: float
    safe_decisions: float | None


def certified_fit(data: Prepared, settings: Settings) -> Certified:
    """Choose temperature and ridge by leave-one-out, solve directly, bound the error at every test row."""
    begin = time.perf_counter()
    length = mean_square_length(data.X)
    everything = torch.cat([data.X, data.Xt])
    kernels = [_scaled(Exponential(tau * length), everything) for tau in settings.temperatures]
    kernel, ridge = _choose(kernels, data, settings)
    solution = solve(kernel, data.X, data.y, ridge)
    outputs, bound = solution.predict(data.Xt), solution.prediction_bound(data.Xt)
    fit = Fit(
        name="Kernel ridge regression",
        what="exponential kernel: the fixed point of a deep softmax transformer",
        test_score=data.score(outputs),
        train_score=data.score(solution.predict(data.X), train=True),
        temperature=kernel.temperature,
        ridge=ridge,
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


def linear_ridge(data: Prepared, settings: Settings) -> Fit:
    """Ridge regression on the features themselves: what linear attention solves."""
    begin = time.perf_counter()
    kernel, ridge = _choose([DotProduct()], data, settings)
    solution = solve(kernel, data.X, data.y, ridge, tol=1e-6)
    return _fit(
        data, "Linear ridge regression", "dot-product kernel: linear attention", solution.predict, begin, ridge=ridge
    )


def nadaraya_watson(data: Prepared, settings: Settings) -> Fit:
    """One softmax head, its temperature chosen by leave-one-out as well."""
    begin = time.perf_counter()
    length = mean_square_length(data.X)
    errors = {tau * length: _smoother_error(tau * length, data) for tau in settings.temperatures}
    best = min(errors, key=errors.__getitem__)
    model = NadarayaWatson(temperature=best).fit(data.X.numpy(), data.y.numpy())

    def predict(X: Tensor) -> Tensor:
        return torch.from_numpy(model.predict(X.numpy())).reshape(len(X), -1)

    return _fit(data, "Nadaraya-Watson", "one softmax attention head", predict, begin, temperature=best)


def constant(data: Prepared) -> Fit:
    """The training mean, or the commonest class, whatever the row: what any fit must beat."""
    begin = time.perf_counter()

    def predict(X: Tensor) -> Tensor:
        return data.y.new_zeros(len(X), data.y.shape[1])

    return _fit(data, "Constant", "the mean of the targets, or the commonest class", predict, begin)


def _fit(
    data: Prepared,
    name: str,
    what: str,
    predict: Callable[[Tensor], Tensor],
    begin: float,
    temperature: float | None = None,
    ridge: float | None = None,
) -> Fit:
    rows = data.row_scores(predict(data.Xt))
    train = data.score(predict(data.X), train=True)
    return Fit(name, what, float(rows.mean()), train, temperature, ridge, time.perf_counter() - begin, rows.numpy())


def _scaled(kernel: Exponential, X: Tensor) -> Exponential:
    """Return the kernel with its largest diagonal entry on X scaled to one, so that ridges compare.

    Raises:
        LogitRangeError: rows so different in length that some would vanish beside others.
    """
    kernel.within_range(X)
    return replace(kernel, log_scale=kernel.largest_logit(X))


def _choose(kernels: Sequence[AnyKernel], data: Prepared, settings: Settings) -> tuple[AnyKernel, float]:
    """Return the kernel with the least mean squared leave-one-out error and its largest good ridge."""
    best: tuple[float, AnyKernel, float] | None = None
    for kernel in kernels:
        K = kernel(data.X)
        ridges = [ridge * float(K.diagonal().mean()) for ridge in settings.ridges]
        error, index = _largest_good_ridge(leave_one_out_path(K, data.y, ridges))
        if best is None or error < best[0]:
            best = (error, kernel, ridges[index])
    assert best is not None
    return best[1], best[2]


def _largest_good_ridge(residuals: Tensor) -> tuple[float, int]:
    """Return the least error over the ridges, and the largest ridge within one standard error of it.

    Ridges that leave-one-out cannot tell apart differ in condition number and effective dimension; the
    largest is the simplest model, and the cheapest to solve.
    """
    rows = residuals.square().mean(dim=2)
    errors = rows.mean(dim=1)
    least = int(errors.argmin())
    noise = float(rows[least].std()) / rows.shape[1] ** 0.5
    return float(errors[least]), int((errors <= errors[least] + noise).nonzero().max())


def _smoother_error(temperature: float, data: Prepared) -> float:
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
