"""Preconditioners: cheap approximations of A^-1, built once for a system.

A new one is a builder class here or in a file beside this one, and one line in `PRECONDITIONERS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from ridgeformer.algorithms.base import Precondition
from ridgeformer.core.checks import whole
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.core.products import thin_product, transposed_thin_product
from ridgeformer.solving.preconditioners.pivoted_cholesky import PivotedCholesky
from ridgeformer.solving.preconditioners.rounded_cholesky import RoundedCholesky
from ridgeformer.solving.system import RidgeSystem

__all__ = [
    "PRECONDITIONERS",
    "Builder",
    "Identity",
    "Jacobi",
    "Nystrom",
    "NystromFactor",
    "PivotedCholesky",
    "RoundedCholesky",
    "builder",
]


@runtime_checkable
class Builder(Protocol):
    """Builds P^-1 for a system; randomised ones draw from the generator they are given."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""

    def build(self, system: RidgeSystem, generator: torch.Generator) -> Precondition:
        """Return P^-1 as a function on columns."""


@dataclass(frozen=True)
class Identity:
    """P = I, which makes preconditioned conjugate gradients plain."""

    name: ClassVar[str] = "identity"

    def build(self, system: RidgeSystem, generator: torch.Generator) -> Precondition:
        """Return the identity map."""
        return lambda r: r


@dataclass(frozen=True)
class Jacobi:
    """P = diag(K) + ridge. Helps when the diagonal varies much; can hurt otherwise (claim B4)."""

    name: ClassVar[str] = "jacobi"

    def build(self, system: RidgeSystem, generator: torch.Generator) -> Precondition:
        """Return division by diag(K) + ridge."""
        scale = (system.diagonal + system.ridge)[:, None]
        return lambda r: r / scale


@dataclass(frozen=True)
class Nystrom:
    """P^-1 = (l_r + ridge) U (L + ridge)^-1 U' + (I - U U') from a rank-r randomised approximation U L U'.

    The condition number becomes a constant once the rank is about twice the effective dimension at the
    ridge [Frangella2023]. A random sketch of K finds the leading eigenvectors [Halko2011], at the cost of r products
    with K and O(n r^2).

    Args:
        rank: r; None takes ceil(2 sqrt(n)).
    """

    rank: int | None = None
    name: ClassVar[str] = "nystrom"

    def __post_init__(self) -> None:
        if self.rank is not None:
            whole(self.rank, "rank", 1)

    def build(self, system: RidgeSystem, generator: torch.Generator) -> Precondition:
        """Return P^-1 for this system; the sketch is drawn from `generator`."""
        return self.factor(system, generator).build(system, generator)

    def factor(self, system: RidgeSystem, generator: torch.Generator) -> NystromFactor:
        """Return U and L with K ~ U L U', never above K beyond round-off.

        The shift by a few units of round-off keeps the core's Cholesky factor real; it is subtracted again.
        """
        like, rank = system.X, min(system.n, self.rank or ceil(2 * sqrt(system.n)))
        omega = torch.randn(system.n, rank, generator=generator, dtype=torch.float64).to(like)
        omega, _ = torch.linalg.qr(omega)
        sketch = system.apply_kernel(omega)
        shift = sqrt(system.n) * torch.finfo(like.dtype).eps * float(sketch.norm())
        for _ in range(20):
            shifted = sketch + shift * omega
            core = omega.T @ shifted
            lower, info = torch.linalg.cholesky_ex((core + core.T) / 2)
            if int(info) == 0:
                break
            shift = 10 * shift if shift > 0 else torch.finfo(like.dtype).tiny
        half = torch.linalg.solve_triangular(lower.T, shifted, upper=True, left=False)
        U, singular, _ = torch.linalg.svd(half, full_matrices=False)
        return NystromFactor(U, (singular.square() - shift).clamp_min(0))


@dataclass(frozen=True, eq=False)
class NystromFactor:
    """K ~ U diag(values) U', values descending: a preconditioner that need not be sketched again for every solve."""

    U: Tensor
    values: Tensor
    name: ClassVar[str] = "nystrom"

    def build(self, system: RidgeSystem, generator: torch.Generator) -> Precondition:
        """Return P^-1 for this system; nothing is drawn."""
        shrink = ((self.values[-1] + system.ridge) / (self.values + system.ridge) - 1)[:, None]

        def precondition(r: Tensor) -> Tensor:
            small = transposed_thin_product(self.U, r.to(self.U.dtype))
            return r + thin_product(self.U, shrink * small).to(r.dtype)

        return precondition


PRECONDITIONERS: dict[str, Builder] = {
    "identity": Identity(),
    "jacobi": Jacobi(),
    "nystrom": Nystrom(),
    "pivoted": PivotedCholesky(),
    "rounded": RoundedCholesky(),
}


def builder(choice: object) -> Builder:
    """Return the builder of a preconditioner given by name or as itself; None is the identity."""
    if choice is None:
        return Identity()
    if isinstance(choice, str):
        if choice not in PRECONDITIONERS:
            raise unknown_name("preconditioner", choice, PRECONDITIONERS)
        return PRECONDITIONERS[choice]
    if not isinstance(choice, Builder):
        raise InputError(f"preconditioner is {choice!r}; a name or a builder such as Nystrom(rank=200) was expected.")
    return choice
