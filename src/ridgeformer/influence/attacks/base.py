"""What every attack shares: rows that may move, how far, between which bounds, and the gradient that leads."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor

from ridgeformer.core.checks import as_matrix, whole
from ridgeformer.core.errors import DtypeError, InputError, unknown_name
from ridgeformer.core.seeds import torch_generator
from ridgeformer.influence.attacks.balls import BALLS, Ball
from ridgeformer.influence.group import as_rows

__all__ = ["Attack", "Gradient", "Objective"]

Objective: TypeAlias = Callable[[Tensor], Tensor]
"""What an attack raises: a differentiable function of all rows, (n, d); if it gives many numbers, their sum."""

Gradient: TypeAlias = Callable[[Tensor], Tensor]
"""The gradient of the objective in the rows that move, given where they are."""


@dataclass(frozen=True)
class Attack(ABC):
    """Moves rows by at most eps each, within bounds, to raise an objective.

    All rows move together in every step. Where the objective is a sum of terms of one row each, this is the
    textbook attack on every row by itself. No range is assumed: bounds are (low, high) or there are none.

    Args:
        eps: the largest move of a row, >= 0, in the units of the rows.
        norm: "linf" or "l2", what eps measures.
        bounds: (low, high) for every entry of a moved row, or None.
    """

    eps: Any
    norm: Any = "linf"
    bounds: Any = None

    name: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", _size(self.eps))
        if self.norm not in BALLS:
            raise unknown_name("norm", self.norm, BALLS)
        if self.bounds is not None:
            object.__setattr__(self, "bounds", _interval(self.bounds))

    def __call__(self, objective: Objective, X: Any, *, rows: Any = None, seed: int = 0) -> Tensor:
        """Return X with the given rows moved; None means all rows.

        Raises:
            InputError: rows outside the bounds before anything moved, or an objective without a finite gradient.
        """
        X = as_matrix(X, "X").detach()
        rows = torch.arange(len(X), device=X.device) if rows is None else as_rows(rows, len(X), X.device)
        start = X[rows]
        self._check_bounds(start)
        if self.eps == 0:
            return X.clone()
        generator = torch_generator(whole(seed, "seed", 0), "attack", self.name)

        def gradient(moved: Tensor) -> Tensor:
            leaf = moved.detach().clone().requires_grad_()
            with torch.enable_grad():
                found = torch.autograd.grad(objective(X.index_copy(0, rows, leaf)).sum(), leaf)[0]
            if not bool(torch.isfinite(found).all()):
                raise InputError("the gradient of the attacked objective is not finite: attack a smooth one.")
            return found

        return X.index_copy(0, rows, self.move(start, gradient, generator))

    @abstractmethod
    def move(self, start: Tensor, gradient: Gradient, generator: torch.Generator) -> Tensor:
        """Return where the rows end up."""

    def clipped_to(self, X: Any) -> Attack:
        """Return this attack with bounds at the smallest and the largest entry of X: no pixel leaves the data's range.

        Raises:
            InputError: all entries of X are equal.
        """
        X = as_matrix(X, "X")
        return replace(self, bounds=(float(X.min()), float(X.max())))

    @property
    def ball(self) -> Ball:
        """The ball of the norm."""
        return BALLS[self.norm]

    def confine(self, moved: Tensor, start: Tensor) -> Tensor:
        """Return the rows brought back to within eps of their start, then to within the bounds."""
        moved = start + self.ball.project(moved - start, self.eps)
        return moved if self.bounds is None else moved.clamp(*self.bounds)

    def _check_bounds(self, start: Tensor) -> None:
        if self.bounds is None:
            return
        low, high = float(start.min()), float(start.max())
        if low < self.bounds[0] or high > self.bounds[1]:
            raise InputError(
                f"the rows go from {low:.4g} to {high:.4g} and the bounds are {self.bounds}: bounds must hold the data "
                "before the attack; widen them, or use None."
            )


def _size(eps: Any) -> float:
    try:
        number = float(eps)
    except (TypeError, ValueError):
        raise DtypeError(f"eps is {eps!r}; a number >= 0 was expected, the largest move of a row.") from None
    if not (math.isfinite(number) and number >= 0):
        raise InputError(f"eps is {number:g}; a finite number >= 0 was expected, the largest move of a row.")
    return number


def _interval(bounds: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError):
        low = high = math.nan
    if not low < high:
        raise InputError(f"bounds are {bounds!r}; (low, high) with low < high was expected, or None for no bounds.")
    return low, high
