"""Richardson iteration, which is gradient descent with a fixed step: depth about kappa."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from math import inf
from typing import ClassVar

from torch import Tensor

from ridgeformer import bounds
from ridgeformer.algorithms.base import Bounds, Spectrum
from ridgeformer.algorithms.fixed_coefficients import Coefficients, FixedCoefficients
from ridgeformer.core.checks import positive
from ridgeformer.language.program import KernelAttention, Program

__all__ = ["Richardson"]


@dataclass(frozen=True, kw_only=True)
class Richardson(FixedCoefficients):
    """alpha <- alpha - eta ((K + ridge I) alpha - y).

    Converges iff 0 < eta < 2 / (largest eigenvalue); the best fixed step, 2 / (low + high), shrinks the error by
    (kappa - 1)/(kappa + 1) a step.

    Attributes:
        step_size: eta; None is 2 / (low + high) in `solve` and a safe step found in context in `compile`.

    Example:
        >>> next(Richardson().coefficients((1.0, 3.0), ridge=1.0)).push
        0.5
    """

    step_size: float | None = None

    name: ClassVar[str] = "richardson"
    family: ClassVar[str] = "gradient descent"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step_size is not None:
            size = positive(self.step_size, "step_size", "alpha moves against the gradient")
            object.__setattr__(self, "step_size", size)

    def patience(self, n: int) -> int:
        """Return how many steps `solve` allows unless told."""
        return 1_000_000

    def coefficients(self, spectrum: Bounds, ridge: float | Tensor) -> Iterator[Coefficients]:
        """Yield the same step for ever."""
        return repeat(Coefficients(0.0, self.step_size or 2 / sum(spectrum)))

    def promise(self, steps: int, spectrum: Spectrum, ridge: float) -> float:
        """Return max |1 - eta eigenvalue|^t over the spectrum, which is attained at an extreme eigenvalue."""
        if self.step_size is None:
            return bounds.richardson_error_factor(spectrum[1] / spectrum[0], steps)
        try:
            return max(abs(1 - self.step_size * end) for end in spectrum) ** steps
        except OverflowError:
            return inf

    def advise_diverged(self, spectrum: Spectrum, assumed: float, ridge: float) -> str:
        """Say which step size would converge."""
        if self.step_size is None:
            return super().advise_diverged(spectrum, assumed, ridge)
        return (
            f"step_size {self.step_size:.4g} is too large for an eigenvalue of about {spectrum[1]:.4g}. "
            f"Use algorithm='cg', which needs none, or a step size below {2 / spectrum[1]:.4g}."
        )

    # -- compiled ----------------------------------------------------------------------------------

    def _write_step_size(self, net: Program, attention: KernelAttention) -> str:
        if self.step_size is not None:
            return super()._write_step_size(net, attention)
        attention.safe_step(net)
        return "eta"

    def rescaled(self, scale: float, step_size: float | None = None) -> Richardson:
        """Return gradient descent with the step size found in context, or with its own, for the scaled system."""
        own = None if self.step_size is None else self.step_size / scale
        return replace(self, step_size=own if step_size is None else step_size)

    def error_bound(self, spectrum: Spectrum, ridge: float) -> tuple[str, str, bool]:
        """Name the contraction of its step size."""
        rate = self.promise(1, spectrum, ridge)
        what = f"the A-norm error falls by {rate:.6g} a step"
        return what, "0 < step size < 2/(largest eigenvalue)", rate < 1

    @property
    def divergence_advice(self) -> str | None:
        """A smaller step size, where it has one."""
        return None if self.step_size is None else "compile with a smaller step_size"
