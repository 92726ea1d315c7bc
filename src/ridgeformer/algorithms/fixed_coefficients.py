"""Algorithms whose coefficients are known before the first step: the error is a fixed polynomial in A."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from ridgeformer.algorithms.base import Iterate, Iterative, LinearSystem, Precondition, Spectrum

__all__ = ["Coefficients", "FixedCoefficients"]


class Coefficients(NamedTuple):
    """One step: change = carry * change - push * gradient(alpha + look * change), then alpha += change."""

    carry: float
    push: float
    look: float = 0.0


@dataclass(frozen=True, kw_only=True)
class FixedCoefficients(Iterative):
    """Two-term recursions on the gradient (K + ridge I) alpha - y.

    A new one gives its `coefficients`; iteration, program and error polynomial follow from them.
    """

    @abstractmethod
    def coefficients(self, spectrum: Spectrum, ridge: float) -> Iterator[Coefficients]:
        """Yield the coefficients of step 1, 2, ... for a spectrum of A within these bounds."""

    def iterate(
        self, system: LinearSystem, b: Tensor, *, spectrum: Spectrum, precondition: Precondition
    ) -> Iterator[Iterate]:
        """Yield the states; every step takes one product with A."""
        alpha, r = b.new_zeros(b.shape), b
        change = product = alpha  # product = A change
        for carry, push, look in self.coefficients(spectrum, system.ridge):
            downhill = r - look * product if look else r
            change = carry * change + push * downhill if carry else push * downhill
            product = system.apply(change)
            alpha, r = alpha + change, r - product
            yield Iterate(alpha, r)
