"""Every influence of every training point, exactly, from one Cholesky factorisation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.checks import as_matrix, as_query, as_targets
from ridgeformer.errors import InputError
from ridgeformer.influence.influence import Influence
from ridgeformer.kernels import Kernel
from ridgeformer.solvers import RidgeSystem
from ridgeformer.solvers.arguments import check_arguments, check_memory
from ridgeformer.solvers.direct import cholesky_solve
from ridgeformer.solvers.solve import scaled_system

__all__ = ["RidgeFit", "fit", "influence", "inverse_parts", "leave_one_out"]

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
        return torch.cholesky_solve(V, self.factor)

    def influence(self, Xq: Any) -> Influence:
        """Return the influences of all training points on the predictions at Xq."""
        cross = self.cross(Xq)
        diagonal, weights = inverse_parts(self.factor, cross)
        return Influence(
            self.alpha,
            weights,
            diagonal,
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
    asked = check_arguments(kernel, X, ridge, "direct", None, None, None, None, 0)
    check_memory(len(X), X.dtype)
    columns = y.reshape(len(y), -1)
    with torch.no_grad():
        system, log_scale = scaled_system(kernel, X, asked.ridge)
        result = cholesky_solve(system, columns)
    solved = bool((result.residual.norm(dim=0) <= asked.tol * columns.norm(dim=0)).all())
    if result.factor is None or not solved:
        raise InputError(
            f"K + ridge I is singular in {X.dtype}: the ridge {system.ridge:.3g} is below the round-off of K, about "
            f"{system.kernel_roundoff:.1g}, and influences divide by what is lost there: raise the ridge"
            f"{'' if X.dtype == torch.float64 else ', or use float64'}."
        )
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


def inverse_parts(
    factor: Float[Tensor, "n n"], columns: Float[Tensor, "n m"]
) -> tuple[Float[Tensor, " n"], Float[Tensor, "n m"]]:
    """Return the diagonal of R = (L L')^-1 and R columns, from L^-1 a panel of columns at a time.

    R_jj is the squared length of column j of L^-1, which begins at row j, so panels shrink: n^3 / 3 operations, as
    many as the factorisation, in O(n PANEL) memory. R columns = (L^-1)'(L^-1 columns) takes the panels as they come.

    Example:
        >>> inverse_parts(torch.tensor([[2.0, 0.0], [2.0, 1.0]]), torch.tensor([[1.0], [0.0]]))
        (tensor([1.2500, 1.0000]), tensor([[ 1.2500], [-1.0000]]))
    """
    starts = range(0, len(factor), PANEL)
    blocks = [_triangular_inverse(factor[i : i + PANEL, i : i + PANEL]) for i in starts]
    half = columns.clone(memory_format=torch.contiguous_format)
    _substitute(factor, blocks, half, 0)
    lengths, products = [], []
    for start, own in zip(starts, blocks, strict=True):
        panel = factor.new_zeros(len(factor) - start, len(own))
        panel[: len(own)] = torch.eye(len(own), dtype=own.dtype, device=own.device)
        _substitute(factor, blocks, panel, start)
        lengths.append(panel.square().sum(0))
        products.append(panel.T @ half[start:])
    return torch.cat(lengths), torch.cat(products)


def _substitute(factor: Tensor, blocks: list[Tensor], columns: Tensor, start: int) -> None:
    """Solve L[start:, start:] V = columns in place by blocks of rows, so that nearly all of it is matrix products."""
    for i, block in enumerate(blocks[start // PANEL :]):
        rows = slice(i * PANEL, i * PANEL + len(block))
        above = factor[start + rows.start : start + rows.stop, start : start + rows.start]
        columns[rows] = block @ torch.addmm(columns[rows], above, columns[: rows.start], alpha=-1)


def _triangular_inverse(block: Float[Tensor, "b b"]) -> Float[Tensor, "b b"]:
    return torch.linalg.solve_triangular(
        block, torch.eye(len(block), dtype=block.dtype, device=block.device), upper=False
    )
