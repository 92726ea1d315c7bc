"""Every influence of every training point, exactly, from one Cholesky factorisation."""

from __future__ import annotations

from dataclasses import dataclass, field
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
from ridgeformer.solving import RidgeSystem
from ridgeformer.solving.direct import inverse_diagonal, solve_directly, solve_with_factor
from ridgeformer.solving.solver import check_arguments
from ridgeformer.solving.system import check_memory, scaled_system

__all__ = [
    "RidgeFit",
    "as_rows",
    "feature_change",
    "fit",
    "group_influence",
    "influence",
    "label_change",
    "leave_group_out",
    "leave_one_out",
    "prediction_gradient",
]


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """A ridge regression with the factor of A = K + ridge I, from which everything here follows.

    Attributes:
        system: A, in a range the precision holds: kernel and ridge may be e^-log_scale times those asked for, which
            changes no prediction and no influence.
        alpha: R y, (n, outputs).
        y: the targets, (n, outputs), in the dtype of the rows.
        factor: the Cholesky factor L of A.
        vector: whether the targets were a vector.
        log_scale: see `system`; usually 0.
    """

    system: RidgeSystem
    alpha: Float[Tensor, "n outputs"] = field(repr=False)
    y: Float[Tensor, "n outputs"] = field(repr=False)
    factor: Float[Tensor, "n n"] = field(repr=False)
    vector: bool
    log_scale: float = 0.0

    def cross(self, Xq: Any) -> Float[Tensor, "n q"]:
        """Return k(x_i, x) for every query x."""
        return self.system.kernel(as_query(Xq, self.system.X), self.system.X).T

    def apply_inverse(self, V: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
        """Return R V."""
        return solve_with_factor(self.factor, V)

    def influence(self, Xq: Any) -> Influence:
        """Return the influences of all training points on the predictions at Xq."""
        cross = self.cross(Xq)
        return Influence(
            self.alpha,
            self.apply_inverse(cross),
            inverse_diagonal(self.factor),
            cross.T @ self.alpha,
            self.system.ridge,
            vector=self.vector,
        )


def fit(kernel: Kernel, X: Any, y: Any, ridge: Any) -> RidgeFit:
    """Factorise K + ridge I once, for every influence of every point.

    Raises:
        InputError: the system is singular in the precision of X, or another argument is wrong.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> fit(DotProduct(), [[1.0], [2.0]], [1.0, 0.0], ridge=1.0).alpha
        tensor([[ 0.8333], [-0.3333]], dtype=torch.float64)
    """
    X = as_matrix(X, "X").detach()
    y = as_targets(y, X).detach()
    _, ridge, tol = check_arguments(kernel, X, ridge)
    check_memory(len(X), X.dtype)
    columns = y.reshape(len(y), -1)
    with torch.no_grad():
        system, log_scale = scaled_system(kernel, X, ridge)
        alpha, residual, factor = solve_directly(system, columns, tol=tol)
    if factor is None or not bool((residual.norm(dim=0) <= tol * columns.norm(dim=0)).all()):
        raise InputError(_singular(system))
    return RidgeFit(system, alpha.to(X.dtype), columns.to(X.dtype), factor, y.ndim == 1, log_scale)


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
    return fit(kernel, X, y, ridge).influence(Xq)


def leave_one_out(kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any) -> Tensor:
    """Return f(x) - f_{-i}(x), (n, q) or (n, q, outputs): what each training point adds to each prediction.

    f_{-i} is the fit without point i; no refit is made (claim I1). Arguments as for `influence`.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> leave_one_out(DotProduct(), [[1.0], [2.0]], [1.0, 0.0], [[1.0]], ridge=1.0)
        tensor([[ 0.1667], [-0.3333]], dtype=torch.float64)
    """
    return influence(kernel, X, y, Xq, ridge).leave_one_out


def _singular(system: RidgeSystem) -> str:
    dtype, ridge, lost = system.X.dtype, system.ridge, system.kernel_roundoff
    why = f"is below the round-off of K, about {lost:.1g}" if ridge <= lost else "is too small beside K"
    advice = "raise the ridge" + ("" if dtype == torch.float64 else ", or use float64")
    return (
        f"K + ridge I is singular in {dtype}: the ridge {ridge:.3g} {why}, and influences divide by what is lost "
        f"there: {advice}."
    )


def leave_group_out(kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any, group: Any) -> Tensor:
    """Return f(x) - f_{-B}(x) for the group B of training rows, (q,) or (q, outputs).

    Equal to a refit without B, up to round-off: it is (R k(x))_B' (R_BB)^-1 alpha_B.

    Args:
        kernel: any kernel.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs).
        Xq: query rows, (q, d).
        ridge: lambda > 0.
        group: distinct row numbers, at least one and not all.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> leave_group_out(DotProduct(), [[1.0], [2.0], [3.0]], [1.0, 1.0, 0.0], [[1.0]], 1.0, group=[0, 2])
        tensor([-0.2000], dtype=torch.float64)
    """
    return group_influence(fit(kernel, X, y, ridge), Xq, group)


def group_influence(fitted: RidgeFit, Xq: Any, group: Any) -> Tensor:
    """Return `leave_group_out` for a fit that is at hand: O(n^2 |B|) operations a group."""
    n = len(fitted.y)
    rows = as_rows(group, n, fitted.y.device)
    if len(rows) == n:
        raise InputError(f"the group holds all {n} rows; leave at least one to fit.")
    unit = torch.zeros(n, len(rows), dtype=fitted.y.dtype, device=fitted.y.device)
    unit[rows, torch.arange(len(rows), device=rows.device)] = 1
    columns = fitted.apply_inverse(unit)
    change = (columns.T @ fitted.cross(Xq)).T @ torch.linalg.solve(columns[rows], fitted.alpha[rows])
    return change[:, 0] if fitted.vector else change


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


def label_change(kernel: Kernel, X: Any, y: Any, Xq: Any, ridge: Any, new_y: Any) -> Tensor:
    """Return, for each point i, how f(x) changes when y_i alone becomes new_y_i: (n, q) or (n, q, outputs).

    It is (R k(x))_i (new_y_i - y_i). Several labels changed at once add up exactly, so the effect of changing
    a set of them is the sum over the set.

    Args:
        kernel: any kernel.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs).
        Xq: query rows, (q, d).
        ridge: lambda > 0.
        new_y: targets to change to, shaped like y.

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
    to first order. Holds where the kernel is differentiable.

    Args:
        kernel: any kernel; gradients flow through it by autograd.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs); a vector counts as one output.
        Xq: query rows, (q, d).
        ridge: lambda > 0.
        features: what the kernel sees of the rows; with `AttentionFeatures` moving one row moves all.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> feature_change(DotProduct(), [[1.0], [2.0]], [1.0, 0.0], [[1.0]], ridge=1.0).flatten()
        tensor([ 0.1111, -0.1111], dtype=torch.float64)
    """
    features = features or RawFeatures()
    X = as_matrix(X, "X").detach()
    Xq = as_query(Xq, X).detach()
    rows, queries = features(X, Xq)
    fitted = fit(kernel, rows, y, ridge)
    kernel = fitted.system.kernel  # scaled like the coefficients
    weights = fitted.influence(queries).weights
    gradients = []
    for q in range(len(Xq)):
        for output in range(fitted.y.shape[1]):
            alpha = fitted.alpha[:, output : output + 1]
            gradients.append(prediction_gradient(kernel, X, Xq[q : q + 1], alpha, weights[:, q : q + 1], features))
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
