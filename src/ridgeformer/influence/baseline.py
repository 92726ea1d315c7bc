"""A fit before its training rows are moved, and what an attacker of the rows wants."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import as_targets
from ridgeformer.core.errors import DtypeError, InputError, ShapeError
from ridgeformer.influence.attacks import Objective
from ridgeformer.influence.comparison import top_rows
from ridgeformer.influence.exact import as_problem, fit, influence_of
from ridgeformer.influence.features import Features, RawFeatures
from ridgeformer.influence.influences import Influence, Loss, check_measure, score
from ridgeformer.kernels import Kernel
from ridgeformer.solving import Fit

__all__ = ["Baseline", "as_share", "baseline", "differentiable_influence", "influence_reversal", "training_loss"]


def differentiable_influence(
    kernel: Kernel,
    X: Float[Tensor, "n d"],
    y: Float[Tensor, "n outputs"],
    Xq: Float[Tensor, "q d"],
    ridge: float,
) -> Influence:
    """Return what `influence` returns, with gradients in X and Xq, through the inverse itself.

    Costs O(n^3) and a few n x n matrices, going forwards and backwards.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> X = torch.tensor([[1.0], [2.0]]).double().requires_grad_()
        >>> y, Xq = torch.tensor([[1.0], [0.0]]).double(), torch.ones(1, 1).double()
        >>> differentiable_influence(DotProduct(), X, y, Xq, 1.0).leave_one_out.sum().requires_grad
        True
    """
    cross = kernel.dense(X, Xq)
    A = kernel.dense(X, X) + ridge * torch.eye(len(X), dtype=X.dtype, device=X.device)
    factor, info = torch.linalg.cholesky_ex(A)
    if int(info) != 0:
        raise InputError("K + ridge I is singular at the rows an attack arrived at: raise the ridge, or lower eps.")
    R = torch.cholesky_inverse(factor)
    alpha = R @ y
    return Influence(alpha, R @ cross, R.diagonal(), cross.T @ alpha, ridge)


def training_loss(fitted: Fit, Xq: Tensor, features: Features, rows: Tensor, loss: Loss) -> Objective:
    """Return the loss of the attacked rows under the model as it was fitted: an attack on a trained model.

    The model, f(x) = k(phi(x), Phi)'alpha, is held; what the kernel sees of the rows moves with them.
    """

    def objective(X: Tensor) -> Tensor:
        seen, _ = features(X, Xq)
        predicted = fitted.kernel.product(seen[rows], fitted.X, fitted.alpha)
        return loss(predicted, fitted.y[rows].to(predicted))

    return objective


def influence_reversal(
    fitted: Fit, Xq: Tensor, yq: Tensor, features: Features, rows: Tensor, measure: str, before: Tensor
) -> Objective:
    """Return minus the influences of the attacked rows, each over what it was: the adaptive attack's objective.

    The fit follows the rows. Influences are means over the queries, as in `before`, (n,).
    """
    y = fitted.y.to(fitted.X)
    scale = before[rows]
    scale = scale.where(scale != 0, 1.0)

    def objective(X: Tensor) -> Tensor:
        seen, queries = features(X, Xq)
        found = differentiable_influence(fitted.kernel, seen, y, queries, fitted.ridge)
        return -score(found, yq, measure).mean(1)[rows] / scale

    return objective


@dataclass(frozen=True, eq=False)
class Baseline:
    """Checked rows and targets, the fit to them, and its influences.

    Attributes:
        X, y: training rows and their targets, (n, outputs).
        Xq, yq: queries, alike.
        features: what the kernel sees of the rows.
        measure: which influence, as in `scores`.
        fitted: the fit to what the kernel sees.
        before: the influence of every training row on every query, (n, q).
        share: tau.
    """

    X: Tensor
    y: Tensor
    Xq: Tensor
    yq: Tensor
    features: Features
    measure: str
    fitted: Fit
    before: Tensor
    share: float
    kernel: Kernel
    ridge: Any

    def top(self, most: int | None = None) -> Tensor:
        """Return the share of rows of largest absolute influence, the mean over queries; `most` at most."""
        count = ceil(self.share * len(self.X))
        return top_rows(self.before.mean(1), count if most is None else min(count, most))

    def refit(self, X: Tensor, kernel: Kernel | None = None, kept: Tensor | None = None) -> tuple[Fit, Tensor]:
        """Return the fit to other rows, by another kernel if given, and its influences; `kept` says whose they are."""
        y = self.y if kept is None else self.y[kept]
        rows, queries = self.features(X, self.Xq)
        fitted = fit(kernel or self.kernel, rows, y, self.ridge)
        return fitted, score(influence_of(fitted, queries), self.yq, self.measure)

    def raised_loss(self, rows: Tensor, loss: Loss) -> Objective:
        """Return what an attack on the training loss raises at these rows, the fit held."""
        return training_loss(self.fitted, self.Xq, self.features, rows, loss)


def baseline(
    kernel: Kernel, X: Any, y: Any, Xq: Any, yq: Any, ridge: Any, tau: Any, features: Features | None, measure: str
) -> Baseline:
    """Check everything, fit once, and compute every influence; arguments as for `malleability`.

    Raises:
        InputError: tau outside (0, 1], one class only, a singular system, ...

    Example:
        >>> from ridgeformer.kernels import Exponential
        >>> rows = [[0.0], [1.0], [2.0], [3.0]]
        >>> baseline(Exponential(1.0), rows, [-1, -1, 1, 1], [[1.4]], [1], 0.1, 0.5, None, "true_class").top()
        tensor([2, 1])
    """
    share, features = as_share(tau), features or RawFeatures()
    X, y, Xq = as_problem(X, y, Xq)
    yq = as_targets(yq, Xq, "yq").detach().reshape(len(Xq), -1).to(X.dtype)
    if y.shape[1] != yq.shape[1]:
        raise ShapeError(f"y has {y.shape[1]} outputs and yq has {yq.shape[1]}: code both alike.")
    check_measure(measure, y, yq)
    rows, queries = features(X, Xq)
    fitted = fit(kernel, rows, y, ridge)
    before = score(influence_of(fitted, queries), yq, measure)
    return Baseline(X, y, Xq, yq, features, measure, fitted, before, share, kernel, ridge)


def as_share(tau: Any) -> float:
    """Return a share of the training rows in (0, 1].

    Example:
        >>> as_share("0.1")
        0.1
    """
    try:
        share = float(tau)
    except (TypeError, ValueError):
        raise DtypeError(f"tau is {tau!r}; a share of the training rows in (0, 1] was expected.") from None
    if not 0 < share <= 1:
        raise InputError(f"tau is {share:g}; a share of the training rows in (0, 1] was expected.")
    return share
