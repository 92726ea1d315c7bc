"""The momentum iterative method: steps along an accumulated gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from ridgeformer.core.checks import positive, whole
from ridgeformer.core.errors import InputError, unknown_name
from ridgeformer.influence.attacks.base import Attack, Gradient

__all__ = ["MIM"]

ACCUMULATE = ("l1", "direction")


@dataclass(frozen=True)
class MIM(Attack):
    """g <- momentum g + unit gradient; a step along the direction of g [Dong2018].

    Args:
        eps: the largest move of a row.
        norm: "linf" or "l2".
        bounds: (low, high) or None.
        steps: how many.
        relative_step: the length of a step over eps; None is 1/steps, as published.
        momentum: the weight of what was accumulated, >= 0; 0 is PGD without a random start.
        accumulate: what is added to g: "l1", the gradient of a row over its 1-norm, as published; "direction",
            its direction in the attack's norm (the signs, for linf), as some libraries do.

    Example:
        >>> MIM(eps=0.5)(lambda X: (X * torch.tensor([2.0, -1.0])).sum(), [[0.0, 0.0]])
        tensor([[ 0.5000, -0.5000]], dtype=torch.float64)
    """

    steps: Any = 10
    relative_step: Any = None
    momentum: Any = 1.0
    accumulate: Any = "l1"

    name: ClassVar[str] = "mim"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole(self.steps, "steps", 1)
        if self.relative_step is not None:
            positive(self.relative_step, "relative_step", "it is a step over eps")
        if not isinstance(self.momentum, int | float) or not 0 <= self.momentum < float("inf"):
            raise InputError(f"momentum is {self.momentum!r}; a number >= 0 was expected.")
        if self.accumulate not in ACCUMULATE:
            raise unknown_name("accumulate", self.accumulate, ACCUMULATE)

    def move(self, start: Tensor, gradient: Gradient, generator: torch.Generator) -> Tensor:
        """Return the last iterate."""
        size = self.eps * (1 / self.steps if self.relative_step is None else self.relative_step)
        moved, accumulated = start, torch.zeros_like(start)
        for _ in range(self.steps):
            accumulated = self.momentum * accumulated + self._unit(gradient(moved))
            moved = self.confine(moved + size * self.ball.direction(accumulated), start)
        return moved

    def _unit(self, gradient: Tensor) -> Tensor:
        if self.accumulate == "direction":
            return self.ball.direction(gradient)
        return torch.nn.functional.normalize(gradient, p=1.0, dim=1)
