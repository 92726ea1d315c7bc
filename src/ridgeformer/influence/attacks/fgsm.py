"""The fast gradient (sign) method: one step of full size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ridgeformer.influence.attacks.base import Attack, Gradient

__all__ = ["FGSM"]


@dataclass(frozen=True)
class FGSM(Attack):
    """One step of length eps along the gradient [Goodfellow2015]; exact where the objective is linear.

    Example:
        >>> FGSM(eps=0.5)(lambda X: (X * torch.tensor([2.0, -1.0])).sum(), [[0.0, 0.0]])
        tensor([[ 0.5000, -0.5000]], dtype=torch.float64)
    """

    name: ClassVar[str] = "fgsm"

    def move(self, start: Tensor, gradient: Gradient, generator: torch.Generator) -> Tensor:
        """Return start + eps times the direction of the gradient, within bounds."""
        return self.confine(start + self.eps * self.ball.direction(gradient(start)), start)
