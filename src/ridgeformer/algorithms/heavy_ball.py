"""Heavy-ball momentum (Polyak): gradient descent that keeps a part of its last move, depth about sqrt(kappa)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar

from torch import Tensor

from ridgeformer import bounds
from ridgeformer.algorithms.base import Bounds
from ridgeformer.algorithms.fixed_coefficients import Accelerated, Coefficients

__all__ = ["HeavyBall"]


@dataclass(frozen=True, kw_only=True)
class HeavyBall(Accelerated):
    """change = beta change - eta gradient(alpha), with the best eta and beta for a spectrum in [low, high].

    eta = 4 / (sqrt(low) + sqrt(high))^2 and beta = q^2, q = (sqrt(kappa) - 1)/(sqrt(kappa) + 1). From change = 0 the
    error after t steps is at most (1 + t + q t) q^t times the first, in the A-norm, attained at the largest eigenvalue.
    """

    name: ClassVar[str] = "heavy_ball"
    family: ClassVar[str] = "heavy-ball momentum"
    rate: ClassVar[str] = "(1 + t + q t) q^t, q = (sqrt k - 1)/(sqrt k + 1),"

    error_factor = staticmethod(bounds.heavy_ball_error_factor)

    def coefficients(self, spectrum: Bounds, ridge: float | Tensor) -> Iterator[Coefficients]:
        """Yield the same step for ever."""
        low, high = (end**0.5 for end in self.spectrum or spectrum)
        return repeat(Coefficients(((high - low) / (high + low)) ** 2, 4 / (low + high) ** 2))
