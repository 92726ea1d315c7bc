"""Conjugate gradients, plain or preconditioned: one product with K a step, depth about sqrt(kappa)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ridgeformer import bounds
from ridgeformer.algorithms.base import (
    Iterate,
    Iterative,
    LinearSystem,
    Precondition,
    Preconditioned,
    Spectrum,
    divide,
)

__all__ = ["ConjugateGradients"]


@dataclass(frozen=True, kw_only=True)
class ConjugateGradients(Preconditioned, Iterative):
    """The best polynomial in A for the targets at hand, found by inner products.

    In exact arithmetic the error in the A-norm is at most 2 ((sqrt k - 1)/(sqrt k + 1))^t times the first (claim B2),
    k the condition number of the preconditioned matrix. Columns have their own scalars and share the product with K.
    """

    name: ClassVar[str] = "cg"
    family: ClassVar[str] = "conjugate gradients"
    needs_spectrum: ClassVar[bool] = False

    @property
    def title(self) -> str:
        """Conjugate gradients, plain or preconditioned."""
        return self.family if self.preconditioner is None else f"preconditioned {self.family}"

    def promise(self, steps: int, spectrum: Spectrum, ridge: float) -> float:
        """Return the classical rate, `bounds.cg_error_factor`."""
        return bounds.cg_error_factor(spectrum[1] / spectrum[0], steps)

    def patience(self, n: int) -> int:
        """Return ten times the steps of exact arithmetic, between 1,000 and 20,000."""
        return min(20_000, max(1000, 10 * n))

    def iterate(
        self, system: LinearSystem, b: Tensor, *, spectrum: Spectrum, precondition: Precondition
    ) -> Iterator[Iterate]:
        """Yield the states; what has converged idles."""
        alpha, r = b.new_zeros(b.shape), b
        z = precondition(r)
        p, rho = z, (r * z).sum(0)
        while True:
            u = system.apply(p)
            pu = (p * u).sum(0)
            gamma = divide(rho, pu)
            alpha = alpha + gamma * p
            r = r - gamma * u
            z = precondition(r)
            rho, previous = (r * z).sum(0), rho
            beta = divide(rho, previous)
            pp = (p * p).sum(0)
            curvature = torch.where(pp > 0, pu / pp, torch.inf)
            p = z + beta * p
            yield Iterate(alpha, r, gamma, beta, curvature)
