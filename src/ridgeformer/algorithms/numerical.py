"""Algorithms that `solve` alone knows: they factorise K, mix precisions or fit a subset, and have no program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ridgeformer.algorithms.base import Algorithm, Preconditioned
from ridgeformer.core.checks import positive, whole
from ridgeformer.core.errors import unknown_name

__all__ = ["Auto", "Centres", "Direct", "MixedConjugateGradients", "MixedDirect"]


@dataclass(frozen=True, kw_only=True)
class Auto(Preconditioned):
    """Chosen by size, width, outputs and free memory; `Fit.plan` says what was chosen, and why."""

    preconditioner: object = "pivoted"

    name: ClassVar[str] = "auto"
    family: ClassVar[str] = "chosen by size and memory"


@dataclass(frozen=True, kw_only=True)
class Direct(Algorithm):
    """A Cholesky factorisation in the precision of X, refined against the float64 residual."""

    name: ClassVar[str] = "direct"
    family: ClassVar[str] = "Cholesky factorisation"


@dataclass(frozen=True, kw_only=True)
class MixedDirect(Algorithm):
    """A Cholesky factorisation in float32, refined to float64 accuracy."""

    name: ClassVar[str] = "mixed_direct"
    family: ClassVar[str] = "Cholesky factorisation in mixed precision"


@dataclass(frozen=True, kw_only=True)
class MixedConjugateGradients(Preconditioned):
    """Preconditioned block conjugate gradients with products in float32 and everything else in float64."""

    preconditioner: object = "pivoted"

    name: ClassVar[str] = "mixed_pcg"
    family: ClassVar[str] = "conjugate gradients in mixed precision"


@dataclass(frozen=True, kw_only=True)
class Centres(Algorithm):
    """Nystrom subset regression: coefficients on a few randomly pivoted rows only.

    Attributes:
        count: how many; None takes the rank a preconditioner would have, "auto" doubles their number until that no
            longer pays, or the time or the memory of `solve` ends. `Fit.doublings` says what each gained.
        fit_tol: with "auto", the part of the leave-one-out error that a doubling must take off for another to follow.
    """

    count: int | Literal["auto"] | None = None
    fit_tol: float = 0.01

    name: ClassVar[str] = "nystrom"
    family: ClassVar[str] = "Nystrom subset regression"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.count, str) and self.count != "auto":
            raise unknown_name("count", self.count, ["auto"])
        if not isinstance(self.count, str | None):
            object.__setattr__(self, "count", whole(self.count, "count", 1))
        object.__setattr__(self, "fit_tol", positive(self.fit_tol, "fit_tol", "it is a part of the error"))
