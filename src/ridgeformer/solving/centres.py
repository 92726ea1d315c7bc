"""Nystrom subset regression: coefficients on a few centres only, for when all rows are too many."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.solving.extreme_eigenvalues import ExtremeEigenvalues
from ridgeformer.solving.preconditioners.pivoted_cholesky import PivotedFactor, pivoted_factor
from ridgeformer.solving.run import Run, Status
from ridgeformer.solving.system import RidgeSystem

__all__ = ["fit_on_centres"]

SAMPLED_ROWS = 512
"""Rows from which the error is estimated."""


def fit_on_centres(run: Run, count: int, generator: torch.Generator) -> None:
    """Minimise ||y - K_c b||^2 + ridge b'K_cc b over coefficients b on randomly pivoted centres.

    It is the exact solution for the kernel matrix F'F <= K that the centres span, at n count^2 operations. With
    a = (F'F + ridge I)^-1 y and E = K - F'F >= 0 the fitted values differ from those of the full solution by
    ridge (K + ridge I)^-1 E a, whose norm is at most ||E a|| and at most sqrt(ridge a'E a). Both are estimated from
    a sample of rows of E, two standard errors added; the smaller one is `Run.fit_error`. With all rows sampled they are
    bounds. Coefficients in the precision of the rows give another fit than F' b in exact arithmetic; the difference is
    computed and added. The residual is large, as alpha does not aim at that system.
    """
    system, y = run.system, run.system.y
    factor = pivoted_factor(system.engine, count, generator)
    F = factor.F.to(torch.float64)
    core = F @ F.T
    core.diagonal().add_(system.ridge)
    weights = torch.cholesky_solve(F @ y, torch.linalg.cholesky(core))
    found = torch.zeros_like(y)
    found[factor.pivots] = torch.linalg.solve_triangular(F[:, factor.pivots], weights, upper=True)
    alpha, fitted = system.rounded(found), F.T @ weights
    X = system.X.to(torch.float64)
    product = system.kernel.product(X, X[factor.pivots], alpha[factor.pivots])
    moved = (product - fitted).square().mean(0).sqrt()
    full = (y - fitted) / system.ridge
    w = system.kernel.entry_error(X)  # K itself is known to w_i w_j only, which moves the fit by at most |w| w'|full|
    error = _error(system, factor, full, generator) + moved + w.norm() * (w @ full.abs()) / system.n**0.5
    run.alpha, run.residual, run.fit_error = alpha, y - product.add_(alpha, alpha=system.ridge), error
    run.status, run.steps = Status.SUBSET, 1
    run.relative.append(run.relative_norms(run.residual))
    size = system.mean_diagonal + system.ridge
    run.spectrum = ExtremeEigenvalues(size, size, size)


def _error(
    system: RidgeSystem, factor: PivotedFactor, full: Float[Tensor, "n r"], generator: torch.Generator
) -> Float[Tensor, " r"]:
    n = system.n
    rows = torch.randperm(n, generator=generator)[:SAMPLED_ROWS].to(full.device)
    F = factor.F.to(torch.float64)
    X = system.X
    left = system.kernel.product(X[rows].to(torch.float64), X.to(torch.float64), full) - F[:, rows].T @ (F @ full)
    squares = _mean_from_above(left.square(), n).clamp_min(0).sqrt()
    # round-off of F may have made E indefinite by about this much, which the second form must allow for
    noise = torch.finfo(factor.F.dtype).eps * n**0.5 * float(system.engine.diagonal().mean())
    size = full.square().mean(0)
    energy = (system.ridge * (_mean_from_above(full[rows] * left, n) + noise * size)).clamp_min(0).sqrt()
    return torch.minimum(squares, energy + noise * size.sqrt())


def _mean_from_above(sample: Tensor, n: int) -> Tensor:
    """Return the mean of a sample without replacement plus two standard errors, which vanish if it is everything."""
    count = len(sample)
    spread = sample.std(dim=0) if count > 1 else torch.zeros_like(sample[0])
    return sample.mean(0) + 2 * spread * ((1 - count / n) / count) ** 0.5
