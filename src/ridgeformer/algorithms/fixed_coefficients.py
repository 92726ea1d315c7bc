"""Algorithms whose coefficients are known before the first step: the error is a fixed polynomial in A."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import inf, isfinite
from typing import ClassVar, NamedTuple

from torch import Tensor

from ridgeformer.algorithms.base import Bounds, Compilable, Iterate, Iterative, LinearSystem, Precondition, Spectrum
from ridgeformer.core.errors import InputError
from ridgeformer.language.program import KernelAttention, Program
from ridgeformer.language.roles import QUERY, SUPPORT

__all__ = ["Accelerated", "Coefficients", "FixedCoefficients"]


class Coefficients(NamedTuple):
    """One step: change = carry * change - push * gradient(alpha + look * change), then alpha += change.

    Numbers, or tensors of one number a column where every column is a problem of its own.
    """

    carry: float | Tensor
    push: float | Tensor
    look: float | Tensor = 0.0

    @staticmethod
    def absent(coefficient: float | Tensor) -> bool:
        """Return whether a coefficient is the number 0, so that its term can be left out."""
        return not isinstance(coefficient, Tensor) and coefficient == 0


@dataclass(frozen=True, kw_only=True)
class FixedCoefficients(Iterative, Compilable):
    """Two-term recursions on the gradient (K + ridge I) alpha - y.

    A new one gives its `coefficients`; iteration, program and error polynomial follow from them.
    """

    def patience(self, n: int) -> int:
        """Return how many steps `solve` allows unless told."""
        return 100_000

    @abstractmethod
    def coefficients(self, spectrum: Bounds, ridge: float | Tensor) -> Iterator[Coefficients]:
        """Yield the coefficients of step 1, 2, ... for a spectrum of A within these bounds."""

    def iterate(
        self, system: LinearSystem, b: Tensor, *, spectrum: Bounds, precondition: Precondition
    ) -> Iterator[Iterate]:
        """Yield the states; every step takes one product with A."""
        alpha, r = b.new_zeros(b.shape), b
        change = product = alpha  # product = A change
        for carry, push, look in self.coefficients(spectrum, system.ridge):
            downhill = r if Coefficients.absent(look) else r - look * product
            change = push * downhill if Coefficients.absent(carry) else carry * change + push * downhill
            product = system.apply(change)
            alpha, r = alpha + change, r - product
            yield Iterate(alpha, r)

    # -- compiled ----------------------------------------------------------------------------------

    def write(self, attention: KernelAttention, ridge: float) -> Program:
        """Return the program: alpha follows the gradient u = (K + ridge I) alpha - y, one kernel product a step.

        On queries alpha and y are zero, so u is there the prediction of the alpha that entered the step.
        """
        net = attention.begin(self.family, ridge)
        attention.scratch(net)
        net.targets("y", "targets")
        net.state({"alpha": "coefficients", "u": "gradient; on queries, the prediction"})
        eta = self._write_step_size(net, attention)
        scaled, low = self.rescaled(attention.scale), ridge * attention.scale
        assert isinstance(scaled, FixedCoefficients)
        steps = list(islice(scaled.coefficients((low, low), low), 1 if self.uniform else self.steps))
        momentum, look = any(step.carry for step in steps), any(step.look for step in steps)
        if momentum:
            net.state({"step": "last change of alpha"})
        if look:
            net.state({"f": "prediction, on queries"})
        net.uniform = self.uniform
        shown = ("f", "f") if look else ("f", "u")
        for step in steps:
            net.constants = {**net.constants, **step._asdict()}
            net.begin_step()
            attention.product(net, "alpha", minus="y", ahead="step" if look else None)
            net.record(*shown, QUERY, lag=1)
            change = f"- {eta} * u"
            moved = {"step": f"carry * step {change}"} if momentum else {}
            carried = "+ carry * step " if momentum else ""
            net.gate("descend", alpha=f"alpha {carried}{change}", **moved, clear="u f" if look else "u")
            net.record("alpha", scale=attention.scale)
        net.begin_readout()
        attention.product(net, "alpha", minus="y", ahead="step" if look else None)
        net.record(*shown, QUERY)
        return net

    def amplification(self, spectrum: Spectrum, ridge: float) -> float:
        """Return the condition number, or 1/(1 - contraction) if it is larger."""
        rate, kappa = self.promise(1, spectrum, ridge), spectrum[1] / spectrum[0]
        return max(kappa, 1 / (1 - rate)) if rate < 1 else kappa

    def _write_step_size(self, net: Program, attention: KernelAttention) -> str:
        """Add what the step size needs, and return it as an expression that is zero on queries."""
        net.constant("sup", "1 on supports", on=(SUPPORT,))
        return "push * sup"


@dataclass(frozen=True, kw_only=True)
class Accelerated(FixedCoefficients):
    """Recursions whose coefficients come from an interval that holds the spectrum of A: depth about sqrt(kappa).

    Attributes:
        spectrum: (low, high); None lets `solve` take (ridge, an estimate of the largest eigenvalue).
            `compile` needs it.
    """

    spectrum: Spectrum | None = None

    rate: ClassVar[str]
    """Its error factor as a formula in words."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spectrum is None:
            return
        try:
            low, high = (float(end) for end in self.spectrum)
        except (TypeError, ValueError, OverflowError):
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
        slack = 1e-9 * spectrum[1]  # an end may be given as the computed eigenvalue itself
        if not (low <= spectrum[0] + slack and spectrum[1] <= high + slack):
            return inf
        return self.error_factor(high / low, steps)

    @staticmethod
    @abstractmethod
    def error_factor(kappa: float, steps: int) -> float:
        """Return the worst case over an interval [low, high], kappa = high/low."""

    def advise_diverged(self, spectrum: Spectrum, assumed: float, ridge: float) -> str:
        """Say that an eigenvalue lies outside the interval."""
        return super().advise_diverged(spectrum, self.spectrum[1] if self.spectrum else assumed, ridge)

    # -- compiled ----------------------------------------------------------------------------------

    def write(self, attention: KernelAttention, ridge: float) -> Program:
        """Return the program of the interval it was given."""
        if self.spectrum is None:
            raise InputError(
                f"{self.name!r} has fixed coefficients: give spectrum=(low, high), bounds on the eigenvalues of "
                "K + ridge I; (ridge, ridge + largest row sum of K) always holds."
            )
        return super().write(attention, ridge)

    def rescaled(self, scale: float, step_size: float | None = None) -> Accelerated:
        """Return the algorithm with its interval scaled."""
        if self.spectrum is None:
            return self
        return replace(self, spectrum=(self.spectrum[0] * scale, self.spectrum[1] * scale))

    def error_bound(self, spectrum: Spectrum, ridge: float) -> tuple[str, str, bool]:
        """Name the rate of its interval, which must hold the spectrum."""
        low, high = self.spectrum or spectrum
        what = f"the A-norm error stays below {self.rate} at condition number {high / low:.3g}"
        condition = "the spectrum of K + ridge I lies within the interval compiled in"
        return what, condition, isfinite(self.promise(1, spectrum, ridge))

    def amplification(self, spectrum: Spectrum, ridge: float) -> float:
        """Return the condition number of the system or of its interval, whichever is larger."""
        low, high = self.spectrum or spectrum
        return max(spectrum[1] / spectrum[0], high / low)

    @property
    def divergence_advice(self) -> str | None:
        """A larger interval."""
        return "compile with a spectrum that holds all of K + ridge I"
