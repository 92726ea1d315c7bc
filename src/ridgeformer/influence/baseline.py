"""A fit before its training rows are moved, the objectives of an attacker, and how much the influences changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, exp

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

from ridgeformer.core.checks import ArrayLike, as_targets, positive
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.influence.attacks import Objective
from ridgeformer.influence.exact import Influence, Loss, check_measure, influence, rows_behind, score
from ridgeformer.influence.features import Features
from ridgeformer.kernels import Kernel
from ridgeformer.solving import Fit, solve

__all__ = ["Comparison", "compare", "rank_correlations"]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Influences before and after. "Aggregated" is of the mean over queries, "pair" of single (point, query) pairs.

    Attributes:
        flips_top: share of the top set whose aggregated influence changed sign.
        flips_all: the same of all training points. Near-zero influences flip for free (claim I3).
        pair_flips_top: share of the pairs (top point, query) that changed sign.
        pair_flips_all: the same of all pairs.
        spearman: rank correlation of the aggregated influences; NaN if they are all equal.
        pair_spearman: the mean over queries of theirs.
        overlap: share of the top set that is in the top set after.
        pair_overlap: the mean over queries of the overlap of their own top sets of the same size.
        flips_per_query: share of the top set that changed sign, for each query, (q,).
    """

    flips_top: float
    flips_all: float
    pair_flips_top: float
    pair_flips_all: float
    spearman: float
    pair_spearman: float
    overlap: float
    pair_overlap: float
    flips_per_query: Tensor = field(repr=False)


def compare(before: Float[Tensor, "n q"], after: Float[Tensor, "n q"], top: Tensor) -> Comparison:
    """Compare two tables of influence on the rows `top` and on all.

    Example:
        >>> before = torch.tensor([[3.0], [-2.0], [1.0]])
        >>> found = compare(before, torch.tensor([[-3.0], [-2.0], [1.0]]), torch.tensor([0]))
        >>> found.flips_top, round(found.flips_all, 3), found.overlap
        (1.0, 0.333, 1.0)
    """
    mean, mean_after = before.mean(1), after.mean(1)
    flipped = (before.sign() * after.sign() < 0).double()
    flipped_mean = (mean.sign() * mean_after.sign() < 0).double()
    return Comparison(
        flips_top=float(flipped_mean[top].mean()),
        flips_all=float(flipped_mean.mean()),
        pair_flips_top=float(flipped[top].mean()),
        pair_flips_all=float(flipped.mean()),
        spearman=float(rank_correlations(mean[:, None], mean_after[:, None])[0]),
        pair_spearman=float(rank_correlations(before, after).mean()),
        overlap=_overlap(mean[:, None], mean_after[:, None], len(top)),
        pair_overlap=_overlap(before, after, len(top)),
        flips_per_query=flipped[top].mean(0),
    )


def top_rows(influences: Float[Tensor, " n"], count: int) -> Tensor:
    """Return the rows of largest absolute influence, largest first.

    Example:
        >>> top_rows(torch.tensor([1.0, -3.0, 2.0]), 2)
        tensor([1, 2])
    """
    return influences.abs().topk(count).indices


def rank_correlations(one: Float[Tensor, "n q"], other: Float[Tensor, "n q"]) -> NDArray[np.float64]:
    """Return Spearman's rho of every column, ties at their mean rank; NaN where one side is constant.

    Example:
        >>> rank_correlations(torch.tensor([[1.0], [2.0], [9.0]]), torch.tensor([[3.0], [2.0], [1.0]]))
        array([-1.])
    """
    left, right = (rankdata(side.cpu().numpy(), axis=0) - (len(side) + 1) / 2 for side in (one, other))
    size = np.sqrt((left**2).sum(0) * (right**2).sum(0))
    return np.where(size > 0, (left * right).sum(0) / np.where(size > 0, size, 1.0), np.nan)


def _overlap(one: Float[Tensor, "n q"], other: Float[Tensor, "n q"], count: int) -> float:
    """Return, the mean over columns, the share of the top set of one that is in that of the other."""
    inside = [torch.zeros_like(side, dtype=torch.bool).scatter(0, side.abs().topk(count, dim=0).indices, True)
              for side in (one, other)]  # fmt: skip
    return float((inside[0] & inside[1]).sum()) / (count * one.shape[1])


def differentiable_influence(
    kernel: Kernel, X: Float[Tensor, "n d"], y: Float[Tensor, "n outputs"], Xq: Float[Tensor, "q d"], ridge: float
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


def training_loss(fit: Fit, Xq: Tensor, features: Features, rows: Tensor, loss: Loss) -> Objective:
    """Return the loss of the attacked rows under the model as it was fitted: an attack on a trained model.

    The model, f(x) = k(phi(x), Phi)'alpha, is held; what the kernel sees of the rows moves with them.
    """
    alpha = fit.exact_alpha
    targets = fit.y.reshape(alpha.shape)[rows].to(alpha)

    def objective(X: Tensor) -> Tensor:
        seen, _ = features(X, Xq)
        return loss(fit.kernel.product(seen[rows], fit.X, alpha), targets)

    return objective


@dataclass(frozen=True, eq=False)
class Baseline:
    """A fit, the rows and queries it sees through features, and its influences.

    `yq` is (q, outputs), `before` is the influence of every training row on every query, (n, q), and `share` is tau.
    """

    fit: Fit
    X: Tensor
    Xq: Tensor
    yq: Tensor
    features: Features
    measure: str
    before: Tensor
    share: float

    @property
    def y(self) -> Tensor:
        """The targets, (n, outputs)."""
        return self.fit.y.reshape(len(self.X), -1).to(self.X)

    def top(self, most: int | None = None) -> Tensor:
        """Return the share of rows of largest absolute influence, the mean over queries; `most` at most."""
        count = ceil(self.share * len(self.X))
        return top_rows(self.before.mean(1), count if most is None else min(count, most))

    def refit(self, X: Tensor, kernel: Kernel | None = None, kept: Tensor | None = None) -> tuple[Fit, Tensor]:
        """Return the fit to other rows, by another kernel if given, and its influences; `kept` says whose they are."""
        y = self.y if kept is None else self.y[kept]
        rows, queries = self.features(X, self.Xq)
        unit = 1.0 if kernel is None else exp(self.fit.log_scale)  # another kernel has not been rescaled
        again = solve(kernel or self.fit.kernel, rows, y, unit * self.fit.ridge, algorithm="direct")
        return again, score(influence(again, queries), self.yq, self.measure)

    def reversed_influence(self, rows: Tensor) -> Objective:
        """Return minus the influences of these rows, each over what it was: the adaptive attack's objective.

        The fit follows the rows. Influences are means over the queries.
        """
        scale = self.before.mean(1)[rows]
        scale = scale.where(scale != 0, 1.0)

        def objective(X: Tensor) -> Tensor:
            seen, queries = self.features(X, self.Xq)
            moved = differentiable_influence(self.fit.kernel, seen, self.y, queries, self.fit.ridge)
            return -score(moved, self.yq, self.measure).mean(1)[rows] / scale

        return objective


def baseline(
    fit: Fit,
    Xq: ArrayLike,
    yq: ArrayLike,
    tau: float,
    measure: str = "true_class",
    X: ArrayLike | None = None,
    features: Features | None = None,
) -> Baseline:
    """Check everything, and compute every influence; arguments as for `malleability`.

    Example:
        >>> from ridgeformer.kernels import Exponential
        >>> fit = solve(Exponential(1.0), [[0.0], [1.0], [2.0], [3.0]], [-1, -1, 1, 1], 0.1, algorithm="direct")
        >>> baseline(fit, [[1.4]], [1], 0.5).top()
        tensor([2, 1])
    """
    why = "a fraction of the training rows in (0, 1]"
    if (share := positive(tau, "tau", why)) > 1:
        raise InputError(f"tau is {share:g}; {why} was expected.")
    X, Xq, features = rows_behind(fit, Xq, X, features)
    y, yq = fit.y.reshape(len(X), -1).to(X), as_targets(yq, Xq, "yq").detach().reshape(len(Xq), -1).to(X)
    if y.shape[1] != yq.shape[1]:
        raise ShapeError(f"y has {y.shape[1]} outputs and yq has {yq.shape[1]}: code both alike.")
    check_measure(measure, y, yq)
    _ = fit.exact_alpha  # refuses a fit on centres: rows that move change its kernel in another way
    before = score(influence(fit, features(X, Xq)[1]), yq, measure)
    return Baseline(fit, X, Xq, yq, features, measure, before, share)
