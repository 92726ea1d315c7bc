"""The answer of a solver, with how it ended and how wrong it can be."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

from ridgeformer.checks import as_query
from ridgeformer.kernels import Kernel
from ridgeformer.kernels.base import BLOCK_ENTRIES, gamma
from ridgeformer.solvers.lanczos import SpectrumEnds

__all__ = ["Solution", "Status"]


class Status(StrEnum):
    """How a solver ended."""

    CONVERGED = "converged"
    MAX_STEPS = "max_steps"
    DIVERGED = "diverged"
    BREAKDOWN = "breakdown"
    STOPPED = "stopped"


@dataclass(frozen=True, eq=False)
class Solution:
    """Kernel ridge regression, solved: f(x) = k(x)'alpha, and a bound on its distance from the exact f*.

    Attributes:
        alpha: the coefficients, shaped like the targets. They belong to `kernel`, which is e^-log_scale
            times the one asked for; predictions do not depend on that.
        status: how it ended. Anything but `converged` means the tolerance was not reached.
        advice: one sentence on that, with the numbers, and what to do.
        steps: iterations taken.
        residuals: (steps + 1, outputs), the method's own ||r_t|| / ||y||, from 1 at the start.
        residual_norm: per output, ||y - (K + ridge I) alpha|| computed at the end in float64.
        roundoff: per output, how much that number itself can be off; it is added in every bound.
        spectrum: the estimated ends of the spectrum of the matrix worked with.
        iterates: (steps, n, outputs), if they were asked for.
        kernel, X, ridge, method: what was solved, and how.
        log_scale: the rescaling that was applied to keep the exponential in range; usually 0.
    """

    alpha: Tensor
    status: Status
    advice: str
    steps: int
    residuals: Tensor = field(repr=False)
    residual_norm: Tensor
    roundoff: Tensor = field(repr=False)
    target_norm: Tensor = field(repr=False)
    spectrum: SpectrumEnds
    kernel: Kernel
    X: Tensor = field(repr=False)
    ridge: float
    method: str
    log_scale: float = 0.0
    iterates: Tensor | None = field(default=None, repr=False)
    factor: Tensor | None = field(default=None, repr=False)

    @property
    def converged(self) -> bool:
        """Whether the float64 residual met the tolerance."""
        return self.status is Status.CONVERGED

    @property
    def relative_residual(self) -> float:
        """The largest ||y - A alpha|| / ||y|| over the outputs, in float64."""
        return float((self.residual_norm / torch.where(self.target_norm > 0, self.target_norm, 1.0)).max())

    @property
    def alpha_bound(self) -> Tensor:
        """Per output, a bound on ||alpha - alpha*||: the residual over the ridge, as A >= ridge I.

        Holds for every positive semidefinite kernel, round-off included.
        """
        return (self.residual_norm + self.roundoff) / self.ridge

    @property
    def uniform_bound(self) -> Tensor:
        """Per output, a bound on |f(x) - f*(x)| for every x with k(x, x) at most the largest on the training rows.

        That is every x at all, for a kernel with constant diagonal such as the exponential on unit rows.
        """
        n, d = self.X.shape
        roots = self.kernel.diagonal(self.X).to(torch.float64).clamp_min(0).sqrt()
        w = self.kernel.entry_error(self.X).to(torch.float64)
        size = self.alpha.reshape(n, -1).to(torch.float64).abs()
        residual = roots.max() * (self.residual_norm + self.roundoff) / self.ridge**0.5
        return residual + gamma(n + d + 8, self.X.dtype) * roots.max() * (roots @ size) + w.max() * (w @ size)

    def predict(self, Xq: Any) -> Tensor:
        """Return k(x)'alpha for every query row, shaped (q,) or (q, outputs) like the targets."""
        return self.kernel.product(as_query(Xq, self.X), self.X, self.alpha)

    def prediction_bound(self, Xq: Any) -> Tensor:
        """Return a bound on |f(x) - f*(x)| per query row, shaped like the prediction.

        The smallest of three that all hold for positive semidefinite kernels, r being the residual:
        ||k(x)|| ||r|| / ridge; sqrt(k(x, x)) ||r|| / sqrt(ridge); and, after a direct solve,
        sqrt(k(x)'A^-1 k(x)) ||r|| / sqrt(ridge). The round-off of `predict` is added.
        """
        Xq = as_query(Xq, self.X)
        rows = max(1, BLOCK_ENTRIES // self.X.shape[0])
        size = torch.cat([self._influence(block) for block in Xq.split(rows)])
        residual = self.residual_norm + self.roundoff
        bound = size[:, None] * residual[None, :] + self._prediction_roundoff(Xq)
        return bound if self.alpha.ndim == 2 else bound[:, 0]

    def _influence(self, Xq: Tensor) -> Tensor:
        """Return, per query, the least known c with |k(x)'A^-1 r| <= c ||r||."""
        own = self.kernel.diagonal(Xq).to(torch.float64).clamp_min(0)
        cross = self.kernel.dense(Xq, self.X).to(torch.float64)
        size = torch.minimum(cross.norm(dim=1) / self.ridge, (own / self.ridge).sqrt())
        if self.factor is not None and self.factor.dtype == torch.float64:
            half = torch.linalg.solve_triangular(self.factor, cross.T, upper=False)
            # 1.01 covers the triangular solve's own rounding at any condition number a Cholesky survives
            size = torch.minimum(size, 1.01 * half.norm(dim=0) / self.ridge**0.5)
        return size

    def _prediction_roundoff(self, Xq: Tensor) -> Tensor:
        """Return how far `predict` can be from k(x)'alpha in exact arithmetic, (q, outputs)."""
        n, d = self.X.shape
        alpha = self.alpha.reshape(n, -1).to(torch.float64).abs()
        roots = [self.kernel.diagonal(Z).to(torch.float64).clamp_min(0).sqrt() for Z in (Xq, self.X)]
        errors = [self.kernel.entry_error(Z).to(torch.float64) for Z in (Xq, self.X)]
        sums = gamma(n + d + 8, self.X.dtype) * roots[0][:, None] * (roots[1] @ alpha)[None, :]
        return sums + errors[0][:, None] * (errors[1] @ alpha)[None, :]
