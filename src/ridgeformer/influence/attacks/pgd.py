"""Projected gradient ascent: many small steps, brought back into the ball after each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ridgeformer.core.checks import positive, whole
from ridgeformer.influence.attacks.base import Attack, Gradient

__all__ = ["PGD"]


@dataclass(frozen=True)
class PGD(Attack):
    """Steps along the direction of the gradient, projected [Madry2018].

    Args:
        eps: the largest move of a row.
        norm: "linf" or "l2".
        bounds: (low, high) or None.
        steps: how many.
        relative_step: the length of a step over eps; the default is Madry's on MNIST, 0.01 of 0.3.
        random_start: begin at a uniform draw from the ball.

    Example:
        >>> PGD(eps=0.5, random_start=False)(lambda X: -(X - 0.25).square().sum(), [[0.0]]).round(decimals=1)
        tensor([[0.2000]], dtype=torch.float64)
    """

    steps: Any = 40
    relative_step: Any = 0.01 / 0.3
    random_start: bool = True

    name: ClassVar[str] = "pgd"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.steps, "steps", 1)
        positive(self.relative_step, "relative_step", "it is a step over eps")

    def move(self, start: Tensor, gradient: Gradient, generator: torch.Generator) -> Tensor:
        """Return the last iterate."""
        moved = start
        if self.random_start:
            moved = self.confine(start + self.eps * self.ball.inside(start, generator), start)
        for _ in range(self.steps):
            step = self.relative_step * self.eps * self.ball.direction(gradient(moved))
            moved = self.confine(moved + step, start)
        return moved
