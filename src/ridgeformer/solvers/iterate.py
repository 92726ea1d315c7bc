"""What an iterative method hands out after every step, and what it is given to work with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgeformer.solvers.preconditioners import Preconditioner
from ridgeformer.solvers.system import RidgeSystem

__all__ = ["Iterate", "Method", "Workshop", "divide"]


@dataclass(frozen=True)
class Workshop:
    """What a method may use: the system, the ends of its spectrum, a preconditioner."""

    system: RidgeSystem
    ends: tuple[float, float]
    precondition: Preconditioner


@dataclass(frozen=True)
class Iterate:
    """The state after one step: solution and residual per column, and CG's scalars where there are any.

    Attributes:
        alpha: (n, r).
        residual: (n, r), as the method's own recursion has it.
        gamma: step size of each column.
        beta: direction ratio of each column.
        curvature: p'Ap / p'p of each column; A is positive definite, so it must be positive.
    """

    alpha: Tensor
    residual: Tensor
    gamma: Tensor | None = None
    beta: Tensor | None = None
    curvature: Tensor | None = None


Method = Callable[[Workshop, Tensor], Iterator[Iterate]]
"""An iterative method: from a workshop and right-hand sides, the state after step 1, 2, ... without end."""


def divide(a: Tensor, b: Tensor) -> Tensor:
    """Return a / b, and 0 where b is too small to divide by: a converged column idles, it does not turn NaN."""
    tiny = 1e8 * torch.finfo(b.dtype).tiny
    usable = b.abs() > tiny
    return torch.where(usable, a / torch.where(usable, b, 1.0), 0.0)
