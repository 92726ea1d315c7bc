"""The answer of a solver, with how it ended and how wrong it can be."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.checks import as_query
from ridgeformer.kernels import Kernel
from ridgeformer.kernels.base import BLOCK_ENTRIES, gamma
from ridgeformer.solvers.lanczos import SpectrumEnds
from ridgeformer.solvers.plan import Plan

__all__ = ["Solution", "Status"]


class Status(StrEnum):
    """How a solver ended."""

    CONVERGED = "converged"
    MAX_STEPS = "max_steps"
    DIVERGED = "diverged"
    BREAKDOWN = "breakdown"
    STOPPED = "stopped"
    SUBSET = "subset"


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
        kernel_roundoff: the size below which an eigenvalue of the computed K cannot be told from zero.
        iterates: (steps, n, outputs), if they were asked for.
        kernel, X, ridge, method: what was solved, and how.
        log_scale: the rescaling that was applied to keep the exponential in range; usually 0.
        plan: which method and engine were chosen, in which precision, with how much memory, and why.
        fit_error: after `method="nystrom"`, per output, an estimate from above of the root mean square difference
            between this fit and that of all rows, over the training rows.
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
    kernel_roundoff: float = field(repr=False)
    log_scale: float = 0.0
    iterates: Tensor | None = field(default=None, repr=False)
    factor: Tensor | None = field(default=None, repr=False)
    plan: Plan | None = field(default=None, repr=False)
    fit_error: Tensor | None = None

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
        return torch.from_numpy(bounds.solution_error_bound(self._residual, self.ridge))

    @property
    def uniform_bound(self) -> Tensor:
        """Per output, a bound on |f(x) - f*(x)| for every x no longer, and with no larger k(x, x), than a training row.

        That is every x at all, where all rows have unit length.
        """
        largest = self.X[self.kernel.diagonal(self.X).argmax()][None, :]
        own = self.kernel.diagonal(largest).to(torch.float64)
        bound = torch.from_numpy(bounds.prediction_error_from_diagonal(self._residual, self.ridge, own))
        return (bound + self._prediction_roundoff(self.X).max(0).values)[0]

    def predict(self, Xq: Any) -> Tensor:
        """Return k(x)'alpha for every query row, shaped (q,) or (q, outputs) like the targets."""
        Xq = as_query(Xq, self.X)
        if self.status is Status.SUBSET:  # most coefficients are zero
            used = self.alpha.reshape(len(self.X), -1).any(dim=1)
            return self.kernel.product(Xq, self.X[used], self.alpha[used])
        return self.kernel.product(Xq, self.X, self.alpha)

    def prediction_bound(self, Xq: Any) -> Tensor:
        """Return a bound on |f(x) - f*(x)| per query row, shaped like the prediction.

        The smallest of three that all hold for positive semidefinite kernels, r being the residual:
        ||k(x)|| ||r|| / ridge; sqrt(k(x, x)) ||r|| / (2 sqrt(ridge)); and, after a direct solve,
        sqrt(k(x)'A^-1 k(x)) ||r|| / sqrt(ridge). The round-off of `predict` is added.
        """
        Xq = as_query(Xq, self.X)
        rows = max(1, BLOCK_ENTRIES // self.X.shape[0])
        bound = torch.cat([self._residual_bound(block) for block in Xq.split(rows)]) + self._prediction_roundoff(Xq)
        return bound if self.alpha.ndim == 2 else bound[:, 0]

    @property
    def _residual(self) -> Tensor:
        return (self.residual_norm + self.roundoff).cpu()

    def _residual_bound(self, Xq: Tensor) -> Tensor:
        """Return the least of the known bounds on |k(x)'A^-1 r|, (q, outputs)."""
        own = self.kernel.diagonal(Xq).to(torch.float64).clamp_min(0)
        cross = self.kernel.dense(Xq, self.X).to(torch.float64)
        forms = [
            bounds.prediction_error_from_query_norm(self._residual, self.ridge, cross.norm(dim=1).cpu()),
            bounds.prediction_error_from_diagonal(self._residual, self.ridge, own.cpu()),
        ]
        if self.factor is not None and self._energy_excess is not None:
            half = torch.linalg.solve_triangular(self.factor, cross.T, upper=False)
            energy = self._energy_excess * half.square().sum(0).cpu()
            forms.append(bounds.prediction_error_from_energy(self._residual, self.ridge, energy))
        rounded = (
            self.kernel.entry_error(Xq).to(torch.float64) * self.kernel.entry_error(self.X).to(torch.float64).norm()
        )
        forms_of_exact = bounds.prediction_error_from_query_norm(self._residual, self.ridge, rounded.cpu())
        return torch.from_numpy(np.minimum.reduce(forms) + forms_of_exact).to(self.X.device)

    @property
    def _energy_excess(self) -> float | None:
        """The factor by which k'A^-1 k can exceed what the float64 Cholesky factor says; None if unbounded.

        The factor and a triangular solve with it are exact for some A + E with ||E|| <= e, four times the
        round-off of K (Higham, theorems 8.5 and 10.3), so k'A^-1 k <= k'(A + E)^-1 k / (1 - e/(ridge - e)).
        """
        error = 4 * (self.kernel_roundoff + gamma(len(self.X) + 1, torch.float64) * len(self.X) * self.ridge)
        if self.X.dtype != torch.float64 or not 4 * error < self.ridge:
            return None
        return 1 / (1 - error / (self.ridge - error))

    def _prediction_roundoff(self, Xq: Tensor) -> Tensor:
        """Return how far `predict` can be from k(x)'alpha in exact arithmetic, (q, outputs)."""
        n, d = self.X.shape
        alpha = self.alpha.reshape(n, -1).to(torch.float64).abs()
        roots = [self.kernel.diagonal(Z).to(torch.float64).clamp_min(0).sqrt() for Z in (Xq, self.X)]
        errors = [self.kernel.entry_error(Z).to(torch.float64) for Z in (Xq, self.X)]
        sums = gamma(n + d + 8, self.X.dtype) * roots[0][:, None] * (roots[1] @ alpha)[None, :]
        return sums + errors[0][:, None] * (errors[1] @ alpha)[None, :]
