"""Influences from a Nystrom sketch alone: no solve at all."""

from __future__ import annotations

from typing import Any

import torch
from scipy.stats import norm
from torch import Tensor

from ridgeformer.influence.estimators.setting import Setting, as_confidence, prepare
from ridgeformer.influence.influence import Influence

__all__ = ["nystrom_influence"]


@torch.no_grad()
def nystrom_influence(
    kernel: Any, X: Any, y: Any, Xq: Any, ridge: Any, *, rank: Any = None, confidence: Any = 0.95, seed: Any = 0
) -> Influence:
    """Estimate every influence with K replaced by its Nystrom approximation and a flat tail, in O(n rank) memory.

    The errors come from the residual r with the true K, whose effect is (R r)_i. With a confidence they suppose
    that r points nowhere in particular: (R r)_i is then about sqrt(R_ii r'R r / (n - rank)) times a normal number.
    With None they hold always, beyond round-off, and are about sqrt(n) larger. The bounds on R_ii always hold.

    Args:
        kernel: any positive semidefinite kernel.
        X: training rows, (n, d).
        y: targets, (n,) or (n, outputs).
        Xq: query rows, (q, d).
        ridge: lambda > 0.
        rank: of the sketch; None is 2 sqrt(n).
        confidence: of each error of alpha and of the weights, between 0 and 1; None for errors that are proved.
        seed: of the sketch.

    Example:
        >>> from ridgeformer.kernels import DotProduct
        >>> found = nystrom_influence(DotProduct(), [[1.0], [2.0], [3.0]], [1.0, 0.0, 1.0], [[1.0]], 1.0, rank=1)
        >>> found.leave_one_out[:, 0], bool(found.leave_one_out_error.max() < 1e-6)
        (tensor([ 0.0524, -0.0970,  0.1000], dtype=torch.float64), True)
    """
    setting = prepare(kernel, X, y, Xq, ridge, rank, seed)
    alpha, weights = setting.sketch.apply_with_tail(setting.y), setting.sketch.apply_with_tail(setting.cross)
    confidence = None if confidence is None else as_confidence(confidence)
    least = setting.sketch.least_diagonal
    return setting.influence(
        alpha,
        weights,
        least,  # the bound of second order is the better estimate
        alpha_error=_error(setting, alpha, setting.y, confidence),
        weights_error=_error(setting, weights, setting.cross, confidence),
        diagonal_error=setting.sketch.diagonal - least,
        diagonal_least=least,
    )


def _error(setting: Setting, solution: Tensor, columns: Tensor, confidence: float | None) -> Tensor:
    """Return how far solution is from R columns: proved, sqrt(Q_ii r'Q r) with Q >= R; or likely, with the tail."""
    sketch, residual = setting.sketch, setting.system.residual(solution, columns).to(columns)
    if confidence is None:
        energy = (residual * sketch.apply(residual)).sum(0)
        return (sketch.diagonal[:, None] * energy[None, :]).sqrt()
    left_out = max(1, setting.system.n - len(sketch.factor.values))
    energy = (residual * sketch.apply_with_tail(residual)).sum(0) / left_out
    return float(norm.ppf((1 + confidence) / 2)) * (sketch.diagonal[:, None] * energy[None, :]).sqrt()
