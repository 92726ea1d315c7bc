"""Algorithms that can be compiled: their program in named channels, and what is known of their error in advance."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from ridgeformer.algorithms.base import Algorithm
from ridgeformer.core.errors import InputError
from ridgeformer.language.attention import KernelAttention
from ridgeformer.language.program import Program

__all__ = ["Compilable", "Promise"]


@dataclass(frozen=True)
class Promise:
    """An a-priori bound: after step t the A-norm error is at most factors[t - 1] times the first.

    Attributes:
        what: The bound in words.
        condition: Under which it is a theorem of exact arithmetic.
        met: Whether that holds for the system at hand.
        factors: One a step.
    """

    what: str
    condition: str
    met: bool
    factors: Sequence[float]


class Compilable(Algorithm):
    """An algorithm that a transformer can run: `write` gives its program, `promise` its bound for a certificate."""

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

    def promise(self, *, low: float, high: float, ridge: float, kappa: float) -> Promise:
        """Return the bound after each of its steps.

        Args:
            low: Smallest eigenvalue of K + ridge I.
            high: Largest.
            ridge: The ridge.
            kappa: Condition number of the system it iterates on, preconditioned if it is.
        """
        raise InputError(f"{self.family} does not converge to ridge regression, so it has no error bound.")

    def amplification(self, low: float, high: float, ridge: float) -> float:
        """Return by how much rounding in one step may grow in the A-norm: the condition number, or more."""
        return high / low
