"""Chebyshev iteration: coefficients from the extreme eigenvalues, no inner products, depth about sqrt(kappa)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

from torch import Tensor

from ridgeformer import bounds
from ridgeformer.algorithms.base import Bounds
from ridgeformer.algorithms.fixed_coefficients import Accelerated, Coefficients

__all__ = ["Chebyshev"]


@dataclass(frozen=True, kw_only=True)
class Chebyshev(Accelerated):
    """The polynomial that is smallest on an interval which holds the spectrum of A.

    The error shrinks by 1 / T_t((kappa + 1)/(kappa - 1)) if the spectrum lies in [low, high]; eigenvalues above high
    make it diverge, eigenvalues below low make it slow.

    Example:
        >>> from itertools import islice
        >>> [tuple(step) for step in islice(Chebyshev().coefficients((1.0, 1.0), ridge=1.0), 2)]
        [(0.0, 1.0, 0.0), (0.0, 1.0, 0.0)]
    """

    name: ClassVar[str] = "chebyshev"
    family: ClassVar[str] = "Chebyshev iteration"
    rate: ClassVar[str] = "1/T_t, T_t Chebyshev's polynomial,"
    uniform: ClassVar[bool] = False

    error_factor = staticmethod(bounds.chebyshev_error_factor)

    def coefficients(self, spectrum: Bounds, ridge: float | Tensor) -> Iterator[Coefficients]:
        """Yield the coefficients of Chebyshev's three-term recursion."""
        low, high = self.spectrum or spectrum
        centre, quotient = (low + high) / 2, ((high - low) / (high + low)) ** 2
        omega: float | Tensor = 1.0
        for t in count(1):
            yield Coefficients(omega - 1.0, omega / centre)
            omega = 1 / (1 - quotient * omega / (2 if t == 1 else 4))
