"""The direct solve: one Cholesky factorisation, with refinement against the float64 residual."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.solving.semidefinite import refuse_negative
from ridgeformer.solving.system import RidgeSystem

__all__ = ["DirectResult", "cholesky_solve"]

REFINEMENTS = 3


@dataclass(frozen=True)
class DirectResult:
    """What a direct solve found: the solution, its float64 residual, and the factor if there is one."""

    alpha: Tensor
    residual: Tensor
    factor: Tensor | None


def cholesky_solve(system: RidgeSystem, y: Tensor) -> DirectResult:
    """Solve A alpha = y by Cholesky; refine while the float64 residual at least halves.

    If the ridge is below the round-off of K, no Cholesky factor exists: then the nearest positive
    semidefinite matrix is solved by its eigenvalues instead, and the result has no factor.

    Args:
        system: A.
        y: Targets in float64; residuals are against them, whatever the precision of the solve.

    Raises:
        NotPositiveSemidefiniteError: K has an eigenvalue that is negative beyond round-off.
    """
    b = y.to(system.X.dtype)
    factor, info = torch.linalg.cholesky_ex(system.matrix.diagonal_scatter(system.matrix.diagonal() + system.ridge))
    if int(info) != 0:
        return _by_eigenvalues(system, y)
    alpha = torch.cholesky_solve(b, factor)
    residual = system.residual(alpha, y)
    for _ in range(REFINEMENTS):
        better = alpha + torch.cholesky_solve(residual.to(b.dtype), factor)
        refined = system.residual(better, y)
        if not bool((refined.norm(dim=0) < residual.norm(dim=0) / 2).any()):
            break
        alpha, residual = better, refined
    return DirectResult(alpha, residual, factor)


def _by_eigenvalues(system: RidgeSystem, y: Tensor) -> DirectResult:
    values, Q = torch.linalg.eigh(system.matrix)
    refuse_negative(float(values[0]), system)
    alpha = Q @ ((Q.T @ y.to(Q.dtype)) / (values.clamp_min(0) + system.ridge)[:, None])
    return DirectResult(alpha, system.residual(alpha, y), None)
