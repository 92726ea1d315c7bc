"""Every influence of every training point, exactly, from the factor of one fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import as_matrix, as_query, as_targets
from ridgeformer.core.errors import InputError, ShapeError
from ridgeformer.influence.features import Features, RawFeatures
from ridgeformer.influence.influences import Influence
from ridgeformer.kernels import Kernel
from ridgeformer.solving import Fit, solve

__all__ = [
    "as_problem",
    "as_rows",
    "feature_change",
    "fit",
    "group_influence",
    "influence",
    "influence_of",
    "label_change",
    "leave_group_out",
    "leave_one_out",
    "prediction_gradient",
    "unit_columns",
]


def fit(kernel: Kernel, X: Any, y: Any, ridge: Any) -> Fit:
    """Solve directly, and refuse a system whose factor influences cannot be taken from.

    Raises:
        InputError: the system is singular in the precision of X, or another argument is wrong.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> fit(DotProduct(), [[1.0], [2.0]], [1.0, 0.0], ridge=1.0).alpha
        tensor([ 0.8333, -0.3333], dtype=torch.float64)
    """
    found = solve(kernel, as_matrix(X, "X").detach(), y, ridge, algorithm="direct")
    if not found.converged:
        dtype, lost = found.X.dtype, found.kernel_roundoff
        why = f"is below the round-off of K, about {lost:.1g}" if found.ridge <= lost else "is too small beside K"
        advice = "raise the ridge" + ("" if dtype == torch.float64 else ", or use float64")
        raise InputError(
            f"K + ridge I is singular in {dtype}: the ridge {found.ridge:.3g} {why}, and influences divide by what is "
            f"lost there: {advice}."
        )
    return found


def influence_of(fitted: Fit, Xq: Any) -> Influence:
    """Return every influence of every training point of a fit on every query."""
    cross, alpha = _cross(fitted, Xq), fitted.alpha.reshape(len(fitted.X), -1)
    return Influence(
        alpha,
        fitted.inverse @ cross,
        fitted.inverse_diagonal,
        cross.T @ alpha,
        fitted.ridge,
        vector=fitted.alpha.ndim == 1,
    )


def influence(kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any) -> Influence:
    """Return every influence of every training point on every query, from one factorisation.

    Holds for positive semidefinite kernels and ridge > 0; equal to refits up to round-off.

    Args:
        kernel: any kernel of `ridgeformer.kernels`, or your own `Kernel`.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs).
        Xq: query rows, (q, d).
        ridge: lambda > 0.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> found = influence(DotProduct(), [[1.0], [2.0]], [1.0, 0.0], [[1.0]], ridge=1.0)
        >>> found.leave_one_out[:, 0], found.leverage
        (tensor([ 0.1667, -0.3333], dtype=torch.float64), tensor([0.1667, 0.6667], dtype=torch.float64))
    """
    return influence_of(fit(kernel, X, y, ridge), Xq)


def leave_one_out(kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any) -> Tensor:
    """Return f(x) - f_{-i}(x), (n, q) or (n, q, outputs): what each training point adds to each prediction.

    f_{-i} is the fit without point i; no refit is made (claim I1). Arguments as for `influence`.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> leave_one_out(DotProduct(), [[1.0], [2.0]], [1.0, 0.0], [[1.0]], ridge=1.0)
        tensor([[ 0.1667], [-0.3333]], dtype=torch.float64)
    """
    return influence(kernel, X, y, Xq, ridge).leave_one_out


def leave_group_out(kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any, group: Any) -> Tensor:
    """Return f(x) - f_{-B}(x) for a group B of distinct training rows, not all of them: (q,) or (q, outputs).

    Equal to a refit without B, up to round-off: it is (R k(x))_B' (R_BB)^-1 alpha_B. Arguments as for `influence`.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> leave_group_out(DotProduct(), [[1.0], [2.0], [3.0]], [1.0, 1.0, 0.0], [[1.0]], 1.0, group=[0, 2])
        tensor([-0.2000], dtype=torch.float64)
    """
    return group_influence(fit(kernel, X, y, ridge), Xq, group)


def group_influence(fitted: Fit, Xq: Any, group: Any) -> Tensor:
    """Return `leave_group_out` for a fit that is at hand: O(n^2 |B|) operations a group."""
    n = len(fitted.X)
    rows = as_rows(group, n, fitted.X.device)
    if len(rows) == n:
        raise InputError(f"the group holds all {n} rows; leave at least one to fit.")
    columns = fitted.inverse @ unit_columns(fitted.X, rows)
    alpha = fitted.alpha.reshape(n, -1)
    change = (columns.T @ _cross(fitted, Xq)).T @ torch.linalg.solve(columns[rows], alpha[rows])
    return change[:, 0] if fitted.alpha.ndim == 1 else change


def label_change(kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any, new_y: Any) -> Tensor:
    """Return, for each point i, how f(x) changes when y_i alone becomes new_y_i: (n, q) or (n, q, outputs).

    It is (R k(x))_i (new_y_i - y_i). Several labels changed at once add up exactly, so the effect of changing
    a set of them is the sum over the set. Arguments as for `influence`; `new_y` is shaped like `y`.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> label_change(DotProduct(), [[1.0], [2.0]], [1.0, 0.0], [[1.0]], 1.0, new_y=[1.0, 3.0])
        tensor([[0.], [1.]], dtype=torch.float64)
    """
    X = as_matrix(X, "X").detach()
    y, new_y = as_targets(y, X), as_targets(new_y, X, "new_y")
    if y.shape != new_y.shape:
        raise ShapeError(f"new_y has shape {tuple(new_y.shape)} and y has {tuple(y.shape)}: give the same shape.")
    found = influence(kernel, X, y, Xq, ridge)
    change = (new_y - y).reshape(found.alpha.shape).to(found.weights)
    pairs = found.weights[:, :, None] * change[:, None, :]
    return pairs[..., 0] if found.vector else pairs


def feature_change(
    kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any, *, features: Features | None = None
) -> Float[Tensor, "q outputs n d"]:
    """Return the derivative of f(x) in every entry of every training row, (q, outputs, n, d).

    Moving row i by a small v changes the prediction by the sum of entry [query, output, i] times v; the
    refit after the move is included. Within |v|_inf <= eps the most it can do is eps times the entry's 1-norm,
    to first order. Holds where the kernel is differentiable. Arguments as for `influence`; a vector of targets
    counts as one output, and `features` is what the kernel sees of the rows.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> feature_change(DotProduct(), [[1.0], [2.0]], [1.0, 0.0], [[1.0]], ridge=1.0).flatten()
        tensor([ 0.1111, -0.1111], dtype=torch.float64)
    """
    features = features or RawFeatures()
    X, y, Xq = as_problem(X, y, Xq)
    rows, queries = features(X, Xq)
    fitted = fit(kernel, rows, y, ridge)
    weights = influence_of(fitted, queries).weights
    gradients = [
        prediction_gradient(fitted.kernel, X, Xq[q : q + 1], alpha[:, None], weights[:, q : q + 1], features)
        for q in range(len(Xq))
        for alpha in fitted.alpha.T
    ]
    return torch.stack(gradients).reshape(len(Xq), -1, *X.shape)


def prediction_gradient(
    kernel: Kernel,
    X: Float[Tensor, "n d"],
    Xq: Float[Tensor, "1 d"],
    alpha: Float[Tensor, "n 1"],
    weights: Float[Tensor, "n 1"],
    features: Features,
) -> Float[Tensor, "n d"]:
    """Return the gradient in X of f(x) = k(x)'R y for one query, given alpha = R y and weights = R k(x).

    From dR = -R dK R it is that of k(x)'alpha - weights'K alpha with alpha and weights held fixed, so the
    factorisation is never differentiated and K is never held whole.
    """
    moving = X.clone().requires_grad_()
    with torch.enable_grad():
        rows, query = features(moving, Xq)
        value = kernel.product(query, rows, alpha).sum() - (weights * kernel.product(rows, rows, alpha)).sum()
        return torch.autograd.grad(value, moving)[0]


def as_problem(X: Any, y: Any, Xq: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, targets (n, outputs) and queries, checked and detached, in the precision of the rows."""
    X = as_matrix(X, "X").detach()
    return X, as_targets(y, X).detach().reshape(len(X), -1).to(X.dtype), as_query(Xq, X).detach()


def as_rows(group: Any, n: int, device: torch.device) -> Tensor:
    """Return distinct row numbers of n rows.

    Example:
        >>> as_rows([2, 0], 3, torch.device("cpu"))
        tensor([2, 0])
    """
    numbers = np.asarray(group.cpu() if isinstance(group, Tensor) else group)
    if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu":
        raise InputError(f"the rows are {group!r}; a list of at least one row number was expected.")
    if numbers.min() < 0 or numbers.max() >= n:
        wrong = numbers.max() if numbers.max() >= n else numbers.min()
        raise InputError(f"row {wrong} is out of range: the rows are numbered 0 to {n - 1}.")
    if len(np.unique(numbers)) != numbers.size:
        raise InputError("a row is named twice; name each row once.")
    return torch.from_numpy(numbers.astype(np.int64)).to(device)


def unit_columns(like: Tensor, rows: Tensor) -> Tensor:
    """Return these columns of the identity of len(like) rows, in its precision."""
    unit = torch.zeros(len(like), len(rows), dtype=like.dtype, device=like.device)
    unit[rows, torch.arange(len(rows), device=rows.device)] = 1
    return unit


def _cross(fitted: Fit, Xq: Any) -> Float[Tensor, "n q"]:
    """Return k(x_i, x) for every query x."""
    return fitted.kernel(as_query(Xq, fitted.X), fitted.X).T
