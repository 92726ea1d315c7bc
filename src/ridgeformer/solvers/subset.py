"""Nystrom subset regression: coefficients on a few centres only, for when all rows are too many."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.solvers.preconditioners.pivoted_cholesky import PivotedFactor, pivoted_factor
from ridgeformer.solvers.system import RidgeSystem

__all__ = ["SubsetFit", "subset_regression"]

SAMPLED_ROWS = 512
"""Rows from which the error is estimated."""


@dataclass(frozen=True, eq=False)
class SubsetFit:
    """A fit on centres.

    Attributes:
        alpha: (n, outputs), zero except at the centres.
        residual: y - (K + ridge I) alpha in float64; large, as alpha does not aim at that system.
        centres: the rows used.
        fit_error: per output, an estimate from above of the root mean square, over the training rows, of the
            difference between this fit and that of the full system.
    """

    alpha: Tensor
    residual: Tensor
    centres: Tensor
    fit_error: Tensor


def subset_regression(system: RidgeSystem, y: Tensor, centres: int, generator: torch.Generator) -> SubsetFit:
    """Minimise ||y - K_c b||^2 + ridge b'K_cc b over coefficients b on randomly pivoted centres.

    It is the exact solution for the kernel matrix F'F <= K that the centres span, at n centres^2 operations. With
    a = (F'F + ridge I)^-1 y and E = K - F'F >= 0 the fitted values differ from those of the full solution by
    ridge (K + ridge I)^-1 E a, whose norm is at most ||E a|| and at most sqrt(ridge a'E a). Both are estimated from
    a sample of rows of E, two standard errors added; the smaller one is reported. With all rows sampled they are
    bounds.
    """
    factor = pivoted_factor(system.engine, centres, generator)
    F = factor.F.to(torch.float64)
    core = F @ F.T
    core.diagonal().add_(system.ridge)
    weights = torch.cholesky_solve(F @ y, torch.linalg.cholesky(core))
    alpha = torch.zeros_like(y)
    alpha[factor.pivots] = torch.linalg.solve_triangular(F[:, factor.pivots], weights, upper=True)
    full = (y - F.T @ weights) / system.ridge
    return SubsetFit(
        alpha, _residual(system, alpha, factor.pivots, y), factor.pivots, _error(system, factor, full, generator)
    )


def _residual(system: RidgeSystem, alpha: Tensor, centres: Tensor, y: Tensor) -> Tensor:
    X = system.X.to(torch.float64)
    return y - system.kernel.product(X, X[centres], alpha[centres]).add_(alpha, alpha=system.ridge)


def _error(
    system: RidgeSystem, factor: PivotedFactor, full: Float[Tensor, "n r"], generator: torch.Generator
) -> Float[Tensor, " r"]:
    n = system.n
    rows = torch.randperm(n, generator=generator)[:SAMPLED_ROWS].to(full.device)
    F = factor.F.to(torch.float64)
    X = system.X
    left = system.kernel.product(X[rows].to(torch.float64), X.to(torch.float64), full) - F[:, rows].T @ (F @ full)
    squares = _mean_from_above(left.square(), n)
    energy = system.ridge * _mean_from_above(full[rows] * left, n)
    return torch.minimum(squares, energy).clamp_min(0).sqrt()


def _mean_from_above(sample: Tensor, n: int) -> Tensor:
    """Return the mean of a sample without replacement plus two standard errors, which vanish if it is everything."""
    count = len(sample)
    spread = sample.std(dim=0) if count > 1 else torch.zeros_like(sample[0])
    return sample.mean(0) + 2 * spread * ((1 - count / n) / count) ** 0.5
