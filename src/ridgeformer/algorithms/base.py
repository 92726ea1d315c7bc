"""What an algorithm is: a small frozen value that says how a regression is solved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log, sqrt
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from ridgeformer.core.checks import whole

__all__ = [
    "Algorithm",
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
    """The state after one step: solution and residual per column, and CG's scalars where there are any.

    Attributes:
        alpha: (n, r).
        residual: (n, r), from the algorithm's own recursion.
        gamma: step size of each column.
        beta: direction ratio of each column.
        curvature: p'Ap / p'p of each column; A is positive definite, so it must be positive.
    """

    alpha: Tensor
    residual: Tensor
    gamma: Tensor | None = None
    beta: Tensor | None = None
    curvature: Tensor | None = None


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

        Args:
            tol: relative residual asked for.
            kappa: condition number of the matrix, at least.
            matrix: which one, "condition number" or "preconditioned condition number".
        """
        return (
            f"At {matrix} {kappa:.1e} conjugate gradients would need about {_cg_steps(tol, kappa)} steps: "
            "use algorithm='cg', or raise steps."
        )

    def advise_diverged(self, spectrum: Spectrum, assumed: float, ridge: float) -> str:
        """Say why the iteration diverged, and what to do.

        Args:
            spectrum: estimated extreme eigenvalues of A.
            assumed: the estimate from above that `solve` has handed to `iterate`.
            ridge: the ridge.
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
        self, system: LinearSystem, b: Tensor, *, spectrum: Spectrum, precondition: Precondition
    ) -> Iterator[Iterate]:
        """Yield the state after step 1, 2, ... from alpha = 0, without end.

        Args:
            system: A.
            b: right-hand sides, (n, r).
            spectrum: bounds on the extreme eigenvalues of A, for algorithms that need them.
            precondition: M^-1, for algorithms that take one.
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


@dataclass(frozen=True, kw_only=True)
class Preconditioned(Algorithm):
    """An algorithm that takes a preconditioner.

    Attributes:
        preconditioner: None, a name ("identity", "jacobi", "nystrom", "pivoted") or a builder such as
            `Nystrom(rank=200)`.
    """

    preconditioner: object = None

    def advise_more_steps(self, tol: float, kappa: float, matrix: str) -> str:
        """Say how many steps conjugate gradients needs, and what would make it faster."""
        other = "algorithm='pcg'" if self.preconditioner is None else "a preconditioner of higher rank"
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
