"""What an algorithm is: a small frozen value that says how a regression is solved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from ridgeformer.core.checks import whole
from ridgeformer.core.errors import InputError
from ridgeformer.language.program import KernelAttention, Program

__all__ = [
    "Algorithm",
    "Bounds",
    "Compilable",
    "Iterate",
    "Iterative",
    "LinearSystem",
    "Precondition",
    "Preconditioned",
    "Spectrum",
    "divide",
]

Precondition: TypeAlias = Callable[[Tensor], Tensor]
"""Columns to columns: M^-1 applied to a residual."""

Spectrum: TypeAlias = tuple[float, float]
"""Bounds (low, high) on the extreme eigenvalues of A = K + ridge I."""

Bounds: TypeAlias = Spectrum | tuple[Tensor, Tensor]
"""The same, or one pair a column where every column is a problem of its own."""


@runtime_checkable
class LinearSystem(Protocol):
    """A = K + ridge I as an algorithm sees it: a product with columns, and the ridge."""

    @property
    def ridge(self) -> float:
        """The ridge."""

    def apply(self, V: Tensor) -> Tensor:
        """Return A V."""


@dataclass(frozen=True)
class Iterate:
    """The state after one step: coefficients, the residual by the algorithm's own recursion, and CG's scalars.

    Those are, per column, the step size gamma, the direction ratio beta and the curvature p'Ap / p'p, which must be
    positive as A is positive definite.
    """

    alpha: Float[Tensor, "n r"]
    residual: Float[Tensor, "n r"]
    gamma: Float[Tensor, " r"] | None = None
    beta: Float[Tensor, " r"] | None = None
    curvature: Float[Tensor, " r"] | None = None


@dataclass(frozen=True, kw_only=True)
class Algorithm(ABC):
    """How a regression is solved: a frozen value that owns its options.

    An algorithm has up to four faces. `name` and `family` say what it is called; `iterate` runs it on an operator
    (`Iterative`); `write` writes it as a program of named channels, for the compiler; `promise` is its a-priori error
    bound. One that lacks a face is not of the type that has it.

    Attributes:
        steps: how many steps it takes; None leaves that to `solve`, which stops at its tolerance.
    """

    steps: int | None = None

    name: ClassVar[str]
    """The shorthand, such as "cg"."""
    family: ClassVar[str]
    """What it is called in the literature."""

    def __post_init__(self) -> None:
        if self.steps is not None:
            object.__setattr__(self, "steps", whole(self.steps, "steps", 1))

    @property
    def title(self) -> str:
        """The family and, where an option changes it, the variant: "preconditioned conjugate gradients"."""
        return self.family

    def advise_more_steps(self, tol: float, kappa: float, matrix: str) -> str:
        """Say what to do after the steps ran out.

        `kappa` is at most the condition number of the system, or of the preconditioned one; `matrix` says which.
        """
        return (
            f"At {matrix} {kappa:.1e} conjugate gradients would need about {_cg_steps(tol, kappa)} steps: "
            "use algorithm='cg', or raise steps."
        )

    def advise_diverged(self, spectrum: Spectrum, assumed: float, ridge: float) -> str:
        """Say why the iteration diverged, and what to do.

        `spectrum` is estimated from inside, `assumed` is the estimate from above that `iterate` was given.
        """
        return (
            f"an eigenvalue (about {spectrum[1]:.4g}) lies above the largest assumed ({assumed:.4g}). "
            "Use algorithm='cg', which assumes none, or give a larger one."
        )


class Iterative(Algorithm):
    """An algorithm that needs nothing but products with A."""

    needs_spectrum: ClassVar[bool] = True
    """Whether `iterate` reads the extreme eigenvalues of A."""

    @abstractmethod
    def patience(self, n: int) -> int:
        """Return how many steps `solve` allows for n rows unless told."""

    @abstractmethod
    def iterate(
        self, system: LinearSystem, b: Tensor, *, spectrum: Bounds, precondition: Precondition
    ) -> Iterator[Iterate]:
        """Yield the state after step 1, 2, ... for right-hand sides b, (n, r), from alpha = 0 and without end.

        `spectrum` and `precondition` are for algorithms that need them.
        """

    @abstractmethod
    def promise(self, steps: int, spectrum: Spectrum, ridge: float) -> float:
        """Return a bound on the error after `steps` steps from zero, relative to that of zero, in the A-norm.

        Holds in exact arithmetic, for every right-hand side, if the eigenvalues of A (of M^-1 A, with a preconditioner)
        lie in `spectrum`. Infinite where the options given promise nothing for it.
        """

    def diverges(self, spectrum: Spectrum, ridge: float) -> bool:
        """Return whether it diverges on a matrix with an eigenvalue spectrum[1] for almost all targets."""
        return False


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
        """Return the algorithm for scale (K + ridge I), with its step size where one was found in context."""
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

        `spectrum` holds the extreme eigenvalues of the system it iterates on, preconditioned if it is.
        """
        raise InputError(f"{self.family} does not converge to ridge regression, so it has no error bound.")

    def amplification(self, spectrum: Spectrum, ridge: float) -> float:
        """Return by how much rounding in one step may grow in the A-norm: the condition number of A, or more."""
        return spectrum[1] / spectrum[0]


@dataclass(frozen=True, kw_only=True)
class Preconditioned(Algorithm):
    """An algorithm that takes a preconditioner.

    Attributes:
        preconditioner: None, a name ("identity", "jacobi", "nystrom", "pivoted", "rounded") or a builder such as
            `Nystrom(rank=200)`.
    """

    preconditioner: object = None

    def advise_more_steps(self, tol: float, kappa: float, matrix: str) -> str:
        """Say how many steps conjugate gradients needs, and what would make it faster."""
        other = "algorithm='pcg'" if self.preconditioner is None else "another preconditioner or one of higher rank"
        return (
            f"At the {matrix} found so far ({kappa:.1e}) about {_cg_steps(tol, kappa)} steps are needed: "
            f"raise steps, or use {other}."
        )


def _cg_steps(tol: float, kappa: float) -> int:
    return max(1, round(sqrt(kappa) * log(2 / tol) / 2))


def divide(a: Tensor, b: Tensor) -> Tensor:
    """Return a / b, and 0 where b is too small to divide by: a converged column idles, it does not turn NaN."""
    tiny = 1e8 * torch.finfo(b.dtype).tiny
    usable = b.abs() > tiny
    return torch.where(usable, a / torch.where(usable, b, 1.0), 0.0)
