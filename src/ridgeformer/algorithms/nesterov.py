"""Nesterov's accelerated gradient: the gradient is taken where momentum would lead, depth about sqrt(kappa)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar

from torch import Tensor

from ridgeformer import bounds
from ridgeformer.algorithms.base import Bounds
from ridgeformer.algorithms.fixed_coefficients import Accelerated, Coefficients

__all__ = ["Nesterov"]


@dataclass(frozen=True, kw_only=True)
class Nesterov(Accelerated):
    """change = beta change - eta gradient(alpha + beta change), in the form for strongly convex quadratics.

    eta = 1 / high and beta = (sqrt(kappa) - 1)/(sqrt(kappa) + 1), kappa = high / low. From change = 0 the error after
    t steps is at most (1 + t/sqrt(kappa)) (1 - 1/sqrt(kappa))^t times the first, in the A-norm, if the spectrum lies in
    [low, high]; attained at the smallest eigenvalue.
    """

    name: ClassVar[str] = "nesterov"
    family: ClassVar[str] = "Nesterov's accelerated gradient"
    rate: ClassVar[str] = "(1 + t/sqrt k) (1 - 1/sqrt k)^t"

    error_factor = staticmethod(bounds.nesterov_error_factor)

    def coefficients(self, spectrum: Bounds, ridge: float | Tensor) -> Iterator[Coefficients]:
        """Yield the same step for ever."""
        low, high = self.spectrum or spectrum
        momentum = (high**0.5 - low**0.5) / (high**0.5 + low**0.5)
        return repeat(Coefficients(momentum, 1 / high, momentum))
