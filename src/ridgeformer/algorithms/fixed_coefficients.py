"""Algorithms whose coefficients are known before the first step: the error is a fixed polynomial in A."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from torch import Tensor

from ridgeformer.algorithms.base import Iterate, Iterative, LinearSystem, Precondition, Spectrum
from ridgeformer.core.errors import InputError

__all__ = ["Accelerated", "Coefficients", "FixedCoefficients"]


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

    def patience(self, n: int) -> int:
        """Return how many steps `solve` allows unless told."""
        return 100_000

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


@dataclass(frozen=True, kw_only=True)
class Accelerated(FixedCoefficients):
    """Recursions whose coefficients come from an interval that holds the spectrum of A: depth about sqrt(kappa).

    Attributes:
        spectrum: (low, high); None lets `solve` take (ridge, an estimate of the largest eigenvalue).
            `compile` needs it.
    """

    spectrum: Spectrum | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spectrum is None:
            return
        try:
            low, high = (float(end) for end in self.spectrum)
        except (TypeError, ValueError):
            low = high = float("nan")
        if not 0 < low <= high < float("inf"):
            raise InputError(
                f"spectrum is {self.spectrum!r}; (low, high) with 0 < low <= high was expected, "
                "bounds on the eigenvalues of K + ridge I."
            )
        object.__setattr__(self, "spectrum", (low, high))

    def promise(self, steps: int, spectrum: Spectrum, ridge: float) -> float:
        """Return the error factor for the interval the coefficients are made for, if it holds the spectrum."""
        low, high = self.spectrum or spectrum
        if not low <= spectrum[0] <= spectrum[1] <= high:
            return inf
        return self.error_factor(high / low, steps)

    @staticmethod
    @abstractmethod
    def error_factor(kappa: float, steps: int) -> float:
        """Return the worst case over an interval [low, high], kappa = high/low."""

    def advise_diverged(self, spectrum: Spectrum, assumed: float, ridge: float) -> str:
        """Say that an eigenvalue lies outside the interval."""
        return super().advise_diverged(spectrum, self.spectrum[1] if self.spectrum else assumed, ridge)
