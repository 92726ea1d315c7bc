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
from ridgeformer.solving.arguments import check_arguments, check_memory
from ridgeformer.solving.direct import DirectResult, cholesky_solve
from ridgeformer.solving.solve import scaled_system

__all__ = ["RidgeFit", "fit", "influence", "inverse_diagonal", "leave_one_out", "solve_factored"]

PANEL = 256
"""Columns of L^-1 held at once: wide enough for fast products, narrow enough to waste little on the diagonal."""


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
        return solve_factored(self.factor, V)

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
    asked = check_arguments(kernel, X, ridge, "direct")
    check_memory(len(X), X.dtype)
    columns = y.reshape(len(y), -1)
    with torch.no_grad():
        system, log_scale = scaled_system(kernel, X, asked.ridge)
        result = _solve_once(system, columns)
        if not _solved(result, columns, asked.tol):
            result = cholesky_solve(system, columns)  # refines, and tells round-off from a kernel that is none
    if result.factor is None or not _solved(result, columns, asked.tol):
        raise InputError(_singular(system))
    return RidgeFit(system, result.alpha, columns.to(X.dtype), result.factor, y.ndim == 1, log_scale)


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


def solve_factored(factor: Float[Tensor, "n n"], V: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
    """Return (L L')^-1 V; unlike `torch.cholesky_solve` it does not copy the factor.

    Example:
        >>> solve_factored(torch.tensor([[2.0, 0.0], [2.0, 1.0]]), torch.tensor([[1.0], [0.0]]))
        tensor([[ 1.2500], [-1.0000]])
    """
    half = torch.linalg.solve_triangular(factor, V, upper=False)
    return torch.linalg.solve_triangular(factor.mT, half, upper=True)


def inverse_diagonal(factor: Float[Tensor, "n n"]) -> Float[Tensor, " n"]:
    """Return the diagonal of R = (L L')^-1, from L^-1 a panel of columns at a time.

    R_jj is the squared length of column j of L^-1, which begins at row j, so panels shrink: n^3 / 3 operations, as
    many as the factorisation, in O(n PANEL) memory.

    Example:
        >>> inverse_diagonal(torch.tensor([[2.0, 0.0], [2.0, 1.0]]))
        tensor([1.2500, 1.0000])
    """
    starts = range(0, len(factor), PANEL)
    blocks = [_triangular_inverse(factor[i : i + PANEL, i : i + PANEL]) for i in starts]
    lengths = []
    for start, own in zip(starts, blocks, strict=True):
        panel = factor.new_zeros(len(factor) - start, len(own))
        panel[: len(own)] = own
        _substitute(factor, blocks, panel, start)
        lengths.append(panel.square_().sum(0))
    return torch.cat(lengths)


def _substitute(factor: Tensor, blocks: list[Tensor], panel: Tensor, start: int) -> None:
    """Solve L[start:, start:] V = (I, 0)' by blocks of rows, the first of which is there: nearly all is products."""
    work = panel.new_empty(PANEL, panel.shape[1])
    for i, block in enumerate(blocks[start // PANEL + 1 :], start=1):
        top, bottom = i * PANEL, i * PANEL + len(block)
        left = factor[start + top : start + bottom, start : start + top]
        torch.mm(left, panel[:top], out=work[: len(block)])
        torch.addmm(panel[top:bottom], block, work[: len(block)], beta=0, alpha=-1, out=panel[top:bottom])


def _triangular_inverse(block: Float[Tensor, "b b"]) -> Float[Tensor, "b b"]:
    return torch.linalg.solve_triangular(
        block, torch.eye(len(block), dtype=block.dtype, device=block.device), upper=False
    )


def _solve_once(system: RidgeSystem, columns: Tensor) -> DirectResult:
    """Solve by one factorisation, the ridge added and taken back in place: K is as it was, and nothing is copied."""
    K, own = system.matrix, system.matrix.diagonal().clone()
    K.diagonal().add_(system.ridge)
    factor, info = torch.linalg.cholesky_ex(K)
    K.diagonal().copy_(own)
    if int(info) != 0:
        return DirectResult(columns, columns, None)
    alpha = solve_factored(factor, columns.to(K.dtype))
    return DirectResult(alpha, system.residual(alpha, columns), factor)


def _singular(system: RidgeSystem) -> str:
    dtype, ridge, lost = system.X.dtype, system.ridge, system.kernel_roundoff
    why = f"is below the round-off of K, about {lost:.1g}" if ridge <= lost else "is too small beside K"
    advice = "raise the ridge" + ("" if dtype == torch.float64 else ", or use float64")
    return (
        f"K + ridge I is singular in {dtype}: the ridge {ridge:.3g} {why}, and influences divide by what is lost "
        f"there: {advice}."
    )


def _solved(result: DirectResult, columns: Tensor, tol: float) -> bool:
    enough = result.residual.norm(dim=0) <= tol * columns.norm(dim=0)
    return result.factor is not None and bool(enough.all())
