"""What an algorithm needs of attention to be written as a program: kernel products, means and a safe step size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from ridgeformer.language.program import Program

__all__ = ["KernelAttention"]


class KernelAttention(ABC):
    """A way for attention to multiply by a kernel matrix.

    Programs work with `scale` times the kernel and the ridge, which leaves the predictions as they are.
    """

    name: ClassVar[str]
    trilinear: ClassVar[bool] = False
    """Whether heads multiply three channels, (q.k) v: linear attention, where products need no gated sublayer."""

    @property
    def scale(self) -> float:
        """The factor by which the program scales the kernel and the ridge."""
        return 1.0

    @abstractmethod
    def begin(self, algorithm: str, ridge: float, *, products: bool = True) -> Program:
        """Return a program with the features, the constant 1, and what kernel products read if it has any."""

    @abstractmethod
    def scratch(self, net: Program) -> None:
        """Declare the channels that a kernel product writes and clears."""

    @abstractmethod
    def product(self, net: Program, v: str, *, minus: str | None = None, ahead: str | None = None) -> None:
        """Add u = (K + ridge I) v - minus.

        With `ahead` it is u = (K + ridge I) (v + look ahead) - minus, `look` a constant of the program, and f = K v.
        """

    def mean(self, net: Program, what: str) -> None:
        """Add s = mean of w over the supports."""
        raise NotImplementedError(f"{self.name} attention takes sums, not means")

    def safe_step(self, net: Program) -> None:
        """Add to the prelude eta, on supports: a step size below 2 / (largest eigenvalue of K + ridge I)."""
        raise NotImplementedError(f"{self.name} attention has no safe step size in context")

    def average(self, net: Program, target: str, source: str) -> None:
        """Add target = kernel-weighted mean of source, on queries."""
        raise NotImplementedError(f"{self.name} attention takes no weighted means")
