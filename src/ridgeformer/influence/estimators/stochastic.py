"""Influences of all training points at once: solves for the targets and queries, random probes for the diagonal."""

from __future__ import annotations

from math import sqrt
from typing import Any

import torch
from scipy.stats import t as student
from torch import Tensor

from ridgeformer.core.checks import whole
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence.estimators.setting import Setting, as_confidence, prepare
from ridgeformer.influence.influence import Influence

__all__ = ["stochastic_influence"]


@torch.no_grad()
def stochastic_influence(
    kernel: Any,
    X: Any,
    y: Any,
    Xq: Any,
    ridge: Any,
    *,
    probes: Any = 64,
    confidence: Any = 0.95,
    rank: Any = None,
    tol: Any = None,
    seed: Any = 0,
) -> Influence:
    """Estimate every influence of every training point, in O(n (rank + queries + probes)) memory.

    One block of preconditioned conjugate gradients solves for targets, queries and probes together. The diagonal
    is Hutchinson's with the sketch taken out: R_ii = Q_ii - mean of z_i ((Q - R) z)_i over random signs z, where
    Q is the inverse with K sketched, so only what the sketch misses is noisy. It is kept within its proved bounds.

    The error of the diagonal holds for each point with the given confidence (Student's t over the probes, and the
    residuals of the solves); those of alpha and the weights hold always.

    Args:
        kernel: any positive semidefinite kernel.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs).
        Xq: query rows, (q, d).
        ridge: lambda > 0.
        probes: random signs to average over, at least 2.
        confidence: of each R_ii's error, between 0 and 1.
        rank: of the sketch and preconditioner; None is 2 sqrt(n).
        tol: the relative residual of the solves; None is that of `solve`.
        seed: of sketch and probes.

    Example:
        >>> from ridgeformer.kernels import Exponential
        >>> found = stochastic_influence(Exponential(1.0), [[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0], [[1.0]], 0.1)
        >>> bool(found.leave_one_out_error.max() < 1e-6)  # rank 3 holds all of K: nothing is left to chance
        True
    """
    probes = whole(probes, "probes", 2)
    confidence = as_confidence(confidence)
    setting = prepare(kernel, X, y, Xq, ridge, rank, seed)
    outputs, queries = setting.y.shape[1], setting.cross.shape[1]
    draw = torch.randint(2, (len(setting.y), probes), generator=torch_generator(setting.seed, "probes"))
    Z = (2 * draw - 1).to(setting.y)
    solution = setting.solve(torch.cat([setting.y, setting.cross, Z], dim=1), tol)
    alpha, weights, solved = solution.alpha.split([outputs, queries, probes], dim=1)
    alpha_error, weights_error, solve_error = setting.error(solution).split([outputs, queries, probes], dim=1)
    quantile = float(student.ppf((1 + confidence) / 2, probes - 1))
    diagonal, diagonal_error = _diagonal(setting, Z, solved, solve_error.mean(1), quantile)
    return setting.influence(
        alpha,
        weights,
        diagonal,
        alpha_error=alpha_error,
        weights_error=weights_error,
        diagonal_error=diagonal_error,
        diagonal_least=setting.sketch.least_diagonal,
    )


def _diagonal(setting: Setting, Z: Tensor, solved: Tensor, bias: Tensor, quantile: float) -> tuple[Tensor, Tensor]:
    """Return R_ii and its error from probes Z and R Z, within the bounds that always hold."""
    most, least = setting.sketch.diagonal, setting.sketch.least_diagonal
    samples = Z * (setting.sketch.apply(Z) - solved)
    spread = quantile * samples.std(1) / sqrt(Z.shape[1]) + bias
    diagonal = (most - samples.mean(1)).clamp(least, most)
    return diagonal, spread.minimum((most - diagonal).maximum(diagonal - least))
