"""Scaling every row by its own diagonal entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from ridgeformer.solving.preconditioners.base import Preconditioner
from ridgeformer.solving.system import RidgeSystem

__all__ = ["Jacobi"]


@dataclass(frozen=True)
class Jacobi:
    """P = diag(K) + ridge. Helps when the diagonal varies much; can hurt otherwise (claim B4)."""

    name: ClassVar[str] = "jacobi"

    def build(self, system: RidgeSystem, generator: torch.Generator) -> Preconditioner:
        """Return division by diag(K) + ridge."""
        scale = (system.diagonal + system.ridge)[:, None]
        return lambda r: r / scale
