"""What a preconditioner is: a function on columns, and something that builds it for a system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from ridgeformer.solving.system import RidgeSystem

__all__ = ["Builder", "Preconditioner"]

Preconditioner = Callable[[Tensor], Tensor]
"""P^-1 applied to columns; symmetric positive definite."""


@runtime_checkable
class Builder(Protocol):
    """Builds P^-1 for a system; randomised ones draw from the generator they are given."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""

    def build(self, system: RidgeSystem, generator: torch.Generator) -> Preconditioner:
        """Return P^-1 as a function on columns."""
