"""Random moves of the same size: the control that every attack must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ridgeformer.influence.attacks.base import Attack, Gradient

__all__ = ["RandomNoise"]


@dataclass(frozen=True)
class RandomNoise(Attack):
    """Moves every row by a random vector of length eps: random signs for linf, a random direction for l2.

    Example:
        >>> RandomNoise(eps=0.5)(lambda X: X.sum(), [[0.0, 0.0]]).abs()
        tensor([[0.5000, 0.5000]], dtype=torch.float64)
    """

    name: ClassVar[str] = "random_noise"

    def move(self, start: Tensor, gradient: Gradient, generator: torch.Generator) -> Tensor:
        """Return start + eps times a random unit vector, within bounds; the gradient is not asked for."""
        return self.confine(start + self.eps * self.ball.surface(start, generator), start)
