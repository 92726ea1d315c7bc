"""A Cholesky factorisation in float32, refined to float64 accuracy.

Factorising is n^3/3 operations and runs twice as fast in float32; refining is a few products. Where memory is scarce
the factor takes the place of K, so no second matrix is held.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.solvers.run import Run
from ridgeformer.solvers.solution import Status
from ridgeformer.solvers.system import RidgeSystem

__all__ = ["factorise_in_place", "mixed_direct", "solve_with_factor"]

PANEL = 512
"""Columns factorised at a time."""


def mixed_direct(
    system: RidgeSystem,
    K: Float[Tensor, "n n"],
    y: Tensor,
    *,
    tol: float,
    refinements: int = 8,
    in_place: bool = True,
) -> Run:
    """Solve A alpha = y with a factor in the precision of K; refine in float64 until tol or no more gain.

    Refinement converges where the round-off of the factor is below the ridge. Where there is no factor, or
    refinement stalls, the status says so.

    Args:
        system: A; its float64 products make the residuals.
        K: the kernel matrix in the working precision, its lower triangle at least; it is overwritten.
        y: targets, (n, outputs), in float64.
        tol: relative residual to reach in float64.
        refinements: at most.
        in_place: hold no second matrix; a fourth slower.
    """
    scale = y.norm(dim=0)
    scale = torch.where(scale > 0, scale, 1.0)
    record = Run(torch.zeros_like(y), y, Status.BREAKDOWN, 1, [y.norm(dim=0) / scale])
    factor = _factorise(K, system.ridge, in_place)
    if factor is None:
        record.relative.append(record.relative[0])
        return record
    for _ in range(refinements):
        step = solve_with_factor(factor, record.residual.to(K.dtype)).to(torch.float64)
        if not bool(torch.isfinite(step).all()):
            break
        better = (record.alpha + step).to(system.X.dtype).to(torch.float64)  # what is handed out, so what is judged
        residual = system.residual(better, y)
        if not bool((residual.norm(dim=0) < record.residual.norm(dim=0) / 2).any()):
            break
        record.alpha, record.residual = better, residual
        if float((residual.norm(dim=0) / scale).max()) <= tol:
            record.status = Status.CONVERGED
            break
    record.relative.append(record.residual.norm(dim=0) / scale)
    return record


def _factorise(K: Tensor, ridge: float, in_place: bool) -> Tensor | None:
    if in_place:
        return K if factorise_in_place(K, ridge) else None
    K.diagonal().add_(ridge)
    factor, info = torch.linalg.cholesky_ex(K)
    return factor if int(info) == 0 else None


def factorise_in_place(A: Float[Tensor, "n n"], ridge: float) -> bool:
    """Turn the lower triangle of A into the Cholesky factor of A + ridge I; False if there is none.

    What is left above the diagonal has no meaning.

    Example:
        >>> A = torch.tensor([[3.0, 2.0], [2.0, 4.0]])
        >>> factorise_in_place(A, 1.0)
        True
        >>> A.tril()
        tensor([[2., 0.], [1., 2.]])
    """
    n = len(A)
    A.diagonal().add_(ridge)
    for start in range(0, n, PANEL):
        stop = min(start + PANEL, n)
        block, info = torch.linalg.cholesky_ex(A[start:stop, start:stop])
        if int(info) != 0:
            return False
        A[start:stop, start:stop] = block
        below = A[stop:, start:stop]
        # X L' = B, as the transposed system L X' = B', whose right-hand side is column-major as LAPACK likes it
        below.copy_(torch.linalg.solve_triangular(block, below.T, upper=False).T)
        for begin in range(stop, n, 4 * PANEL):
            end = min(begin + 4 * PANEL, n)
            A[begin:, begin:end].addmm_(A[begin:, start:stop], A[begin:end, start:stop].T, alpha=-1.0)
    return True


def solve_with_factor(factor: Float[Tensor, "n n"], b: Float[Tensor, "n r"]) -> Float[Tensor, "n r"]:
    """Return (L L')^-1 b; only the lower triangle of `factor` is read."""
    half = torch.linalg.solve_triangular(factor, b, upper=False)
    return torch.linalg.solve_triangular(factor.T, half, upper=True)
