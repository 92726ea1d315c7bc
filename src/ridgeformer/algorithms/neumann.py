"""The Neumann series of (K + ridge I)^-1, which needs a ridge larger than the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar

from torch import Tensor

from ridgeformer import bounds
from ridgeformer.algorithms.base import Bounds, Spectrum
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

    def coefficients(self, spectrum: Bounds, ridge: float | Tensor) -> Iterator[Coefficients]:
        """Yield the same step for ever."""
        return repeat(Coefficients(0.0, 1 / ridge))

    def promise(self, steps: int, spectrum: Spectrum, ridge: float) -> float:
        """Return `bounds.neumann_error_factor`, above 1 where the series diverges."""
        return bounds.neumann_error_factor(max(spectrum[1] - ridge, 0.0), ridge, steps)

    def diverges(self, spectrum: Spectrum, ridge: float) -> bool:
        """Return whether ||K|| >= ridge, from an eigenvalue spectrum[1] of A."""
        return spectrum[1] - ridge >= ridge

    def advise_diverged(self, spectrum: Spectrum, assumed: float, ridge: float) -> str:
        """Say which ridge it would take."""
        norm = spectrum[1] - ridge
        return (
            f"the Neumann series needs ||K|| < ridge, and ||K|| is at least {norm:.4g} with ridge {ridge:.4g}. "
            f"Use algorithm='cg', or a ridge above {norm:.4g}."
        )

    def error_bound(self, spectrum: Spectrum, ridge: float) -> tuple[str, str, bool]:
        """Name (norm(K)/ridge)^t (claim A3)."""
        ratio = self.promise(1, spectrum, ridge)
        what = f"the A-norm error stays below (norm(K)/ridge)^t, norm(K)/ridge = {ratio:.3g}"
        return what, "norm(K) < ridge", ratio < 1

    def largest_kernel_norm(self, ridge: float) -> float:
        """Return the ridge."""
        return ridge
