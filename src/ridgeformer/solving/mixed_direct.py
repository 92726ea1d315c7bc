"""A Cholesky factorisation in float32, refined to float64 accuracy.

Factorising is n^3/3 operations and runs twice as fast in float32; refining is a few products. The factor takes the
place of K, so no second matrix is held.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.solving.run import Output, Run
from ridgeformer.solving.solution import Status
from ridgeformer.solving.system import RidgeSystem

__all__ = ["factorise_in_place", "mixed_direct", "solve_with_factor"]

PANEL = 512
"""Columns factorised at a time, where it is not LAPACK that does it."""

LAPACK_ROWS = 16_000
"""Up to so many rows LAPACK factorises in place. OpenBLAS has been seen to crash beyond, and a crash is no status."""


def mixed_direct(
    system: RidgeSystem,
    K: Float[Tensor, "n n"],
    y: Tensor,
    output: Output,
    *,
    tol: float,
    refinements: int = 8,
) -> Run:
    """Solve A alpha = y with a factor in the precision of K; refine in float64 until tol or no more gain.

    Refinement converges where the round-off of the factor is below the ridge. Where there is no factor, or
    refinement stalls, the status says so.

    Args:
        system: A; its float64 products make the residuals.
        K: the kernel matrix in the working precision, its lower triangle at least; it is overwritten.
        y: targets, (n, outputs), in float64.
        output: what coefficients are rounded to before they are judged.
        tol: relative residual to reach in float64.
        refinements: at most.
    """
    scale = y.norm(dim=0)
    scale = torch.where(scale > 0, scale, 1.0)
    record = Run(torch.zeros_like(y), y, Status.BREAKDOWN, 1, [y.norm(dim=0) / scale])
    if not factorise_in_place(K, system.ridge):
        record.relative.append(record.relative[0])
        return record
    for _ in range(refinements):
        step = solve_with_factor(K, record.residual.to(K.dtype)).to(torch.float64)
        if not bool(torch.isfinite(step).all()):
            break
        better = output.rounded(record.alpha + step)
        residual = system.residual(better, y)
        if not bool((residual.norm(dim=0) < record.residual.norm(dim=0) / 2).any()):
            break
        record.alpha, record.residual = better, residual
        if float((residual.norm(dim=0) / scale).max()) <= tol:
            record.status = Status.CONVERGED
            break
    record.relative.append(record.residual.norm(dim=0) / scale)
    return record


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
    A.diagonal().add_(ridge)
    by_lapack = A.device.type == "cpu" and A.is_contiguous() and len(A) <= LAPACK_ROWS
    return _by_lapack(A) if by_lapack else _by_panels(A)


def _by_lapack(A: Tensor) -> bool:
    """Factorise by SciPy's LAPACK, in one call and in place: PyTorch's makes a copy."""
    from scipy.linalg.lapack import dpotrf, spotrf

    columns = A.numpy().T  # as LAPACK sees the rows: the lower triangle is the upper one
    potrf = spotrf if A.dtype == torch.float32 else dpotrf
    factor, info = potrf(columns, lower=0, clean=0, overwrite_a=1)
    if not np.shares_memory(factor, columns):
        raise AssertionError("SciPy copied what it was told to overwrite")
    return bool(info == 0 and torch.isfinite(A.diagonal()).all())  # not every LAPACK stops at a nan


def _by_panels(A: Tensor) -> bool:
    """Factorise panel by panel, each taken off what lies to its right before the next."""
    n = len(A)
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
