"""No preconditioning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from ridgeformer.solving.preconditioners.base import Preconditioner
from ridgeformer.solving.system import RidgeSystem

__all__ = ["Identity"]


@dataclass(frozen=True)
class Identity:
    """P = I, which makes preconditioned conjugate gradients plain."""

    name: ClassVar[str] = "identity"

    def build(self, system: RidgeSystem, generator: torch.Generator) -> Preconditioner:
        """Return the identity map."""
        return lambda r: r
