"""The Neumann series of (K + ridge I)^-1, which needs a ridge larger than the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar

from ridgeformer.algorithms.base import Spectrum
from ridgeformer.algorithms.fixed_coefficients import Coefficients, FixedCoefficients

__all__ = ["Neumann"]


@dataclass(frozen=True, kw_only=True)
class Neumann(FixedCoefficients):
    """Partial sums of sum_j (-K / ridge)^j y / ridge: gradient descent with step size 1 / ridge.

    Converges for every y iff ||K|| < ridge. An exponential kernel has K_ii >= 1, so a ridge below 1 always diverges
    (claim A3).
    """

    name: ClassVar[str] = "neumann"
    family: ClassVar[str] = "Neumann series"
    patience: ClassVar[int] = 100_000

    def coefficients(self, spectrum: Spectrum, ridge: float) -> Iterator[Coefficients]:
        """Yield the same step for ever."""
        return repeat(Coefficients(0.0, 1 / ridge))
