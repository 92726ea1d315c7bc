"""Algorithms that can be compiled: their program in named channels, and what is known of their error in advance."""

from __future__ import annotations

from abc import abstractmethod
from math import inf
from typing import ClassVar

from ridgeformer.algorithms.base import Algorithm, Spectrum
from ridgeformer.core.errors import InputError
from ridgeformer.language.attention import KernelAttention
from ridgeformer.language.program import Program

__all__ = ["Compilable"]


class Compilable(Algorithm):
    """An algorithm that a transformer can run: `write` gives its program."""

    uniform: ClassVar[bool] = True
    """Whether all steps have the same weights."""
    inner_products: ClassVar[bool] = False
    """Whether it forms inner products of residuals and divides by them."""

    @abstractmethod
    def write(self, attention: KernelAttention, ridge: float) -> Program:
        """Return the program; raises InputError where this attention cannot run the algorithm."""

    def rescaled(self, scale: float, step_size: float | None = None) -> Compilable:
        """Return the algorithm for scale (K + ridge I).

        Args:
            scale: What the system is multiplied by.
            step_size: For that system, where one was found in context.
        """
        return self

    @property
    def preconditioned(self) -> bool:
        """Whether it divides residuals by the diagonal of K + ridge I."""
        return False

    def largest_kernel_norm(self, ridge: float) -> float:
        """Return the norm of K from which on it diverges."""
        return inf

    @property
    def divergence_advice(self) -> str | None:
        """How to compile it so that it does not diverge, where it can."""
        return None

    def error_bound(self, spectrum: Spectrum, ridge: float) -> tuple[str, str, bool]:
        """Return in words what `promise` bounds, the condition on which it does, and whether that is met.

        Args:
            spectrum: Extreme eigenvalues of the system it iterates on, preconditioned if it is.
            ridge: The ridge.
        """
        raise InputError(f"{self.family} does not converge to ridge regression, so it has no error bound.")

    def amplification(self, spectrum: Spectrum, ridge: float) -> float:
        """Return by how much rounding in one step may grow in the A-norm: the condition number of A, or more."""
        return spectrum[1] / spectrum[0]
