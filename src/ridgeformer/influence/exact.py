"""Every influence of every training point, exactly, from one Cholesky factorisation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import as_matrix, as_query, as_targets
from ridgeformer.core.errors import InputError
from ridgeformer.influence.influence import Influence
from ridgeformer.kernels import Kernel
from ridgeformer.solving import RidgeSystem
from ridgeformer.solving.direct import inverse_diagonal, solve_directly, solve_with_factor
from ridgeformer.solving.solve import check_arguments
from ridgeformer.solving.system import check_memory, scaled_system

__all__ = ["RidgeFit", "fit", "influence", "leave_one_out"]


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
